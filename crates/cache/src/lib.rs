//! Nitro's cache manager: all caching *decisions*, without I/O, clock, threads or data.
//!
//! Its input are requests, fingerprints and stored sizes; its output are locations and decisions. Therefore the server
//! and the simulator run the same code.
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

/// The examples of docs/adding-a-policy.md, which are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-policy.md")]
struct AddingAPolicy;
