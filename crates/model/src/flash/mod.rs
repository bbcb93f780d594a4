//! A model of an SSD: its flash, its translation layer, its wear and its timing.

mod chips;
#[cfg(feature = "device")]
mod clock;
mod counters;
#[cfg(feature = "device")]
pub mod device;
mod divisor;
pub mod ftl;
mod geometry;
mod ids;
mod lists;
mod medium;
mod ssd;
mod timeline;
mod timing;

pub use counters::{Counters, Merges, Wear};

pub use chips::Flash;
#[cfg(feature = "device")]
pub use clock::SleepClock;
#[cfg(feature = "device")]
pub use device::SsdDevice;
pub use ftl::{
    AnyFtl, CoDesigned, CoDesignedSettings, Ftl, FtlSettings, Hybrid, HybridSettings, PageMapped, PageMappedSettings,
    VictimPolicy,
};
pub use geometry::Geometry;
pub use ids::{BlockId, Lpn, Nanos, PageRun, Ppn};
pub use medium::Medium;
pub use ssd::Ssd;
pub use timing::{NITRO_READS, NITRO_WRITES, Timing};
