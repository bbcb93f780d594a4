//! Counts of extents of one size by content, with bounded RAM.
//!
//! Fingerprints are kept with their numbers of occurrences. A shard of the table that reaches its bound continues with
//! every second fingerprint, chosen by the fingerprint's bits, then with every fourth, and so on. The remaining
//! fingerprints are a fair sample of the contents with all their occurrences, so the ratios of the sample are estimates
//! of the ratios of the image.

use nitro_units::Fingerprint;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shards of the table, each with a lock.
const SHARDS: usize = 64;
/// The maximum RAM of a fingerprint in bytes: 16 bytes and a count, in a table that is being copied to one of twice its
/// size.
const ENTRY_BYTES_MAX: u64 = 72;
/// The number of fingerprints of each shard whose extents are all compressed; of later ones, one in
/// [`COMPRESSED_ONE_IN`].
const COMPRESSED_ALL: u64 = 2048;
/// See [`COMPRESSED_ALL`].
const COMPRESSED_ONE_IN: u8 = 8;

/// The first 128 bits of a fingerprint, which are uniformly distributed.
type Key = [u8; 16];

/// A hash function that takes the first bytes of a fingerprint.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    // The length, which arrays write first, is the same for all keys.
    fn write_usize(&mut self, _: usize) {}
}

#[derive(Default)]
struct Shard {
    counts: HashMap<Key, u32, BuildHasherDefault<FirstBytes>>,
    /// One in `1 << bits` fingerprints is kept.
    bits: u32,
}

/// What the caller has to do with an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Compress the extent: its content is new and in the sample.
    FirstSampled,
    /// Nothing: the extent is counted.
    Counted,
}

/// The counts of extents of one size.
pub struct Tally {
    pub(super) extent_bytes: usize,
    shards: Vec<Mutex<Shard>>,
    entries_max: usize,
    zeroes: AtomicU64,
    others: AtomicU64,
    compressed: AtomicU64,
    lz4_bytes: AtomicU64,
    zstd_bytes: AtomicU64,
}

/// The results of a tally.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    /// The number of extents that are all zeroes.
    pub zeroes: u64,
    /// The number of all other extents.
    pub others: u64,
    /// The other extents over their distinct contents; 1 if there are none.
    pub dedup_ratio: f64,
    /// Whether every fingerprint was kept.
    pub exact: bool,
    /// Bytes before compression with LZ4 over bytes after; 1 if there are none.
    pub lz4_ratio: f64,
    /// Bytes before compression with Zstandard over bytes after; 1 if there are none.
    pub zstd_ratio: f64,
}

impl Tally {
    /// An empty tally whose fingerprints take at most `ram_bytes`.
    #[must_use]
    pub fn new(extent_bytes: usize, ram_bytes: u64) -> Self {
        let entries_max = (ram_bytes / ENTRY_BYTES_MAX / SHARDS as u64).max(1) as usize;
        Self {
            extent_bytes,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            entries_max,
            zeroes: AtomicU64::new(0),
            others: AtomicU64::new(0),
            compressed: AtomicU64::new(0),
            lz4_bytes: AtomicU64::new(0),
            zstd_bytes: AtomicU64::new(0),
        }
    }

    /// Counts an extent that is all zeroes.
    pub(super) fn zero(&self) {
        self.zeroes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts another extent.
    pub(super) fn see(&self, fingerprint: &Fingerprint) -> Seen {
        self.others.fetch_add(1, Ordering::Relaxed);
        let Some(key) = fingerprint.0.first_chunk::<16>() else { return Seen::Counted };
        // Bytes 0 to 7 are the table's hash; the next ones choose the shard and the sample.
        let shard = &self.shards[usize::from(key[8]) % SHARDS];
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_kept(key, shard.bits) {
            return Seen::Counted;
        }
        let count = shard.counts.entry(*key).or_insert(0);
        *count = count.saturating_add(1);
        if *count > 1 {
            return Seen::Counted;
        }
        let known = shard.counts.len();
        if known > self.entries_max {
            shard.bits += 1;
            let bits = shard.bits;
            shard.counts.retain(|key, _| is_kept(key, bits));
        }
        let sampled = known as u64 <= COMPRESSED_ALL || key[9].is_multiple_of(COMPRESSED_ONE_IN);
        if sampled { Seen::FirstSampled } else { Seen::Counted }
    }

    /// Counts the compressed sizes of an extent, in bytes.
    pub(super) fn compressed(&self, lz4: usize, zstd: usize) {
        self.compressed.fetch_add(1, Ordering::Relaxed);
        self.lz4_bytes.fetch_add(lz4 as u64, Ordering::Relaxed);
        self.zstd_bytes.fetch_add(zstd as u64, Ordering::Relaxed);
    }

    /// The size of an extent in bytes.
    #[must_use]
    pub fn extent_bytes(&self) -> usize {
        self.extent_bytes
    }

    /// The results so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let (mut occurrences, mut contents, mut exact) = (0u64, 0u64, true);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            occurrences += shard.counts.values().map(|&count| u64::from(count)).sum::<u64>() << shard.bits;
            contents += (shard.counts.len() as u64) << shard.bits;
            exact &= shard.bits == 0;
        }
        let before = self.compressed.load(Ordering::Relaxed) * self.extent_bytes as u64;
        let ratio = |a: u64, b: u64| if b == 0 { 1.0 } else { a as f64 / b as f64 };
        Totals {
            zeroes: self.zeroes.load(Ordering::Relaxed),
            others: self.others.load(Ordering::Relaxed),
            dedup_ratio: ratio(occurrences, contents),
            exact,
            lz4_ratio: ratio(before, self.lz4_bytes.load(Ordering::Relaxed)),
            zstd_ratio: ratio(before, self.zstd_bytes.load(Ordering::Relaxed)),
        }
    }
}

fn is_kept(key: &Key, bits: u32) -> bool {
    let last = u32::from_le_bytes([key[12], key[13], key[14], key[15]]);
    last.trailing_zeros() >= bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_port::codec::FingerprintHash;

    fn seen(tally: &Tally, contents: u64, times: u64) {
        for number in (0..contents).flat_map(|content| (0..times).map(move |_| content)) {
            tally.see(&FingerprintHash::Blake3.of(&number.to_le_bytes()));
        }
    }

    #[test]
    fn duplicates_are_counted_exactly_while_there_is_room() {
        let tally = Tally::new(4096, 64 << 20);
        seen(&tally, 1000, 3);
        let totals = tally.totals();
        assert_eq!((totals.others, totals.dedup_ratio, totals.exact), (3000, 3.0, true));
    }

    #[test]
    fn a_full_table_goes_on_with_a_fair_sample() {
        let tally = Tally::new(4096, ENTRY_BYTES_MAX * 64 * 100);
        seen(&tally, 60_000, 2);
        let totals = tally.totals();
        assert!(!totals.exact && (totals.dedup_ratio - 2.0).abs() < 0.05, "{totals:?}");
        assert!(tally.shards.iter().all(|shard| shard.lock().unwrap().counts.len() <= 101));
    }
}
