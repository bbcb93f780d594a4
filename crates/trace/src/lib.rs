//! Traces of requests to storage systems: reads the common formats, writes Parquet, and generates synthetic traces.
//!
//! A [`Reader`] returns [`Request`]s one by one, in constant memory. [`open`] reads a file of any known [`Format`],
//! compressed or not; the generators of [`synth`] are readers, too. [`summarize`] returns statistics of a reader's
//! requests; [`convert`] writes them to Parquet. [`content`] adds data that traces lack: fingerprints of extents of any
//! size, compressibility, and bytes.
#![forbid(unsafe_code)]

pub mod content;
mod error;
pub mod format;
mod hottest;
mod info;
mod merge;
mod objects;
mod others;
pub mod parquet;
mod reader;
mod repeats;
mod request;
mod rng;
mod source;
mod split;
pub mod synth;

pub use error::{ErrorKind, Place, Problem, TraceError};
pub use format::{Format, Options, Position, is_stream, open, open_stream, recognise};
pub use hottest::hottest;
pub use info::{Operations, Summary, summarize};
pub use merge::Merged;
pub use objects::{ObjectName, Origin, SameDisks, origins};
pub use others::Others;
pub use parquet::convert;
pub use reader::{BadRecords, Listed, Reader, Requests, Skipped};
pub use repeats::WithoutRepeats;
pub use request::{Op, Request, SECTOR_BYTES};
pub use split::Split;
