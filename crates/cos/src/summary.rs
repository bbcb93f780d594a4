//! The summary vector (Zhu et al. 2008, §4.1): a Bloom filter of all fingerprints in the index. A fingerprint that is
//! not in the filter is new, and needs no look-up in the index.
//!
//! On the device, it consists of words of 64 bits, in blocks of 4088 bytes and a checksum of 8 bytes. Between
//! checkpoints, bits are only set, so a torn mixture of two versions contains all fingerprints of the older one.

use crate::Error;
use crate::format::{BLOCK_BYTES, checksum, u64_at};
use fastbloom::AtomicBloomFilter;
use nitro_port::Device;
use nitro_port::buf::BufMut;
use nitro_units::Fingerprint;

/// The number of hashes of a fingerprint: the best for ten bits.
const HASHES: u32 = 7;
const BLOCK_WORDS: usize = (BLOCK_BYTES - 8) / 8;
/// The number of blocks of a read or write.
const PIECE_BLOCKS: usize = 256;

/// A set of fingerprints with false positives, but without false negatives.
pub(crate) struct Summary {
    filter: AtomicBloomFilter,
}

fn hash(fingerprint: &Fingerprint) -> u64 {
    fingerprint.0[8..16].try_into().map_or(0, u64::from_le_bytes)
}

fn words(bytes: u64) -> usize {
    bytes as usize / BLOCK_BYTES * BLOCK_WORDS
}

impl Summary {
    /// An empty filter that takes `bytes` bytes on the device.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { filter: AtomicBloomFilter::with_num_bits(words(bytes) * 64).hashes(HASHES) }
    }

    pub(crate) fn insert(&self, fingerprint: &Fingerprint) {
        self.filter.insert_hash(hash(fingerprint));
    }

    pub(crate) fn may_contain(&self, fingerprint: &Fingerprint) -> bool {
        self.filter.contains_hash(hash(fingerprint))
    }

    /// Writes the filter to offset `at`.
    pub(crate) async fn write(&self, device: &impl Device, at: u64, seed: u64) -> Result<(), Error> {
        let words: Vec<u64> = self.filter.iter().collect();
        let mut offset = at;
        for piece in words.chunks(PIECE_BLOCKS * BLOCK_WORDS) {
            let mut out = BufMut::zeroed(piece.len().div_ceil(BLOCK_WORDS) * BLOCK_BYTES);
            for (block, words) in out.chunks_exact_mut(BLOCK_BYTES).zip(piece.chunks(BLOCK_WORDS)) {
                for (field, word) in block.chunks_exact_mut(8).zip(words) {
                    field.copy_from_slice(&word.to_le_bytes());
                }
                let sum = checksum(&block[..BLOCK_BYTES - 8], seed, offset);
                block[BLOCK_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
                offset += BLOCK_BYTES as u64;
            }
            device.write(offset - out.len() as u64, out.freeze()).await?;
        }
        Ok(())
    }

    /// Reads the filter from offset `at`; `None` if it is missing or damaged.
    pub(crate) async fn read(device: &impl Device, at: u64, bytes: u64, seed: u64) -> Result<Option<Self>, Error> {
        let mut all = Vec::with_capacity(words(bytes));
        let end = at + bytes;
        let mut offset = at;
        while offset < end {
            let len = ((end - offset) as usize).min(PIECE_BLOCKS * BLOCK_BYTES);
            for block in device.read(offset, len).await?.chunks_exact(BLOCK_BYTES) {
                if u64_at(block, BLOCK_BYTES - 8) != checksum(&block[..BLOCK_BYTES - 8], seed, offset) {
                    return Ok(None);
                }
                all.extend(block[..BLOCK_BYTES - 8].chunks_exact(8).map(|word| u64_at(word, 0)));
                offset += BLOCK_BYTES as u64;
            }
        }
        Ok(Some(Self { filter: AtomicBloomFilter::from_vec(all).hashes(HASHES) }))
    }
}
