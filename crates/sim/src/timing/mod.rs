//! Virtual time: what the devices behind the cache are, how requests come, and when they are done.

mod disks;
mod origin;
mod settings;
mod timed;
mod window;

pub use settings::{Cos, Cpu, Disks, Load, Origin, Raid, SsdSpeed, Timing};
pub(crate) use timed::simulate;
