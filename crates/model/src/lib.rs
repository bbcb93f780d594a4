//! Models of devices: an SSD ([`flash`]), with its flash translation layer, wear and timing, and the mechanics of hard
//! disks ([`disk`]), which an emulated device and the simulator share.
//!
//! The models do no I/O and have no clock, threads or data: they take requests with their times of arrival, and return
//! the times when the requests end. The translation layers are those of Nitro §4: hybrid mapping, page mapping, and an
//! SSD designed together with its cache. Only the module [`flash::device`] handles data: it gives a device the
//! latencies of the model, by a real clock or a virtual one.
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
pub use flash::{
    AnyFtl, BlockId, CoDesigned, CoDesignedSettings, Counters, Flash, Ftl, FtlSettings, Geometry, Hybrid,
    HybridSettings, Lpn, Medium, Merges, Nanos, PageMapped, PageMappedSettings, PageRun, Ppn, Ssd, Timing,
    VictimPolicy, Wear,
};
#[cfg(feature = "device")]
pub use flash::{SleepClock, SsdDevice};
