//! What a server tells of itself.

use super::{Cache, Volume};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All that a server tells of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The process.
    pub server: Server,
    /// The RAM that the process may come to take.
    #[serde(default)]
    pub ram: Ram,
    /// All caches, by name.
    pub caches: Vec<Cache>,
    /// All volumes, by name.
    pub volumes: Vec<Volume>,
}

/// The RAM that the process may come to take, and what it takes now, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ram {
    /// The sum of the parts.
    pub need_bytes: u64,
    /// What it is made of.
    pub parts: Vec<RamPart>,
    /// Resident now, as the kernel counts it (`VmRSS`); 0: unknown.
    pub resident_bytes: u64,
}

/// Something that takes RAM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RamPart {
    /// Its name.
    pub name: String,
    /// The most that it takes.
    pub bytes: u64,
}

/// The process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Of the program.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// Since its start.
    pub uptime_seconds: f64,
    /// Clients connected now, and since the start.
    pub connections: u64,
    /// Clients connected since the start.
    pub connections_total: u64,
    /// Where clients connect to.
    pub uris: Vec<String>,
    /// The configuration file, if there is one.
    #[serde(default)]
    pub config_file: Option<PathBuf>,
    /// What clients ask for is recorded.
    #[serde(default)]
    pub recording: Option<Recording>,
    /// Lines of the log that were left out, since nobody read standard error fast enough.
    #[serde(default)]
    pub log_lines_left_out: u64,
}

/// A recording under way.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Its path.
    pub path: String,
    /// Requests recorded, and those left out because the recorder did not keep up, or cannot write any more.
    pub requests: u64,
    /// Requests left out.
    pub dropped: u64,
}

/// Percentiles in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Requests timed.
    pub count: u64,
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: u64,
    /// 90 % took no longer.
    pub p90_us: u64,
    /// 99 % took no longer.
    pub p99_us: u64,
    /// 99.9 % took no longer.
    pub p999_us: u64,
    /// The longest.
    pub max_us: u64,
    /// Requests that took no longer than each of [`LATENCY_BOUNDS_US`](nitro_engine::metrics::LATENCY_BOUNDS_US).
    #[serde(default)]
    pub at_most: [u64; 32],
}
