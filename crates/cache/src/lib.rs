//! Nitro's cache manager: every caching *decision* and nothing else.
//!
//! It has no I/O, no clock, no threads, no data bytes: it gets requests, fingerprints and stored sizes, and returns
//! locations and decisions. Therefore the server and the simulator can run the same code.
#![forbid(unsafe_code)]

pub mod admission;
pub mod class;
pub mod curve;
pub mod destage;
mod dirty;
pub mod eviction;
mod file_index;
mod fingerprint_index;
mod forget;
pub mod forward;
mod gone;
mod location;
mod lru_map;
mod manager;
pub mod pattern;
pub mod pins;
pub mod ram;
mod resize;
mod restore;
pub mod settings;
pub mod staging;
mod stats;
mod sweep;
mod table;
mod thrift;
mod warm;
pub mod weu;
mod write_back;

pub use dirty::DirtyExtent;
pub use gone::{Gone, Missed, Worth};
pub use location::Location;
pub use lru_map::LruMap;
pub use manager::{Append, CacheManager, Evicted};
pub use restore::{FORGOTTEN_RUN_MAX, Forgotten, Restored, RestoredEntry};
pub use settings::{SettingError, Settings};
pub use stats::Stats;
pub use thrift::{Budget, Thrift};
pub use write_back::Superseded;

/// docs/adding-a-policy.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-policy.md")]
struct AddingAPolicy;
