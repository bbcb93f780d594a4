//! Synthetic traces. Each generator is a set of parameters with a `reader` method; the same parameters, seed included,
//! give the same trace to the byte, on every machine. Requests are made as they are asked for. None of them is a recording:
//! where a figure was published, the parameter says so; everything else is an assumption, and is called one.

mod boot;
mod fiu;
mod permutation;
mod quota;
mod random;
mod snapshots;
mod zipf;

pub use boot::{BootStorm, BootStormReader, boot_template, recorded_boot};
pub use fiu::{FiuLike, FiuLikeReader};
pub use random::{RandomReads, RandomReadsReader};
pub use snapshots::{SnapshotChain, SnapshotReader};
pub use zipf::{Zipf, ZipfReader, ZipfSampler};

use crate::rng::hash;
use nitro_units::Fingerprint;

/// Bytes of the blocks that generators give fingerprints for.
pub const BLOCK_BYTES: u64 = 4096;

/// The fingerprint of the content with that number; different numbers have different fingerprints.
fn print(seed: u64, content: u64) -> Fingerprint {
    let mut print = [0; 20];
    print[..8].copy_from_slice(&hash(seed, content).to_le_bytes());
    print[8..16].copy_from_slice(&hash(!seed, content).to_le_bytes());
    print[16..].copy_from_slice(&(hash(seed ^ content, content) as u32).to_le_bytes());
    Fingerprint(print)
}
