//! The control protocol, version 1: over a unix socket of mode 0600, the client sends one JSON object in a line, the server
//! answers with one in a line, any number of times. Requests are at most [`REQUEST_BYTES_MAX`] long.
//!
//! ```text
//! {"version":1,"command":"status"}
//! {"version":1,"status":{"server":{…},"caches":[{…}],"volumes":[{…}]}}
//! {"version":1,"command":{"flush":{"volume":"vm","wait":true}}}
//! {"version":1,"done":{"message":"…","dirty_bytes":0,"uris":[]}}
//! {"version":1,"error":"…"}
//! ```
//! A command that takes its time is answered at its end, and goes on if its client leaves; `status` on another
//! connection tells how far it is. Commands and fields may be added within a version; clients ignore those they do not know. Counters run from the server's start.

use crate::classes::Change;
use crate::config::Emulation;
use crate::cos::CosAction;
use nitro_cache::Missed;
use nitro_cache::admission::WritePolicy;
use nitro_cache::weu::Space;
use nitro_console::size::Size;
use nitro_engine::WriteMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version spoken here.
pub const VERSION: u32 = 1;
/// Longest request in bytes, its newline included.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u32,
    /// What is asked.
    pub command: Command,
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// All that the server tells of itself.
    Status,
    /// Brings an origin up to date; answered at once, or when it is.
    Flush {
        /// Its name.
        volume: String,
        /// Answer only once the origin is up to date.
        wait: bool,
    },
    /// What the cache knows of one place of a volume.
    Explain {
        /// Its name.
        volume: String,
        /// A byte of it.
        offset: u64,
    },
    /// Keeps bytes of a volume in its cache from when they are there.
    Pin {
        /// Its name.
        volume: String,
        /// The first byte; whole extents are pinned.
        offset: u64,
        /// How many; all to the volume's end if not given.
        length: Option<u64>,
    },
    /// Undoes that.
    Unpin {
        /// Its name.
        volume: String,
        /// The first byte; whole extents are unpinned.
        offset: u64,
        /// How many; all to the volume's end if not given.
        length: Option<u64>,
    },
    /// Changes settings of a volume.
    VolumeSet {
        /// Its name.
        volume: String,
        /// As it is if not given.
        mode: Option<WriteMode>,
        /// Percentages of the cache's room for dirty data; as they are if not given.
        #[serde(default)]
        dirty_share_min: Option<u8>,
        /// See [`dirty_share_max`](Volume::dirty_share_max).
        #[serde(default)]
        dirty_share_max: Option<u8>,
        /// Which written content is cached; as it is if not given.
        #[serde(default)]
        write_policy: Option<WritePolicy>,
        /// Whether what reads bring is not cached; as it is if not given.
        #[serde(default)]
        pause_fill: Option<bool>,
    },
    /// Serves another volume.
    VolumeAdd(AddVolume),
    /// Ends serving a volume.
    VolumeRemove {
        /// Its name.
        volume: String,
        /// Forget dirty data that stand in the way.
        force_discard_dirty: bool,
    },
    /// Has the origin serve alone, brought up to date.
    CacheDetach {
        /// The cache's name.
        cache: String,
        /// Its name.
        volume: String,
    },
    /// Undoes that.
    CacheAttach {
        /// The cache's name.
        cache: String,
        /// Its name.
        volume: String,
    },
    /// Changes the size of a cache.
    CacheResize {
        /// The cache's name.
        cache: String,
        /// Size in bytes.
        size_bytes: u64,
    },
    /// Changes what a class of I/O deserves.
    ClassSet {
        /// The cache's name; may be left out where there is only one.
        cache: Option<String>,
        /// Its name or number.
        class: String,
        /// What it deserves.
        change: Change,
    },
    /// Gives a cache another table of classes.
    ClassLoad {
        /// The cache's name; may be left out where there is only one.
        cache: Option<String>,
        /// The table: TOML, or Open-CAS's CSV.
        table: String,
    },
    /// Takes over what has changed in the configuration file.
    Reload,
    /// Changes one key of the configuration until the server ends.
    Set {
        /// `server.KEY`, `cache.NAME.KEY` or `volume.NAME.KEY`.
        key: String,
        /// As a person writes it.
        value: String,
    },
    /// Has a volume be as large as its origin has become.
    VolumeResize {
        /// Its name.
        volume: String,
    },
    /// Something with a deduplicating store that the server has open; the message is what is to be printed.
    Cos {
        /// The store's path.
        store: PathBuf,
        /// What is to be done.
        action: CosAction,
    },
}

