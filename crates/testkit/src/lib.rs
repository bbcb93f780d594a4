//! What tests of several crates share: random numbers from a seed, seeds that can be replayed, and virtual time. A dependency of tests
//! alone, but for `papers`, whose experiments run in virtual time.
#![forbid(unsafe_code)]

mod random;
mod seeds;
mod time;

pub use random::{Rng, noise};
pub use seeds::{Replay, seeds};
pub use time::VirtualTime;
