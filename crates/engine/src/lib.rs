//! Nitro's engine: it moves the data according to the decisions of the cache manager (`nitro-cache`).
//!
//! The engine is generic over its ports ([`Device`](nitro_port::Device), [`Clock`](nitro_port::Clock)) and names no
//! async runtime, so that the same code runs on io_uring in the server and on a deterministic executor with simulated
//! devices in tests. The host polls [`Cache::insertion_worker`], [`Cache::journal_worker`],
//! [`Volume::readahead_worker`] and [`Volume::destage_worker`] on threads of its choice.
#![forbid(unsafe_code)]

mod cache;
mod classify;
mod discard;
mod domain;
mod doubts;
mod endurance;
mod error;
mod fingerprints;
mod flash;
pub mod format;
mod health;
mod insert;
pub mod inspect;
pub mod journal;
mod kept;
mod live;
pub mod metrics;
mod pins;
mod ram;
mod recovery;
mod relay;
mod resident;
mod resize;
mod settings;
mod volume;
mod write_log;
mod writeback;

pub use cache::{Cache, CacheStatus};
pub use classify::{Classifier, Learned};
pub use discard::Discard;
pub use domain::DedupDomain;
pub use doubts::CrashMemory;
pub use endurance::{Endurance, EnduranceStatus};
pub use error::{Error, ErrorKind};
pub use fingerprints::{ContentPlace, FingerprintIndex, NoIndex};
pub use flash::{DeviceCounters, DeviceState, DeviceStatus, Flash};
pub use health::Health;
pub use nitro_cache as manager;
pub use pins::PinError;
pub use ram::RamPart;
pub use recovery::Recovered;
pub use relay::IndexRelay;
pub use settings::{EngineSettings, LiveSettings};
pub use volume::{
    CachedRun, Change, DestageFailure, Explained, Growing, Pieces, PointSettings, PointStatus, Rest, Slowed, SlowedBy,
    StoredAt, Volume, VolumeEntry, VolumeOptions, WriteMode,
};
pub use write_log::{LogDevice, LogStatus, MissingLog};
pub use writeback::DirtyShare;