/// A volume that is to be served, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddVolume {
    /// Its name.
    pub volume: String,
    /// The cache's name; may be left out where there is only one.
    pub cache: Option<String>,
    /// As the server is to open it.
    pub origin: PathBuf,
    /// Write-through if not given.
    pub mode: Option<WriteMode>,
    /// Writes are refused.
    pub read_only: bool,
    /// What clients are told that it is.
    pub description: String,
    /// With which volumes it shares cached contents.
    #[serde(default)]
    pub dedup_domain: Option<String>,
    /// The class of requests that do not say theirs.
    #[serde(default)]
    pub class: Option<u8>,
    /// Which written content is cached.
    #[serde(default)]
    pub write_policy: Option<WritePolicy>,
    /// Slow the origin down to a disk of that kind.
    pub emulate_disk: Option<Emulation>,
    /// See [`dirty_share_min`](Volume::dirty_share_min).
    #[serde(default)]
    pub dirty_share_min: Option<u8>,
    /// See [`dirty_share_max`](Volume::dirty_share_max).
    #[serde(default)]
    pub dirty_share_max: Option<u8>,
    /// See [`VolumeConfig::detect_scan`](crate::config::VolumeConfig::detect_scan).
    #[serde(default)]
    pub detect_scan: Option<Size>,
    /// Forget dirty data that stand in the way.
    pub force_discard_dirty: bool,
}

/// What a command came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// One line for people.
    pub message: String,
    /// Of the volume, now.
    pub dirty_bytes: u64,
    /// Where a volume that was added is served.
    pub uris: Vec<String>,
    /// What became of each change of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Changed>,
    /// The configuration file, which does not say what was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<PathBuf>,
}

/// A change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The key, or the section.
    pub what: String,
    /// What became of it.
    pub done: Done,
    /// Why it is not in force; else empty.
    pub message: String,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// It is in force.
    Applied,
    /// It has effect at the next start.
    Restart,
    /// It is not in force, though it could be.
    Failed,
}

/// What the server answers: one of the four.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// [`VERSION`].
    pub version: u32,
    /// To [`Command::Status`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// To [`Command::Explain`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explanation>,
    /// To all other commands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Outcome>,
    /// Why the command failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

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

