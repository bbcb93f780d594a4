//! Virtual time: the devices behind the cache, the arrival of requests, and their ends.

mod disks;
mod origin;
mod settings;
mod timed;
mod window;

pub use settings::{Cos, Cpu, Disks, Load, Origin, Raid, SsdSpeed, Timing};
pub(crate) use timed::simulate;
