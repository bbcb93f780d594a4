//! Models of devices: an SSD ([`flash`]), that is what its flash translation layer does with the pages it is given, what
//! that wears out and how long it takes; and the mechanics of hard disks ([`disk`]), which a device and a simulation share.
//!
//! No I/O, no clock, no threads and no bytes: it is told of requests and of the time at
//! which they arrive, and answers when they are done. The layers are those of Nitro §4: hybrid mapping, page mapping, and
//! an SSD designed together with its cache. The module [`flash::device`] alone has bytes: it makes a device as slow as the model.
//!
//! ```
//! use nitro_model::{FtlSettings, Geometry, HybridSettings, Lpn, Nanos, PageRun, Ssd, Timing};
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
//! # Ok::<(), nitro_model::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod disk;
mod error;
pub mod flash;

pub use error::Error;
#[cfg(feature = "device")]
pub use flash::SsdDevice;
pub use flash::{
    AnyFtl, BlockId, CoDesigned, CoDesignedSettings, Counters, Flash, Ftl, FtlSettings, Geometry, Hybrid,
    HybridSettings, Lpn, Medium, Merges, Nanos, PageMapped, PageMappedSettings, PageRun, Ppn, Ssd, Timing,
    VictimPolicy, Wear,
};
