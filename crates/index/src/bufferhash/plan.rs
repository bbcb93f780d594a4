//! The sizes of the index: a given amount of RAM is divided between buffers and filters.

use super::buffer::Buffer;
use super::epoch::EPOCHS_BYTES;
use super::filters::FilterShape;
use super::page::entries_per_page;
use crate::superblock::SUPERBLOCKS_BYTES;
use crate::{Error, Options, PAGE_BYTES, Shape};
use serde::Serialize;

/// The usual bytes of a buffer, and so of an incarnation: an erase block of the paper's SSD, and large enough for a
/// sequential write (§6.4 of the paper, "per-buffer size").
pub const BUFFER_BYTES: u64 = 128 << 10;
/// The bounds of the bytes of a buffer.
pub const BUFFER_BYTES_MIN: u64 = 16 << 10;
/// See [`BUFFER_BYTES_MIN`].
pub const BUFFER_BYTES_MAX: u64 = 1 << 20;
const SUPER_BITS_MAX: u32 = 20;
/// The maximum number of incarnations of a super table. With more, a look-up would take too long for the rows of the
/// filters.
const WINDOW_MAX: u32 = 512;
const FILTER_BITS_MAX: f64 = 32.0;
/// The cost of one more word in each row of the filters, in page reads: about 20 ns, while a read takes 10 µs.
const ROW_WORD_READS: f64 = 0.002;
/// Pages of a half of the journal in addition to those for the content of all buffers, in percent of the latter.
const JOURNAL_PERCENT: u64 = 200;
/// RAM of a super table without its buffer and filters, and of an incarnation without its filter, in bytes.
const TABLE_BYTES: u64 = 400;
const INCARNATION_RAM_BYTES: u64 = 48;
/// The number of incarnations that are being written at a time, at most, and the RAM of each beside its content, in bytes.
const WRITING: u64 = 4;
const WRITING_BYTES: u64 = 64 << 10;

/// The sizes of an index.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Plan {
    #[serde(skip)]
    pub(super) shape: Shape,
    #[serde(skip)]
    pub(super) seed: u64,
    /// The number of super tables; a power of two.
    pub super_tables: u32,
    /// Pages of an incarnation.
    pub incarnation_pages: u32,
    /// The number of incarnations on the flash.
    pub slots: u32,
    /// The maximum number of incarnations of one super table.
    pub window: u32,
    /// Bits of an incarnation's Bloom filter.
    pub filter_bits: u32,
    /// Bits that an entry sets in the filter.
    pub filter_hashes: u32,
    /// Pages of each half of the journal.
    pub journal_pages: u32,
    /// Flash in bytes.
    pub flash_bytes: u64,
    /// RAM in bytes.
    pub ram_bytes: u64,
    /// RAM of the buffers in bytes.
    pub buffers_bytes: u64,
    /// RAM of the filters in bytes.
    pub filters_bytes: u64,
    /// The number of entries that it holds before the oldest are discarded.
    pub entries: u64,
    /// The expected number of page reads of a look-up of an absent key, by the formula of Bloom filters.
    pub reads_per_miss: f64,
}

/// The total size of the buffers, in bytes, with which look-ups are cheapest; the remaining RAM, however much it is, is
/// for Bloom filters (BufferHash, NSDI 2010, §6.4): `F / (s · ln²2)` bits, about two bits for each entry on the flash.
#[must_use]
pub fn best_buffers_bytes(flash_bytes: u64, entry_bytes: u64) -> u64 {
    let entries = flash_bytes as f64 / entry_bytes.max(1) as f64;
    (entries / std::f64::consts::LN_2.powi(2) / 8.0) as u64
}

impl Plan {
    /// The sizes with the cheapest look-ups that fit into the RAM, with buffers of [`BUFFER_BYTES`].
    ///
    /// # Errors
    /// [`Error::Setting`] with the least RAM that suffices, or with the nearest valid number of entries.
    pub fn new(options: &Options) -> Result<Self, Error> {
        Self::with_buffers(options, BUFFER_BYTES)
    }

