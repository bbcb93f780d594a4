//! The parts of a key's hash that the stores use.

use super::cuckoo::Partial;
use crate::hash::hash_of;

/// The hash of a key, divided into the parts that the stores use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashed {
    /// The partition of the key.
    pub(super) partition: usize,
    /// The order in the partition: the upper half of the hash without the bits that chose the partition.
    pub(super) local: u64,
    /// The partial key for logs, from the lower half of the hash.
    pub(super) partial: Partial,
}

impl Hashed {
    /// The parts of a key's hash in an index with `1 << partition_bits` partitions.
    #[inline]
    pub(super) fn new(key: &[u8], seed: u64, partition_bits: u32) -> Self {
        let hash = hash_of(key, seed);
        let upper = (hash >> 64) as u64;
        Self {
            partition: upper.checked_shr(64 - partition_bits).unwrap_or(0) as usize,
            local: upper << partition_bits,
            partial: Partial::new(hash as u64),
        }
    }
}
