//! What tests of several crates share: random numbers from a seed, seeds that can be replayed, a virtual executor with its clock, and
//! a device whose power can fail. A dependency of tests alone, but for `papers`, whose experiments run in virtual time.
#![forbid(unsafe_code)]

pub mod crashing;
mod executor;
mod random;
mod seeds;
mod time;
mod versions;

pub use crashing::CrashingDevice;
pub use executor::Simulation;
pub use random::{Rng, noise};
pub use seeds::{Replay, for_seeds, seeds, trace};
pub use time::VirtualTime;
pub use versions::Versions;
