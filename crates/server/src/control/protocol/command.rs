//! The commands that clients send to a server, and their results.

use crate::cos::CosAction;
use crate::cos::transfer::Job;
use crate::origins::BucketAction;
use nitro_cache::admission::WritePolicy;
use nitro_config::VolumeConfig;
use nitro_config::classes::Change;
use nitro_engine::WriteMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most bytes that one [`Command::Warm`] reads.
pub const WARM_BYTES_MAX: u64 = 64 << 20;

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Returns the server's status.
    Status,
    /// Brings an origin up to date; answered at once, or when the origin is up to date.
    Flush {
        /// Its name.
        volume: String,
        /// Answer only when the origin is up to date.
        wait: bool,
    },
    /// Returns what the cache knows about one offset of a volume.
    Explain {
        /// Its name.
        volume: String,
        /// A byte of the volume.
        offset: u64,
    },
    /// Keeps bytes of a volume in its cache once they are cached.
    Pin {
        /// Its name.
        volume: String,
        /// The first byte; whole extents are pinned.
        offset: u64,
        /// The length; default: up to the volume's end.
        length: Option<u64>,
    },
    /// Undoes that.
    Unpin {
        /// Its name.
        volume: String,
        /// The first byte; whole extents are unpinned.
        offset: u64,
        /// The length; default: up to the volume's end.
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
        /// The mode; default: unchanged.
        mode: Option<WriteMode>,
        /// See [`dirty_share_min`](super::Volume::dirty_share_min); default: unchanged.
        #[serde(default)]
        dirty_share_min: Option<u8>,
        /// See [`dirty_share_max`](super::Volume::dirty_share_max).
        #[serde(default)]
        dirty_share_max: Option<u8>,
        /// Which written content is cached; default: unchanged.
        #[serde(default)]
        write_policy: Option<WritePolicy>,
        /// Whether caching of read misses is paused; default: unchanged.
        #[serde(default)]
        pause_fill: Option<bool>,
    },
    /// Serves another volume.
    VolumeAdd(Box<AddVolume>),
    /// Ends serving a volume.
    VolumeRemove {
        /// Its name.
        volume: String,
        /// Discard dirty data that prevent the operation.
        force_discard_dirty: bool,
    },
    /// Makes a volume a block device of the server's machine; the answer has its path.
    Attach {
        /// Its name.
        volume: String,
        /// Bytes of a logical block; default: those of the volume.
        #[serde(default)]
        block_bytes: Option<u32>,
    },
    /// Removes the block device of a volume, unless it is in use.
    Detach {
        /// Its name.
        volume: String,
    },
    /// Brings the origin up to date and serves the volume without its cache.
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
    /// Changes the policy of a class of I/O.
    ClassSet {
        /// The cache's name; optional if there is only one.
        cache: Option<String>,
        /// Its name or number.
        class: String,
        /// The settings to change.
        change: Change,
    },
    /// Loads another table of classes for a cache.
    ClassLoad {
        /// The cache's name; optional if there is only one.
        cache: Option<String>,
        /// The table: TOML, or Open-CAS's CSV.
        table: String,
    },
    /// Applies the changes of the configuration file.
    Reload,
    /// Returns the settings in force.
    Settings,
    /// Changes one key of the configuration until the server ends.
    Set {
        /// `server.KEY`, `cache.NAME.KEY` or `volume.NAME.KEY`.
        key: String,
        /// The value in the form of the command line.
        value: String,
    },
    /// Makes a volume as large as its origin, which has grown.
    VolumeResize {
        /// Its name.
        volume: String,
    },
    /// An operation on a deduplicating store that takes long. It ends with its client, and with it the connection.
    Operate {
        /// The store's path.
        store: PathBuf,
        /// The operation.
        job: Job,
    },
    /// An operation on a deduplicating store that the server has open; the message of the result is the text to print.
    Cos {
        /// The store's path.
        store: PathBuf,
        /// The operation.
        action: CosAction,
    },
    /// A change of a volume in a bucket that the server serves.
    Bucket {
        /// Its URI, in the form of [`s3_volume_of`](crate::origins::s3_volume_of).
        uri: String,
        /// The change.
        action: BucketAction,
    },
}

/// A volume to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddVolume {
    /// Its name.
    pub volume: String,
    /// Its settings, with the origin as the server opens it; the cache is optional if there is only one.
    pub config: VolumeConfig,
    /// Discard dirty data that prevent the operation.
    pub force_discard_dirty: bool,
    /// Accept the origin although the cache does not recognise it.
    #[serde(default)]
    pub accept_origin: bool,
}

/// The result of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// One line for people.
    pub message: String,
    /// The volume's dirty data at present.
    pub dirty_bytes: u64,
    /// The URIs of a volume that was added.
    pub uris: Vec<String>,
    /// The block device of a volume that was attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The result of each change of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Changed>,
    /// The configuration file, if it does not contain the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_file: Option<PathBuf>,
}

/// A change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The key, or the section.
    pub what: String,
    /// The result.
    pub done: Done,
    /// Why it is not in force; otherwise empty.
    pub message: String,
}

/// The result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// It is in force.
    Applied,
    /// It takes effect at the next start.
    Restart,
    /// It could change at once, but the change failed.
    Failed,
}
