//! What clients have a server do, and what came of it.

use crate::classes::Change;
use crate::config::Emulation;
use crate::cos::CosAction;
use nitro_cache::admission::WritePolicy;
use nitro_console::size::Size;
use nitro_engine::WriteMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most bytes that one [`Command::Warm`] reads.
pub const WARM_BYTES_MAX: u64 = 64 << 20;

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
    /// Reads a part of a volume into its cache; answered when it is read and queued for insertion.
    Warm {
        /// Its name.
        volume: String,
        /// The first byte; whole extents are read.
        offset: u64,
        /// How many bytes; at most [`WARM_BYTES_MAX`].
        length: u64,
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
        /// See [`dirty_share_max`](super::Volume::dirty_share_max).
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
    /// See [`dirty_share_min`](super::Volume::dirty_share_min).
    #[serde(default)]
    pub dirty_share_min: Option<u8>,
    /// See [`dirty_share_max`](super::Volume::dirty_share_max).
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
