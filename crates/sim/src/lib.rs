//! Nitro's simulator: the server's cache manager in virtual time, on modelled SSDs and disks.
//!
//! A trace is converted to [`workload`] pieces, one for each extent that a request touches. [`simulate`] runs them
//! through the cache that [`Settings`] describe, and returns an [`Outcome`]. [`policies`] are plain caches of objects
//! of unit size, for comparison.
//!
//! ```
//! use nitro_sim::{Settings, simulate, workload};
//! use nitro_trace::synth::RandomReads;
//!
//! let reads = RandomReads {
//!     working_set_bytes: 64 << 20, dedup_ratio: 2.0, request_bytes: 8192, requests: 50_000, interval_ns: 1, seed: 1,
//! };
//! let mut pieces = workload::live(&|| Ok(Box::new(reads.reader()?)), 8192)?;
//! let outcome = simulate(&mut pieces, &Settings::new(32 << 20), &mut |_| true)?;
//! assert!(outcome.measured.read_hit_ratio > 0.6 && outcome.measured.dedup_ratio > 1.5);
//! # Ok::<(), nitro_sim::Error>(())
//! ```
#![forbid(unsafe_code)]

mod axis;
mod by_class;
pub mod cost;
mod error;
mod front;
mod knob;
mod model;
pub mod mrc;
mod outcome;
mod patterns;
mod plan;
pub mod policies;
mod rank;
mod replay;
mod settings;
pub mod sizing;
pub mod sweep;
mod table;
pub mod timing;
pub mod workload;
mod write_back;

pub use axis::Axis;
pub use by_class::ClassMeasures;
pub use error::Error;
pub use knob::Knob;
pub use nitro_cache::partial::PartialWrites;
pub use outcome::{Latency, Measures, Outcome, Pace};
pub use plan::{Refused, adapt, points};
pub use replay::simulate;
pub use settings::{Settings, Variant, Warmup};
pub use table::write_parquet;

/// Leaves a number that is 0 out of settings and outcomes in JSON.
fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
