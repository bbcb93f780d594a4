//! Nitro's cache manager: all caching *decisions*, without I/O, clock, threads or data.
//!
//! Its input are requests, fingerprints and stored sizes; its output are locations and decisions. Therefore the server
//! and the simulator run the same code.
#![forbid(unsafe_code)]

pub mod admission;
pub mod builtin;
mod by_name;
pub mod class;
pub mod curve;
pub mod destage;
mod dirty;
pub mod eviction;
mod file_index;
mod fingerprint_index;
pub mod forward;
mod gone;
mod lru_map;
mod manager;
pub mod partial;
pub mod pattern;
pub mod pins;
pub mod ram;
pub mod reads;
pub mod settings;
mod shelf;
pub mod staging;
mod stats;
mod table;
mod tag_index;
mod thrift;
mod unrecorded;
pub mod weu;

pub use dirty::DirtyExtent;
pub use gone::{Gone, Missed, Worth};
pub use lru_map::LruMap;
pub use manager::{
    Append, CacheManager, Candidate, DupRecord, Evicted, FORGOTTEN_RUN_MAX, Forgotten, FrozenExtents, RECORD_STEP,
    Restored, RestoredEntry, RestoredRecord, Retirement, Superseded,
};
pub use settings::{IndexKind, SettingError, Settings};
pub use stats::Stats;
pub use thrift::{Budget, Thrift};
pub use weu::{Location, LostDevices};

/// The examples of docs/adding-a-policy.md, which are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-policy.md")]
struct AddingAPolicy;
