//! The filter of a hash store in RAM (SILT §4.2): it returns the positions at which a hash may be.
//!
//! The entries of a hash store are sorted by hash. The hashes are divided into *buckets* of equal width. RAM holds, for
//! each bucket, the number of entries before it and the next 16 bits of every hash in it. Unlike the paper's filter,
//! which keeps the log's cuckoo table, this one is in the order in which stores are merged, and takes 2.13 bytes an
//! entry instead of 2.2.

use smallvec::SmallVec;
use std::ops::Range;

/// The mean number of entries of a bucket.
const BUCKET: u64 = 32;

/// The filter of a hash store.
pub struct Filter {
    /// The number of entries before each bucket, and of all.
    starts: Box<[u32]>,
    remainders: Box<[u16]>,
    /// Ranges of hashes, inclusive at both ends, that contain lost entries.
    gaps: Box<[Range<u64>]>,
}

/// Builds a [`Filter`] from hashes in ascending order.
pub struct FilterBuilder {
    buckets: u64,
    starts: Vec<u32>,
    remainders: Vec<u16>,
    gaps: Vec<Range<u64>>,
}

/// The bucket and the remainder of a hash.
fn split(hash: u64, buckets: u64) -> (usize, u16) {
    let product = u128::from(hash) * u128::from(buckets);
    ((product >> 64) as usize, (product >> 48) as u16)
}

fn buckets_for(entries: u64) -> u64 {
    (entries / BUCKET).max(1)
}

impl FilterBuilder {
    /// A builder for about `entries` entries.
    #[must_use]
    pub fn new(entries: u64) -> Self {
        let buckets = buckets_for(entries);
        let starts = Vec::with_capacity(buckets as usize + 1);
        Self { buckets, starts, remainders: Vec::with_capacity(entries as usize), gaps: Vec::new() }
    }

    /// Adds the next hash, which must not be lower than the previous one.
    pub fn push(&mut self, hash: u64) {
        let (bucket, remainder) = split(hash, self.buckets);
        self.starts.resize((bucket + 1).max(self.starts.len()), self.remainders.len() as u32);
        self.remainders.push(remainder);
    }

    /// Adds `count` entries that cannot be read, with hashes in a range.
    pub(super) fn push_lost(&mut self, count: usize, between: Range<u64>) {
        // They are counted, so that later entries keep their ranks; look-ups check the gaps first.
        (0..count).for_each(|_| self.push(between.start));
        self.gaps.push(between);
    }

    /// Completes the filter.
    #[must_use]
    pub fn finish(mut self) -> Filter {
        self.starts.resize(self.buckets as usize + 1, self.remainders.len() as u32);
        Filter {
            starts: self.starts.into_boxed_slice(),
            remainders: self.remainders.into_boxed_slice(),
            gaps: self.gaps.into_boxed_slice(),
        }
    }
}

impl Filter {
    /// The ranks of the entries that may have this hash. An entry with another hash is returned with a probability of
    /// about `32 × 2⁻¹⁶`.
    #[must_use]
    pub fn find(&self, hash: u64) -> SmallVec<[u32; 2]> {
        let (bucket, remainder) = split(hash, self.starts.len() as u64 - 1);
        let (from, to) = (self.starts[bucket], self.starts[bucket + 1]);
        let remainders = &self.remainders[from as usize..to as usize];
        // Usually there is no match, which a loop without an early exit finds fastest.
        if !remainders.iter().fold(false, |found, r| found | (*r == remainder)) {
            return SmallVec::new();
        }
        remainders.iter().zip(from..).filter(|(r, _)| **r == remainder).map(|(_, at)| at).collect()
    }

    /// Whether an entry with this hash may be among the lost ones.
    pub(super) fn may_be_lost(&self, hash: u64) -> bool {
        self.gaps.iter().any(|g| g.start <= hash && hash <= g.end)
    }

    /// RAM in use, in bytes.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        (size_of_val(&*self.starts) + size_of_val(&*self.remainders) + size_of_val(&*self.gaps)) as u64
    }

    /// RAM of a filter for `entries` entries, in bytes.
    #[must_use]
    pub fn ram_bytes_for(entries: u64) -> u64 {
        2 * entries + 4 * (buckets_for(entries) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(count: u64, seed: u64) -> Vec<u64> {
        let mut hashes: Vec<u64> =
            (0..count).map(|n| xxhash_rust::xxh3::xxh3_64_with_seed(&n.to_le_bytes(), seed)).collect();
        hashes.sort_unstable();
        hashes
    }

    #[test]
    fn every_hash_is_found_where_it_stands_and_others_as_seldom_as_computed() {
        for count in [0, 1, 31, 5000, 64_512] {
            let hashes = random(count, 1);
            let mut builder = FilterBuilder::new(count);
            hashes.iter().for_each(|h| builder.push(*h));
            let filter = builder.finish();
            assert!((0..).zip(&hashes).all(|(at, h)| filter.find(*h).contains(&at)), "{count}");
            assert_eq!(filter.ram_bytes(), Filter::ram_bytes_for(count));
            let asked = 1_000_000;
            let wrong: usize = random(asked, 2).iter().map(|h| filter.find(*h).len()).sum();
            if count > 10_000 {
                let expected = asked as f64 * count as f64 / ((filter.starts.len() - 1) as f64 * 65536.0);
                assert!((expected * 0.8..expected * 1.2).contains(&(wrong as f64)), "{wrong} false, not {expected}");
                let each = filter.ram_bytes() as f64 / count as f64;
                assert!(each <= 2.2, "{each} bytes an entry");
            }
        }
    }

    #[test]
    fn lost_entries_keep_places_right() {
        let hashes = random(1000, 3);
        let mut builder = FilterBuilder::new(1000);
        hashes[..500].iter().for_each(|h| builder.push(*h));
        builder.push_lost(100, hashes[499]..hashes[600]);
        hashes[600..].iter().for_each(|h| builder.push(*h));
        let filter = builder.finish();
        assert!((0..500).chain(600..1000).all(|at| filter.find(hashes[at]).contains(&(at as u32))));
        assert!((499..=600).all(|at| filter.may_be_lost(hashes[at])));
        assert!(!filter.may_be_lost(hashes[498]) && !filter.may_be_lost(hashes[601]));
    }
}
