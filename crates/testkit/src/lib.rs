//! Helpers for the tests of several crates: random numbers from a seed, replayable seeds, a virtual executor with its
//! clock, a device that simulates power failures, and running a program. Only tests depend on this crate, except for crate `papers`, whose
//! experiments run in virtual time.
#![forbid(unsafe_code)]

pub mod crashing;
mod erased;
mod executor;
mod pages;
pub mod programs;
mod random;
mod seeds;
mod time;
mod versions;

pub use crashing::CrashingDevice;
pub use erased::Erased;
pub use executor::Simulation;
pub use pages::pages;
pub use random::{Rng, noise};
pub use seeds::{Replay, for_seeds, seeds, trace};
pub use time::VirtualTime;
pub use versions::Versions;