    /// The same with buffers of `buffer_bytes`: a power of two from [`BUFFER_BYTES_MIN`] to [`BUFFER_BYTES_MAX`]. Small
    /// ones make the longest insertion shorter; large ones make insertions cheaper on average.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Setting`] for another size of buffers.
    pub fn with_buffers(options: &Options, buffer_bytes: u64) -> Result<Self, Error> {
        if !buffer_bytes.is_power_of_two() || !(BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX).contains(&buffer_bytes) {
            let nearest = buffer_bytes.clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
            let nearest = if nearest.is_power_of_two() { nearest } else { nearest.next_power_of_two() >> 1 };
            let why = "a buffer has a power of two of bytes, from 16 KiB to 1 MiB".to_owned();
            return Err(Error::Setting { what: "bytes of a buffer", given: buffer_bytes, why, nearest });
        }
        let pages = (buffer_bytes / PAGE_BYTES as u64) as u32;
        let entries = options.entries;
        if !(1..=1 << 40).contains(&entries) {
            let why = "an index holds from 1 to 2^40 entries".to_owned();
            return Err(Error::Setting { what: "entries", given: entries, why, nearest: entries.clamp(1, 1 << 40) });
        }
        let best = Self::choices_with(options, pages).into_iter().min_by(|a, b| a.cost().total_cmp(&b.cost()));
        best.ok_or_else(|| {
            let need =
                (0..=SUPER_BITS_MAX).filter_map(|bits| Self::least_ram(options.shape, entries, bits, pages)).min();
            let why = format!("{entries} entries need more");
            let nearest = need.unwrap_or(u64::MAX);
            Error::Setting { what: "RAM of the index in bytes", given: options.ram_bytes, why, nearest }
        })
    }

    /// The sizes that fit into the RAM, one for each number of super tables: from few buffers and large filters to many
    /// buffers and small filters. [`new`](Self::new) chooses the best of them.
    #[must_use]
    pub fn choices(options: &Options) -> Vec<Self> {
        Self::choices_with(options, (BUFFER_BYTES / PAGE_BYTES as u64) as u32)
    }

    fn choices_with(options: &Options, pages: u32) -> Vec<Self> {
        let with = |bits| Self::with(options.shape, options.entries, bits, pages, options.ram_bytes);
        (0..=SUPER_BITS_MAX).filter_map(with).collect()
    }

    /// The cost of a look-up of an absent key, in page reads; longer rows of the filters take time, too.
    fn cost(&self) -> f64 {
        self.reads_per_miss + ROW_WORD_READS * self.filter_shape().row_words() as f64
    }

    fn incarnation_entries(shape: Shape, pages: u32) -> u64 {
        u64::from(pages) * entries_per_page(shape) as u64
    }

    /// The sizes without the filters, for incarnations of `pages`. `None` if a super table has too many incarnations.
    fn without_filters(shape: Shape, entries: u64, super_bits: u32, pages: u32) -> Option<Self> {
        let super_tables = 1_u32 << super_bits;
        let per_incarnation = Self::incarnation_entries(shape, pages);
        // The incarnations that are being overwritten hold no entries.
        let slots = entries.div_ceil(per_incarnation).max(u64::from(super_tables) * 2) + 2;
        let slots = u32::try_from(slots).ok()?;
        // Super tables fill at nearly the same rate.
        let window = slots.div_ceil(super_tables) + 2;
        if window > WINDOW_MAX {
            return None;
        }
        let in_buffers = u64::from(super_tables) * per_incarnation;
        let full = in_buffers.div_ceil(entries_per_page(shape) as u64) + 2;
        let journal_pages = u32::try_from(full + full * JOURNAL_PERCENT / 100).ok()?;
        let plan = Self {
            shape,
            seed: 0,
            super_tables,
            incarnation_pages: pages,
            slots,
            window,
            filter_bits: 0,
            filter_hashes: 0,
            journal_pages,
            flash_bytes: 0,
            ram_bytes: 0,
            buffers_bytes: 0,
            filters_bytes: 0,
            entries: (u64::from(slots) - 2) * per_incarnation,
            reads_per_miss: 0.0,
        };
        Some(plan.with_totals())
    }

