//! Readers on real samples and damaged ones, Parquet, the content model against real LZ4, generators against their targets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod content;
mod disks;
mod formats;
mod joined;
mod lru;
mod parquet;
mod samples;
mod synth;
