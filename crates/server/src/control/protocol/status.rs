//! The status of a server.

use super::{Cache, Volume};
use nitro_units::Counted;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The whole status of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The process.
    pub server: Server,
    /// The maximum RAM of the process.
    #[serde(default)]
    pub ram: Ram,
    /// All caches, by name.
    pub caches: Vec<Cache>,
    /// All volumes, by name.
    pub volumes: Vec<Volume>,
    /// The open deduplicating stores, by path.
    #[serde(default)]
    pub stores: Vec<Store>,
}

/// An open deduplicating store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Store {
    /// Its path.
    pub path: String,
    /// Why it accepts no more changes, if it does not.
    pub poisoned: Option<String>,
    /// Bytes of its device that it uses.
    pub size_bytes: u64,
    /// Bytes of the device up to which it grows by itself; `None`: it does not.
    pub max_bytes: Option<u64>,
    /// Counters since it was opened; docs/METRICS.md has their meanings.
    pub counters: nitro_cos::Counters,
    /// What work had of its disk's time.
    pub shares: nitro_shares::Counters,
    /// Its SSD, if it has one.
    pub ssd: Option<StoreSsd>,
    /// The operations under way that commands have begun.
    pub operations: Vec<String>,
}

impl Store {
    /// All its counters.
    pub fn counted(&self) -> impl Iterator<Item = (&'static Counted, u64)> + use<> {
        self.counters.each().chain(self.shares.each())
    }
}

/// The SSD of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreSsd {
    /// Why it is no longer used, if it failed.
    pub failed: Option<String>,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Pieces that failed their check.
    pub damaged: u64,
}

/// The maximum RAM of the process and its present RAM, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ram {
    /// The sum of the parts.
    pub need_bytes: u64,
    /// The parts of the maximum.
    pub parts: Vec<RamPart>,
    /// Resident memory at present, as the kernel counts it (`VmRSS`); 0: unknown.
    pub resident_bytes: u64,
}

/// A part of the RAM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RamPart {
    /// Its name.
    pub name: String,
    /// Its maximum.
    pub bytes: u64,
}

/// The process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// The name of the machine that it runs on.
    #[serde(default)]
    pub host: String,
    /// The program's version.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_seconds: f64,
    /// Clients connected at present.
    pub connections: u64,
    /// Clients connected since the start.
    pub connections_total: u64,
    /// Threads that serve clients.
    #[serde(default)]
    pub threads: u64,
    /// Each of these threads.
    #[serde(default)]
    pub reactors: Vec<ReactorLoad>,
    /// Threads of insertion.
    #[serde(default)]
    pub insert_threads: u64,
    /// The URIs for clients.
    pub uris: Vec<String>,
    /// The configuration file, if there is one.
    #[serde(default)]
    pub config_file: Option<PathBuf>,
    /// The recording of requests, if there is one.
    #[serde(default)]
    pub recording: Option<Recording>,
    /// The export of spans of requests, if there is one.
    #[serde(default)]
    pub spans: Option<Spans>,
    /// What etcd lets this host serve, if it takes part.
    #[serde(default)]
    pub etcd: Option<Etcd>,
    /// Lines of the log that were dropped because standard error was not read fast enough.
    #[serde(default)]
    pub log_lines_left_out: u64,
    /// Messages that were not logged because their kind had been logged ten times within 10 s.
    #[serde(default)]
    pub log_lines_limited: u64,
    /// Requests for actions over HTTP that had a wrong token.
    #[serde(default)]
    pub http_wrong_tokens: u64,
}

/// The part that a host takes in a cluster of hosts of which etcd decides what each serves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Etcd {
    /// The name of this host.
    pub host: String,
    /// The etcd cluster, in hexadecimal digits.
    pub cluster: String,
    /// Milliseconds until this host stops serving, unless its lease is renewed.
    pub left_ms: u64,
    /// The volumes that it may serve, and does not serve now: another host does, or none does yet.
    pub waits_for: Vec<String>,
}

/// A thread that serves clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReactorLoad {
    /// Its clients.
    pub clients: u64,
    /// Percentage of a processor that it has taken in the last half second.
    pub busy_percent: f64,
}

/// A recording in progress.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Its path.
    pub path: String,
    /// Requests recorded.
    pub requests: u64,
    /// Requests that were not recorded because the recorder did not keep up, or cannot write any more.
    pub dropped: u64,
}

/// An export of spans.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Spans {
    /// The collector's URL.
    pub url: String,
    /// The number of requests of which one becomes a span.
    pub sample: u32,
    /// Spans that the collector accepted.
    pub sent: u64,
    /// Spans that were dropped because too many waited, or because the collector refused them.
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