    /// Computes the totals from the other sizes.
    fn with_totals(mut self) -> Self {
        let (tables, slots) = (u64::from(self.super_tables), u64::from(self.slots));
        let per_incarnation = self.entries_per_incarnation();
        self.buffers_bytes = tables * Buffer::ram_bytes(self.shape, per_incarnation as usize);
        if self.filter_bits > 0 {
            let filters = self.filter_shape();
            self.filters_bytes = tables * filters.ram_bytes();
            let alive = f64::from(self.slots) / f64::from(self.super_tables);
            self.reads_per_miss = alive * filters.false_positives(per_incarnation);
        }
        self.ram_bytes = self.buffers_bytes
            + self.filters_bytes
            + tables * TABLE_BYTES
            + slots * (INCARNATION_RAM_BYTES + u64::from(self.incarnation_pages) * 4)
            + WRITING * (self.incarnation_bytes() + WRITING_BYTES);
        self.flash_bytes = self.slots_offset() + slots * self.incarnation_bytes();
        self
    }

    fn filled_up(mut self, bits_per_entry: f64) -> Self {
        self.filter_bits = (self.entries_per_incarnation() as f64 * bits_per_entry) as u32;
        let alive = f64::from(self.slots) / f64::from(self.super_tables);
        self.filter_hashes = FilterShape::hashes_for(bits_per_entry, alive);
        self.with_totals()
    }

    fn with(shape: Shape, entries: u64, super_bits: u32, pages: u32, ram_bytes: u64) -> Option<Self> {
        let plan = Self::without_filters(shape, entries, super_bits, pages)?;
        let left = ram_bytes.checked_sub(plan.ram_bytes)?;
        let columns = u64::from(FilterShape::columns_for(plan.window)) * u64::from(plan.super_tables);
        let bits = left as f64 * 8.0 / (columns * plan.entries_per_incarnation()) as f64;
        let plan = plan.filled_up((bits * 0.999).min(FILTER_BITS_MAX));
        (bits >= 1.0 && plan.ram_bytes <= ram_bytes).then_some(plan)
    }

    fn least_ram(shape: Shape, entries: u64, super_bits: u32, pages: u32) -> Option<u64> {
        Self::without_filters(shape, entries, super_bits, pages).map(|p| p.filled_up(1.01).ram_bytes + 4096)
    }

    pub(super) fn entries_per_incarnation(&self) -> u64 {
        Self::incarnation_entries(self.shape, self.incarnation_pages)
    }

    pub(super) fn filter_shape(&self) -> FilterShape {
        FilterShape {
            rows: self.filter_bits,
            columns: FilterShape::columns_for(self.window),
            hashes: self.filter_hashes,
        }
    }

    pub(super) fn super_bits(&self) -> u32 {
        self.super_tables.trailing_zeros()
    }

    pub(super) fn super_table_of(&self, hash: u128) -> usize {
        (hash >> 64).checked_shr(64 - self.super_bits()).unwrap_or(0) as usize
    }

    pub(super) fn incarnation_bytes(&self) -> u64 {
        u64::from(self.incarnation_pages) * PAGE_BYTES as u64
    }

    /// The offset of a half of the journal.
    pub(super) fn journal_offset(&self, half: usize) -> u64 {
        SUPERBLOCKS_BYTES + EPOCHS_BYTES + half as u64 * u64::from(self.journal_pages) * PAGE_BYTES as u64
    }

    fn slots_offset(&self) -> u64 {
        self.journal_offset(2).next_multiple_of(self.incarnation_bytes())
    }

    /// The offset of the incarnation with this sequence number.
    pub(super) fn slot_offset(&self, sequence: u64) -> u64 {
        self.slots_offset() + sequence % u64::from(self.slots) * self.incarnation_bytes()
    }

    /// The settings in the superblock.
    pub(super) fn settings(&self) -> [u64; 8] {
        [
            self.super_tables.into(),
            self.incarnation_pages.into(),
            self.slots.into(),
            self.window.into(),
            self.filter_bits.into(),
            self.filter_hashes.into(),
            self.journal_pages.into(),
            0,
        ]
    }

