//! A model of an SSD: what its flash translation layer does with the pages it is given, what that wears out and how
//! long it takes. Beside it, the mechanics of hard disks ([`hdd`]), which a device and a simulation share.
//!
//! No I/O, no clock, no threads and no bytes: it is told of requests and of the time at
//! which they arrive, and answers when they are done. The layers are those of Nitro §4: hybrid mapping, page mapping, and
//! an SSD designed together with its cache. The module [`device`] alone has bytes: it makes a device as slow as the model.
//!
//! ```
//! use nitro_ssd::{FtlSettings, Geometry, HybridSettings, Lpn, Nanos, PageRun, Ssd, Timing};
//!
//! let settings = FtlSettings::Hybrid(HybridSettings::default());
//! let geometry = settings.geometry_for(Geometry::default(), 64 << 20)?;
//! let mut ssd = Ssd::new(settings.build(geometry)?, Timing::for_geometry(&geometry));
//! let weu = PageRun { first: Lpn(0), pages: geometry.block_pages() };
//! let written = ssd.write(Nanos::ZERO, weu)?;
//! let overwritten = ssd.write(written, weu)?;
//! assert!(overwritten > written);
//! assert_eq!(ssd.counters().merges.switch, 1);
//! assert_eq!(ssd.counters().write_amplification(), 1.0);
//! # Ok::<(), nitro_ssd::Error>(())
//! ```
#![forbid(unsafe_code)]

mod counters;
#[cfg(feature = "device")]
pub mod device;
mod divisor;

mod error;
mod flash;
pub mod ftl;
mod geometry;
pub mod hdd;
mod ids;
mod lists;
mod medium;
mod ssd;
mod timeline;
mod timing;

pub use counters::{Counters, Merges, Wear};

#[cfg(feature = "device")]
pub use device::SsdDevice;
pub use error::Error;
pub use flash::Flash;
pub use ftl::{
    AnyFtl, CoDesigned, CoDesignedSettings, Ftl, FtlSettings, Hybrid, HybridSettings, PageMapped, PageMappedSettings,
    VictimPolicy,
};
pub use geometry::Geometry;
pub use ids::{BlockId, Lpn, Nanos, PageRun, Ppn};
pub use medium::Medium;
pub use ssd::Ssd;
pub use timing::Timing;
