//! The sizes of partitions, logs and stores, and the RAM and flash that they need.

use super::cuckoo::SLOTS_MAX;
use super::filter::Filter;
use super::log::Log;
use super::manifest::pages_for;
use super::page::{Layout, PageKind};
use super::trie::Trie;
use crate::superblock::SUPERBLOCKS_BYTES;
use crate::{Error, Options, PAGE_BYTES, Shape};
use serde::Serialize;

/// The bounds of the pages of a segment, which is the size of a log and of a hash store.
const SEGMENT_PAGES_MAX: u64 = 512;
const SEGMENT_PAGES_MIN: u64 = 4;
const PARTITIONS_MAX: u64 = 4096;
/// Partitions are merged in turn; with few partitions, most hash stores would be merged at once.
const PARTITIONS_MIN: u64 = 16;
/// The mean number of hash stores of a partition.
const HASH_STORES: f64 = 5.5;
/// The number of hash stores that may be added while a merge is in progress.
const HASH_STORES_SLACK: u64 = 2;
/// The maximum number of hash stores of a merge.
pub(super) const MERGED_MAX: usize = 16;
/// Bytes of a read or write of a sorted store.
pub(super) const PIECE_BYTES: usize = 256 << 10;
/// Bytes of a read of a hash store.
pub(super) const HASH_PIECE_BYTES: usize = 64 << 10;
/// Bytes of a log that are sorted together.
pub(super) const SORT_BYTES: usize = 512 << 10;
/// The shares of entries in hash stores that are tried: one in this number. A smaller share takes less RAM and more
/// writes.
const SHARES: [f64; 10] = [6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0, 28.0, 40.0, 60.0];

/// The sizes of an index.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plan {
    #[serde(skip)]
    pub(super) shape: Shape,
    /// The minimum number of entries before it is full.
    pub entries: u64,
    /// The number of partitions; a power of two.
    pub partitions: u32,
    /// Pages of a segment, the size of a log and of a hash store.
    pub segment_pages: u32,
    /// The number of hash stores, of all partitions, from which on they are merged.
    pub hash_stores: u32,
    /// The number of segments of the flash.
    pub segments: u32,
    /// Pages of each of the two manifests.
    pub manifest_pages: u32,
    /// Flash in bytes.
    pub flash_bytes: u64,
    /// The maximum RAM in bytes, including buffers.
    pub ram_bytes: u64,
    /// The expected number of bytes written for each byte inserted, from the first entry to the last.
    pub write_amplification: f64,
}