/// A cache. Ratios are 1 where nothing was inserted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Its name.
    pub name: String,
    /// Where it is; empty: there is no cache.
    pub path: String,
    /// Its UUID.
    pub uuid: String,
    /// `caching`, `pass-through` (its device was given up), `failed` (and some dirty data with it), or `none` (there is no
    /// cache).
    pub health: String,
    /// Why nothing can be made durable on the SSD any more.
    pub failed: Option<String>,
    /// The write log, if there is one.
    pub log: Option<Log>,
    /// The index of fingerprints on the SSD, if there is one.
    pub flash_index: Option<FlashIndex>,
    /// Of a stopped cache: the UUID of the write log that may hold writes which are nowhere else.
    pub log_needed: Option<String>,
    /// Clean entries are still coming back after the start.
    pub loading: bool,
    /// What the start found; zeroes for a cache that was made anew.
    pub recovered: Recovered,
    /// The volumes that it knows.
    pub volumes: Vec<KnownVolume>,
    /// What the origins have not got.
    pub dirty_bytes: u64,
    /// Write-evict units that may not be evicted, because of dirty data.
    pub weus_pinned: u64,
    /// Commits: times that the journal was written.
    pub commits: u64,
    /// Snapshots with which the journal began anew.
    pub journal_snapshots: u64,
    /// Regions opened for writing.
    pub regions_opened: u64,
    /// Regions that are open: what is cached of them is read anew after a power cut.
    pub regions_open: u64,
    /// Times that a write waited for room for dirty data.
    pub dirty_stalls: u64,
    /// SSD space for write-evict units.
    pub capacity_bytes: u64,
    /// Bytes of volumes that can be had from the cache.
    pub cached_bytes: u64,
    /// The classes that it was brought for; empty: nothing was classified.
    pub classes: Vec<ClassOfContents>,
    /// What stays in it from when it is there.
    pub pins: Vec<Pin>,
    /// Bytes of these, and of them, those that are there.
    pub pins_bytes: u64,
    /// Bytes of pinned extents that are cached.
    pub pins_cached_bytes: u64,
    /// Where the capacity is.
    pub space: Space,
    /// Cached bytes over the SSD space that holds them.
    pub effective_capacity: f64,
    /// Extent look-ups answered, and not, by the index.
    pub hits: u64,
    /// Look-ups that the index did not answer.
    pub misses: u64,
    /// Inserted bytes over those that were not duplicates; those over what was stored of them.
    pub dedup_ratio: f64,
    /// Bytes inserted that were not duplicates, over what was stored of them.
    pub compression_ratio: f64,
    /// Extents inserted.
    pub insertions: u64,
    /// New contents that the policy of admission refused.
    pub rejections: u64,
    /// Bytes of the extents inserted.
    pub inserted_bytes: u64,
    /// Write-evict units.
    pub weus: u64,
    /// Of them, free ones.
    pub weus_free: u64,
    /// Write-evict units evicted.
    pub weus_evicted: u64,
    /// Extents copied forward before their units were evicted.
    pub forwarded: u64,
    /// Hits by where they came from, in extents.
    pub ram_hits: u64,
    /// Extents found on their way to the SSD.
    pub pending_hits: u64,
    /// Extents found read ahead.
    pub readahead_hits: u64,
    /// SSD traffic; writes by cause.
    pub ssd_reads: u64,
    /// Bytes read from the SSD.
    pub ssd_read_bytes: u64,
    /// Written: contents.
    pub ssd_written_payload_bytes: u64,
    /// Written: headers of units and of contents.
    pub ssd_written_header_bytes: u64,
    /// Written: what fills blocks up.
    pub ssd_written_padding_bytes: u64,
    /// Written: superblocks.
    pub ssd_written_superblock_bytes: u64,
    /// Written: the journal.
    pub ssd_written_journal_bytes: u64,
    /// How the SSD's life goes.
    pub endurance: Endurance,
    /// Fills that did not reach the SSD: the queue was full; their extent was written to.
    pub fills_dropped: u64,
    /// Fills whose extent was written to meanwhile.
    pub fills_voided: u64,
    /// With `verify_duplicates`: extents that were compared with what was cached of their fingerprint; those that were other.
    pub duplicates_compared: u64,
    /// Extents whose fingerprint was that of other bytes.
    pub duplicate_mismatches: u64,
    /// Faults, each of which the origin made up for.
    pub corrupt_extents: u64,
    /// Reads of the SSD that failed.
    pub ssd_read_errors: u64,
    /// Writes of the SSD that failed.
    pub ssd_write_errors: u64,
    /// RAM.
    pub insert_queue_bytes: u64,
    /// Dirty data on its way into the cache.
    pub dirty_queue_bytes: u64,
    /// Extents in the RAM cache.
    pub ram_cache_bytes: u64,
    /// The cache manager's tables.
    pub index_ram_bytes: u64,
}

/// How an SSD's life goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Endurance {
    /// Bytes written in a day, at the mean rate of the last day, or of the time since the start.
    pub written_bytes_per_day: u64,
    /// Bytes that may be written in a day, where that was configured.
    pub budget_bytes_per_day: Option<u64>,
    /// Bytes that may be written beyond that; negative: so many were written too much.
    pub saved_bytes: i64,
    /// Years in which all that the SSD is rated for is written at this rate, where that was configured.
    pub years: Option<f64>,
    /// From 1, nothing is refused to spare writes, down to nearly 0.
    pub openness: f64,
    /// Extents that were refused to spare writes.
    pub spared: u64,
}

impl Cache {
    /// All that was written to the SSD.
    pub fn ssd_written_bytes(&self) -> u64 {
        self.ssd_written_payload_bytes
            + self.ssd_written_header_bytes
            + self.ssd_written_padding_bytes
            + self.ssd_written_superblock_bytes
            + self.ssd_written_journal_bytes
    }
}

/// An index of fingerprints on the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlashIndex {
    /// It answers; after a start it is read first.
    pub open: bool,
    /// Fingerprints in it, those of what has been evicted since included.
    pub entries: u64,
    /// Bytes that it takes on the SSD.
    pub flash_bytes: u64,
    /// Bytes that it takes in RAM.
    pub ram_bytes: u64,
    /// Duplicates that only it knew.
    pub duplicates: u64,
    /// Fingerprints that it was asked for and knew, or did not, and pages read for that.
    pub hits: u64,
    /// Look-ups that the index did not answer.
    pub misses: u64,
    /// Requests to read.
    pub reads: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Pages that failed their checksum, and requests that failed.
    pub corrupt_pages: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// A write log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Log {
    /// Its path.
    pub path: String,
    /// In use: writes in write-back are durable when they are acknowledged.
    pub active: bool,
    /// Why it is not any more.
    pub failed: Option<String>,
    /// Its size, and what of it is still needed.
    pub ring_bytes: u64,
    /// Bytes of it that are still needed.
    pub used_bytes: u64,
    /// Batches of writes, their bytes, and times that writers waited for room.
    pub batches: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Times that writers waited for room.
    pub stalls: u64,
}

