//! Helpers for the tests of several crates: random numbers from a seed, replayable seeds, a virtual executor with its
//! clock, and a device that simulates power failures. Only tests depend on this crate, except for crate `papers`, whose
//! experiments run in virtual time.
#![forbid(unsafe_code)]

pub mod crashing;
mod erased;
mod executor;
mod random;
mod seeds;
mod time;
mod versions;

pub use crashing::CrashingDevice;
pub use erased::Erased;
pub use executor::Simulation;
pub use random::{Rng, noise};
pub use seeds::{Replay, for_seeds, seeds, trace};
pub use time::VirtualTime;
pub use versions::Versions;