impl Plan {
    /// The sizes that fit into the RAM and need the fewest writes.
    ///
    /// # Errors
    /// [`Error::Setting`] with the least RAM that suffices, or with the nearest valid number of entries.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let entries = options.entries;
        if !(1..=1 << 34).contains(&entries) {
            let why = "an index holds from 1 to 2^34 entries".to_owned();
            return Err(Error::Setting { what: "entries", given: entries, why, nearest: entries.clamp(1, 1 << 34) });
        }
        let plans: Vec<Self> = SHARES.iter().filter_map(|s| Self::with(options.shape, entries, *s)).collect();
        let fitting = plans.iter().filter(|p| p.ram_bytes <= options.ram_bytes);
        let best = fitting.min_by(|a, b| a.write_amplification.total_cmp(&b.write_amplification));
        best.copied().ok_or_else(|| {
            let nearest = plans.iter().map(|p| p.ram_bytes).min().unwrap_or(u64::MAX);
            let why = format!("{entries} entries need more");
            Error::Setting { what: "RAM of the index in bytes", given: options.ram_bytes, why, nearest }
        })
    }

    /// The sizes with one in `share` of the entries in hash stores.
    fn with(shape: Shape, entries: u64, share: f64) -> Option<Self> {
        let page = Layout::new(PageKind::Log, shape).capacity() as u64;
        let pages_max = SEGMENT_PAGES_MAX.min(u64::from(SLOTS_MAX - 1) / page);
        // Entries for each page of a partition's log.
        let per_page = entries as f64 / (page as f64 * share * HASH_STORES);
        let least = power_of_two(per_page / SEGMENT_PAGES_MIN as f64, PARTITIONS_MIN);
        let partitions = least.max(power_of_two(per_page / pages_max as f64, PARTITIONS_MAX));
        let segment_pages =
            (per_page / partitions as f64).ceil().clamp(SEGMENT_PAGES_MIN as f64, pages_max as f64) as u64;
        let hash_stores = (entries as f64 / (share * (segment_pages * page) as f64)).ceil() as u64;
        Self::sized(shape, entries, partitions, segment_pages, hash_stores.max(2))
    }

    fn sized(shape: Shape, entries: u64, partitions: u64, segment_pages: u64, hash_stores: u64) -> Option<Self> {
        let mut plan = Self {
            shape,
            entries,
            partitions: u32::try_from(partitions).ok()?,
            segment_pages: u32::try_from(segment_pages).ok()?,
            hash_stores: u32::try_from(hash_stores).ok()?,
            segments: 0,
            manifest_pages: 0,
            flash_bytes: 0,
            ram_bytes: 0,
            write_amplification: 0.0,
        };
        let per_segment = segment_pages * Layout::new(PageKind::Sorted, shape).capacity() as u64;
        let sorted = plan.held_max().div_ceil(per_segment) + partitions;
        let output = plan.partition_entries_max().div_ceil(per_segment) + 1;
        // Each partition has two logs, two stores are being made from logs, and look-ups may hold a few retired ones.
        let segments = sorted + output + hash_stores + HASH_STORES_SLACK + 2 * partitions + 8;
        plan.segments = u32::try_from(segments).ok()?;
        plan.manifest_pages = pages_for(&plan);
        plan.flash_bytes = plan.segments_at() + segments * segment_pages * PAGE_BYTES as u64;
        plan.ram_bytes = plan.ram_bytes_needed();
        plan.write_amplification = plan.writes();
        Some(plan)
    }

    /// The number of entries of a log or a hash store.
    pub(super) fn log_entries(&self) -> u64 {
        u64::from(self.segment_pages) * Layout::new(PageKind::Log, self.shape).capacity() as u64
    }

    /// The maximum number of hash stores: at this number, conversions wait for a merge.
    pub(super) fn hash_stores_max(&self) -> usize {
        self.hash_stores as usize + HASH_STORES_SLACK as usize
    }

    /// The maximum number of entries in all stores, replaced ones included: `entries`, and those that are not merged.
    pub(super) fn held_max(&self) -> u64 {
        let newer = self.hash_stores_max() as u64 + 2 * u64::from(self.partitions);
        self.entries + newer * self.log_entries()
    }

    /// The maximum number of entries of one partition, if hashes are random: eight standard deviations above the mean,
    /// and the hash stores of a merge.
    fn partition_entries_max(&self) -> u64 {
        let mean = self.held_max() as f64 / f64::from(self.partitions);
        (mean + 8.0 * mean.sqrt()) as u64 + MERGED_MAX as u64 * self.log_entries()
    }

    /// The offset of the first segment.
    pub(super) fn segments_at(&self) -> u64 {
        SUPERBLOCKS_BYTES + 2 * u64::from(self.manifest_pages) * PAGE_BYTES as u64
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        u64::from(self.segment_pages) * PAGE_BYTES as u64
    }

    pub(super) fn piece_pages(&self) -> u32 {
        (self.segment_pages / 4).clamp(4, (PIECE_BYTES / PAGE_BYTES) as u32)
    }

    pub(super) fn hash_piece_pages(&self) -> u32 {
        (self.segment_pages / 8).clamp(1, (HASH_PIECE_BYTES / PAGE_BYTES) as u32)
    }

    fn ram_bytes_needed(&self) -> u64 {
        let partitions = u64::from(self.partitions);
        let sorted_page = Layout::new(PageKind::Sorted, self.shape).capacity() as u32;
        let entries = self.entries.div_ceil(partitions);
        // One trie is rebuilt while the old one is in use.
        let tries = (partitions + 1) * Trie::ram_bytes_max(entries, sorted_page);
        let filters = self.hash_stores_max() as u64 * (Filter::ram_bytes_for(self.log_entries()) + 160);
        // One more log is being converted.
        let logs = (partitions + 1) * Log::ram_bytes_for(self.log_entries(), self.segment_pages);
        let small = u64::from(self.segments) * 33 + partitions * 700 + (64 << 10);
        tries + filters + logs + small + self.buffers_bytes()
    }

    /// The buffers of a conversion and a merge, in bytes.
    fn buffers_bytes(&self) -> u64 {
        let log = self.log_entries() * self.shape.entry_bytes() as u64;
        let sorted = (SORT_BYTES as u64 * 5 / 4).min(log);
        let index = sorted / self.shape.entry_bytes() as u64 * 24;
        let piece = u64::from(self.piece_pages()) * PAGE_BYTES as u64;
        let hash_piece = u64::from(self.hash_piece_pages()) * PAGE_BYTES as u64;
        let merged = u64::from(self.hash_stores).min(MERGED_MAX as u64);
        (sorted + index + 2 * piece) + (merged * hash_piece + 2 * piece)
    }

    /// Bytes written for each byte inserted while the index fills: once to the log, once to a hash store, and `1/2 + n
    /// / 2m` times to sorted stores, which grow by `m` entries in each merge. The partitions have between 0 and `m`
    /// entries in hash stores, so `m` is twice the mean.
    fn writes(&self) -> f64 {
        let page =
            |kind| PAGE_BYTES as f64 / (Layout::new(kind, self.shape).capacity() * self.shape.entry_bytes()) as f64;
        let partitions = f64::from(self.partitions);
        let stores = (2.0 * f64::from(self.hash_stores) / (partitions + 1.0)).clamp(1.0, MERGED_MAX as f64);
        let merges = (self.entries as f64 / partitions / (stores * self.log_entries() as f64)).max(1.0);
        2.0 * page(PageKind::Log) + page(PageKind::Sorted) * (1.0 + merges) / 2.0
    }

    /// The settings in the superblock.
    pub(super) fn settings(&self) -> [u64; 8] {
        let sizes = [self.partitions, self.segment_pages, self.hash_stores].map(u64::from);
        [self.entries, sizes[0], sizes[1], sizes[2], 0, 0, 0, 0]
    }

    /// The plan of the settings in a superblock.
    pub(super) fn restored(shape: Shape, settings: [u64; 8]) -> Result<Self, Error> {
        let [entries, partitions, segment_pages, hash_stores, ..] = settings;
        let page = Layout::new(PageKind::Log, shape).capacity() as u64;
        let legal = (1..=1 << 34).contains(&entries)
            && partitions.is_power_of_two()
            && partitions <= PARTITIONS_MAX
            && (SEGMENT_PAGES_MIN..=SEGMENT_PAGES_MAX).contains(&segment_pages)
            && segment_pages * page < SLOTS_MAX.into()
            && (2..=1 << 24).contains(&hash_stores);
        let plan = legal.then(|| Self::sized(shape, entries, partitions, segment_pages, hash_stores)).flatten();
        plan.ok_or_else(|| Error::Damaged("the sizes in its superblock are not valid".to_owned()))
    }

    pub(super) fn partition_bits(&self) -> u32 {
        self.partitions.ilog2()
    }
}