/// A volume, as its cache knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownVolume {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// `write-through` or `write-back`, as it was last served.
    pub mode: String,
    /// What the origin has not got.
    pub dirty_bytes: u64,
    /// It is being served.
    pub served: bool,
}

/// What a start found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recovered {
    /// What the origin has not got.
    pub dirty_bytes: u64,
    /// Dirty data that cannot be read any more.
    pub lost_bytes: u64,
    /// What the write log brought back, dirty too.
    pub replayed_bytes: u64,
    /// Regions that were being written to: what was cached of them is read anew.
    pub open_regions: u64,
    /// The program alone had ended: of those regions, only what was under way is read anew.
    pub outlived: bool,
}

/// Bytes of a volume that stay in its cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Its name.
    pub volume: String,
    /// The first byte.
    pub offset: u64,
    /// How many: whole extents.
    pub length: u64,
}

/// What a cache holds for one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassOfContents {
    /// Its number; 0: what was not classified.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// What is evicted first: `low`, `normal`, `high`, `highest`.
    pub priority: String,
    /// When new content is taken: `always`, `while-clean`, `second-access`, `never`.
    pub allocation: String,
    /// Whether what was read and missing is taken.
    pub read_allocate: bool,
    /// Whether what was written is taken.
    pub write_allocate: bool,
    /// Percent of the cache that it loses last.
    pub min_percent: u8,
    /// Percent of the cache above which its own units go first.
    pub max_percent: u8,
    /// Bytes of volumes that can be had from the cache.
    pub cached_bytes: u64,
    /// Extents that were read by clients of volumes that are served, and found.
    pub read_hit_extents: u64,
    /// Extents that were read and not found.
    pub read_miss_extents: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub write_bytes: u64,
}

/// What the blocks of a volume say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detection {
    /// File systems that were found; 0: there are none of the kinds that are known, they are encrypted, or none was seen yet.
    pub file_systems: u64,
    /// Inodes that were read.
    pub inodes: u64,
    /// Stretches of the volume of which it is known what they are.
    pub ranges: u64,
    /// Stretches for which there was no RAM.
    pub forgotten: u64,
    /// RAM that it takes.
    pub ram_bytes: u64,
    /// The scan of the volume's metadata; `None`: nobody asked for one.
    pub scan: Option<Scan>,
}

/// A scan of a volume's metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scan {
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it has still to read, as far as is known.
    pub left_bytes: u64,
    /// Whether it has ended.
    pub done: bool,
}

/// What requests of one class asked of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassOfRequests {
    /// Its number; 0: those that were not classified.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// Reads.
    pub reads: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Extents of reads.
    pub read_extents: u64,
    /// Of those, extents that were found in RAM or SSD.
    pub read_hit_extents: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of writes.
    pub write_bytes: u64,
}

