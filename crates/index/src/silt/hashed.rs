//! The parts of a key's hash that the stores use.

use super::cuckoo::Partial;
use crate::hash::hash_of;

/// A key's hash, divided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hashed {
    /// Its partition.
    pub(super) partition: usize,
    /// By which its partition is sorted: the hash's upper half without the bits that chose the partition.
    pub(super) local: u64,
    /// By which logs find it: from the hash's lower half.
    pub(super) partial: Partial,
}

impl Hashed {
    /// Of a key, in an index of `1 << partition_bits` partitions.
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
