//! A capacity-optimized store in the manner of the Data Domain file system (*Avoiding the Disk Bottleneck in the Data
//! Domain Deduplication File System*, Zhu, Li and Patterson, FAST 2008; *Can't We All Get Along? Redesigning Protection
//! Storage for Modern Workloads*, Allu et al., USENIX ATC 2018).
//!
//! Content is cut into chunks, each of which is stored once, in [containers](mod@format) that are filled in order. An
//! object is a *recipe*: a tree of references to chunks. Snapshots and clones share it.
//!
//! The store uses the engine's [`Device`](nitro_port::Device) interface, does not depend on an async runtime, and may
//! be used by several threads.
#![forbid(unsafe_code)]

mod access;
mod ahead;
mod check;
mod chunks;
mod collect;
mod commit;
mod counters;
mod diff;
mod directory;
mod error;
pub mod format;
#[doc(hidden)]
pub mod fuzzing;
mod grow;
mod increment;
mod journal;
mod known;
mod lane;
mod ledger;
mod locality;
mod marks;
mod namespace;
mod object;
mod place;
mod placing;
mod plan;
mod quota;
mod ram;
mod reads;
mod recover;
mod refresh;
mod rename;
mod room;
mod slots;
mod ssd;
mod stats;
mod store;
mod stream;
mod summary;
mod tables;
mod transfer;
mod tree;
mod unfinished;
mod unique;
mod volume;

pub use check::{Damage, Findings};
pub use chunks::fingerprint_of;
pub use collect::{CollectOptions, Collected};
pub use counters::Counters;
pub use diff::Difference;
pub use error::Error;
pub(crate) use error::Hex;
pub use format::increment::{IncrementHead, IncrementPart, IncrementReader, IncrementWriter};
pub use format::record::Kind;
pub use format::ssd::is_ssd;
pub use format::transfer::{FrameReader, List, Message, Offer};
pub use namespace::ObjectInfo;
pub use nitro_cache::pattern::{Pattern, RegionPattern};
pub use placing::{ContentIndex, Part};
pub use plan::{Plan, StoreOptions};
pub use ram::RamPart;
pub use reads::{LearnedReads, ReadPlanner};
pub use room::AutoCollector;
pub use ssd::{Fpi, ShortStats, SsdOptions, SsdPieces, SsdSource, SsdState, SsdStats, short_spot};
pub use stats::Stats;
pub use store::{Settings, Store};
pub use stream::{StreamImport, StreamPart};
pub use transfer::{Receiving, Sending};
pub use volume::Volume;

/// Called with the progress of a long operation: the name of its phase, the work done, and the total work.
pub type Progress<'a> = dyn Fn(&'static str, u64, u64) + 'a;