/// A volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// The cache's name.
    pub cache: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// The origin's path.
    pub origin: String,
    /// `write-through` or `write-back`.
    pub mode: String,
    /// With which volumes it shares cached contents; `null`: with all that name none.
    pub dedup_domain: Option<String>,
    /// The class of requests that do not say theirs; 0: not classified.
    pub class: u8,
    /// Which written content is cached.
    pub write_policy: WritePolicy,
    /// What reads bring is not cached for the time being.
    #[serde(default)]
    pub fill_paused: bool,
    /// What was asked for, by class; empty: nothing was classified.
    pub classes: Vec<ClassOfRequests>,
    /// What its blocks say; `None`: nobody looks.
    pub detection: Option<Detection>,
    /// What the origin has not got.
    pub dirty_bytes: u64,
    /// Age of the oldest of it, 0 if there is none; `None`: not known.
    pub dirty_age_seconds: Option<f64>,
    /// Of it, what cannot be read in the cache any more; the first such ranges, as offset and length.
    pub lost_bytes: u64,
    /// The first of those ranges, as offset and length.
    pub lost_ranges: Vec<(u64, u64)>,
    /// Whether it goes through its cache.
    pub attached: bool,
    /// Why writes are refused, if they are.
    pub poisoned: Option<String>,
    /// For how long the origin has owed an answer.
    pub origin_owes_seconds: f64,
    /// Requests that the origin did not answer in time.
    pub origin_timeouts: u64,
    /// Clients connected now.
    pub clients: u64,
    /// Destage.
    pub destaged_bytes: u64,
    /// Writes of the origin for destage.
    pub destage_writes: u64,
    /// Why destage fails, if it does; for how long it has, and how often it has failed since the start.
    pub destage_error: Option<String>,
    /// For how long destage has failed.
    pub destage_failing_seconds: f64,
    /// How often it has failed since the start.
    pub destage_failures: u64,
    /// Percentages of the cache's room for dirty data: what is kept for the volume, if it was set, and what it may take.
    pub dirty_share_min: Option<u8>,
    /// See [`dirty_share_max`](Volume::dirty_share_max).
    pub dirty_share_max: u8,
    /// Requests.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Requests to write.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests to trim.
    pub trims: u64,
    /// Requests to write zeroes.
    pub write_zeroes: u64,
    /// Requests to flush.
    pub flushes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Extents of reads by where they came from.
    pub read_hit_extents: u64,
    /// Extents read from the origin.
    pub read_miss_extents: u64,
    /// Of the misses: found in the cache by the fingerprint that the origin's recipe told.
    #[serde(default)]
    pub recipe_hit_extents: u64,
    /// Extents that reads looked for in vain, by why they were not cached.
    #[serde(default)]
    pub missed: Missed,
    /// Extents that another request was reading already.
    pub read_joined_extents: u64,
    /// Extents read ahead.
    pub readahead_extents: u64,
    /// Extents that were not cached, being part of a sequential stream.
    pub bypassed_extents: u64,
    /// Origin traffic.
    pub origin_reads: u64,
    /// Bytes read from it.
    pub origin_read_bytes: u64,
    /// Writes to it.
    pub origin_writes: u64,
    /// Bytes written to it.
    pub origin_written_bytes: u64,
    /// Reads answered at once from the RAM cache are not timed.
    pub read_hit_latency: Latency,
    /// Of reads that the origin answered, in part at least.
    pub read_miss_latency: Latency,
    /// Of writes.
    pub write_latency: Latency,
    /// Of flushes.
    pub flush_latency: Latency,
}

/// What the cache knows of one place of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The volume's name.
    pub volume: String,
    /// First byte of the extent.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether the cache can answer a read of it.
    pub cached: bool,
    /// The origin has not got its newest content.
    pub dirty: bool,
    /// The RAM cache has it.
    pub in_ram: bool,
    /// It is on its way into the cache.
    pub pending: bool,
    /// It stays in the cache once it is there.
    #[serde(default)]
    pub pinned: bool,
    /// Where on the SSD it is.
    pub stored: Option<Stored>,
    /// Why it is not on the SSD: `evicted`, `overwritten`, `refused`, `dropped` or `invalidated`; none: it never was, or that is
    /// forgotten.
    pub gone: Option<String>,
}

/// Where an extent is on the SSD.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The number of its write-evict unit.
    pub weu: u32,
    /// Bytes read for it; 0: it is all zero.
    pub read_bytes: u64,
    /// Its unit is still in RAM: being filled, or on its way to the SSD.
    pub on_its_way: bool,
    /// Its unit was opened for what is expected to stay (`main`) or for the rest (`side`: on probation).
    pub lane: String,
    /// How often it was used again since its unit is full, up to 3.
    pub heat: u8,
    /// The class that it was brought for; 0: none.
    pub class: u8,
    /// The class's name.
    pub class_name: String,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_what_the_documentation_says() {
        let request = Request { version: VERSION, command: Command::Status };
        assert_eq!(serde_json::to_string(&request).unwrap(), r#"{"version":1,"command":"status"}"#);
        let flush = Command::Flush { volume: "vm".into(), wait: true };
        let request = Request { version: VERSION, command: flush };
        let text = r#"{"version":1,"command":{"flush":{"volume":"vm","wait":true}}}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let response =
            Response { version: VERSION, status: None, explained: None, done: None, error: Some("no".into()) };
        assert_eq!(serde_json::to_string(&response).unwrap(), r#"{"version":1,"error":"no"}"#);
        let later = r#"{"version":1,"error":"no","news":7}"#;
        assert_eq!(serde_json::from_str::<Response>(later).unwrap(), response);
    }
}
