//! Virtual time: what the devices behind the cache are, and how requests come.

mod settings;

pub use settings::{Cos, Cpu, Disks, Load, Origin, Raid, Timing};