/// The largest power of two up to `wanted`, from 1 to `max`.
fn power_of_two(wanted: f64, max: u64) -> u64 {
    1 << (wanted.max(1.0) as u64).min(max).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(key_bytes: u8, value_bytes: u16, entries: u64, ram_bytes: u64) -> Result<Plan, Error> {
        Plan::new(&Options { shape: Shape::new(key_bytes, value_bytes).unwrap(), entries, ram_bytes })
    }

    #[test]
    fn twenty_million_entries_need_what_the_paper_says_or_less() {
        let plan = plan(20, 12, 20_000_000, 14_000_000).unwrap();
        assert!(plan.ram_bytes <= 14_000_000 && plan.write_amplification <= 5.4, "{plan:?}");
        assert!(plan.flash_bytes < 20_000_000 * 32 * 17 / 10, "{plan:?}");
    }

    #[test]
    fn plans_are_restored_and_more_ram_means_fewer_writes() {
        for (key, value) in [(8, 0), (20, 12), (20, 1000), (64, 1024)] {
            for entries in [1, 1000, 100_000, 5_000_000, 1_000_000_000, 1 << 34] {
                let large = plan(key, value, entries, u64::MAX).unwrap();
                let shape = Shape::new(key, value).unwrap();
                assert_eq!(Plan::restored(shape, large.settings()).unwrap(), large);
                let Err(Error::Setting { nearest, .. }) = plan(key, value, entries, 1) else { panic!("one byte") };
                let small = plan(key, value, entries, nearest).unwrap();
                assert!(small.ram_bytes <= nearest && small.write_amplification >= large.write_amplification);
                assert!(plan(key, value, entries, nearest - 1).is_err());
            }
        }
        assert!(matches!(plan(20, 12, 0, 1 << 30), Err(Error::Setting { nearest: 1, .. })));
        assert!(Plan::restored(Shape::new(20, 12).unwrap(), [u64::MAX; 8]).is_err());
    }
}