    /// The plan of the settings in a superblock.
    pub(super) fn restored(shape: Shape, seed: u64, settings: [u64; 8]) -> Result<Self, Error> {
        let damaged = || Error::Damaged("the sizes in its superblock are not valid".to_owned());
        let small = |number: u64, max: u64| u32::try_from(number).ok().filter(|n| *n >= 1 && u64::from(*n) <= max);
        let read = || {
            let super_tables = small(settings[0], 1 << SUPER_BITS_MAX).filter(|n| n.is_power_of_two())?;
            let pages = small(settings[1], 1 << 10)?;
            let mut plan = Self::without_filters(shape, 1, super_tables.trailing_zeros(), pages)?;
            plan.seed = seed;
            plan.slots = small(settings[2], u64::from(u32::MAX))?;
            plan.window = small(settings[3], WINDOW_MAX.into())?;
            plan.journal_pages = small(settings[6], u64::from(u32::MAX))?;
            let per_incarnation = Self::incarnation_entries(shape, plan.incarnation_pages);
            plan.filter_bits = small(settings[4], per_incarnation * FILTER_BITS_MAX as u64)?;
            plan.filter_hashes = small(settings[5], 64)?;
            plan.entries = u64::from(plan.slots).checked_sub(2)?.checked_mul(per_incarnation)?;
            Some(plan.with_totals())
        };
        read().ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { key_bytes: 20, value_bytes: 12 };

    #[test]
    fn more_ram_means_fewer_reads() {
        let mut last = f64::INFINITY;
        for mib in [40, 60, 80, 120] {
            let plan = Plan::new(&Options { shape: SHAPE, entries: 20_000_000, ram_bytes: mib << 20 }).unwrap();
            assert!(plan.ram_bytes <= mib << 20 && plan.entries >= 20_000_000);
            assert!(plan.reads_per_miss < last, "{plan:?}");
            last = plan.reads_per_miss;
            assert_eq!(Plan::restored(SHAPE, 0, plan.settings()).unwrap(), plan);
        }
        assert!(last < 0.001, "{last}");
    }

    #[test]
    fn too_little_ram_is_refused_with_what_suffices() {
        let options = Options { shape: SHAPE, entries: 20_000_000, ram_bytes: 1 << 20 };
        let Err(Error::Setting { nearest, .. }) = Plan::new(&options) else { panic!("took 1 MiB") };
        assert!(Plan::new(&Options { ram_bytes: nearest, ..options }).is_ok(), "{nearest}");
        assert!(Plan::new(&Options { ram_bytes: nearest * 9 / 10, ..options }).is_err());
    }

    #[test]
    fn buffers_of_other_sizes_are_kept_in_the_superblock_and_others_are_refused() {
        let options = Options { shape: SHAPE, entries: 2_000_000, ram_bytes: 32 << 20 };
        for bytes in [BUFFER_BYTES_MIN, 64 << 10, BUFFER_BYTES_MAX] {
            let plan = Plan::with_buffers(&options, bytes).unwrap();
            assert!(plan.incarnation_bytes() == bytes && plan.ram_bytes <= options.ram_bytes, "{plan:?}");
            assert_eq!(Plan::restored(SHAPE, 0, plan.settings()).unwrap(), plan);
        }
        for (given, usable) in [(4096, 16 << 10), (100_000, 64 << 10), (2 << 20, 1 << 20)] {
            let Err(Error::Setting { nearest, .. }) = Plan::with_buffers(&options, given) else { panic!("{given}") };
            assert_eq!(nearest, usable);
        }
    }

    #[test]
    fn the_best_buffers_have_two_bits_an_entry() {
        // Claim B5: 32 GB of flash with entries of 32 bytes.
        let bits = best_buffers_bytes(32 << 30, 32) as f64 * 8.0 / f64::from(1 << 30);
        assert!((bits - 2.08).abs() < 0.01, "{bits}");
    }
}
