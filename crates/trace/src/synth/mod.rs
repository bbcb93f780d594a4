//! Synthetic traces. Each generator is a set of parameters with a `reader` method. The same parameters, including the
//! seed, result in exactly the same trace on every machine. Requests are generated on demand. Parameters with published
//! figures name their source; all others are assumptions, and marked as such.

mod boot;
mod file_server;
mod fiu;
mod operations;
mod permutation;
mod quota;
mod random;
mod snapshots;
mod tpcc;
mod tpch;
mod zipf;

pub use boot::{BootStorm, BootStormReader, boot_template, recorded_boot};
pub use file_server::{FileServer, Files};
pub use fiu::{FiuLike, FiuLikeReader, FiuLikeRecords};
pub use operations::{OPERATION_NS, OperationsReader};
pub use random::{RandomReads, RandomReadsReader};
pub use snapshots::{SnapshotChain, SnapshotReader};
pub use tpcc::{TpccLike, Warehouses};
pub use tpch::{TpchLike, Warehouse};
pub use zipf::{Zipf, ZipfReader, ZipfSampler};

use crate::rng::hash;
use nitro_units::Fingerprint;

/// Bytes of the blocks for which generators make fingerprints.
pub const BLOCK_BYTES: u64 = 4096;

/// The fingerprint of the content with a number; different numbers have different fingerprints.
fn print(seed: u64, content: u64) -> Fingerprint {
    let mut print = [0; 20];
    print[..8].copy_from_slice(&hash(seed, content).to_le_bytes());
    print[8..16].copy_from_slice(&hash(!seed, content).to_le_bytes());
    print[16..].copy_from_slice(&(hash(seed ^ content, content) as u32).to_le_bytes());
    Fingerprint(print)
}
