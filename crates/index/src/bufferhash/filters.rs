//! The Bloom filters of a super table's incarnations, bit-sliced: bit *i* of all filters is in one row, so that one
//! access to a row tests all filters.
//!
//! A row has a column for each incarnation that can be alive. Columns are used in turn: the column of the oldest
//! incarnation is reused for the newest one (the paper's sliding window), in one pass over the rows that sets or clears
//! each bit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD_BITS: u32 = u64::BITS;
const HASHES_MAX: u32 = 24;
/// The number of rows that can be read in the time that a page read takes, of the device and the processor.
const READ_ROWS: f64 = 200.0;

/// The sizes of the filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterShape {
    /// Bits of a filter, which is the number of rows.
    pub(super) rows: u32,
    /// The number of filters; a multiple of eight.
    pub(super) columns: u32,
    /// The number of bits that an entry sets.
    pub(super) hashes: u32,
}

impl FilterShape {
    /// The number of columns for `count` filters.
    pub(super) const fn columns_for(count: u32) -> u32 {
        count.next_multiple_of(8)
    }

    fn row_bytes(&self) -> usize {
        self.columns as usize / 8
    }

    /// The number of words that an access to a row reads.
    pub(super) fn row_words(&self) -> usize {
        self.row_bytes().div_ceil(8)
    }

    /// The number of bits to set for each entry, so that look-ups of absent keys in `filters` filters are cheapest. `ln
    /// 2 × bits_per_entry` minimizes false positives; but with fewer bits, filters are emptier, and fewer rows (each a
    /// cache miss) have to be read.
    pub(super) fn hashes_for(bits_per_entry: f64, filters: f64) -> u32 {
        let rarest = ((bits_per_entry * std::f64::consts::LN_2).round() as u32).clamp(1, HASHES_MAX);
        let cost = |hashes: u32| {
            let set = 1.0 - (-f64::from(hashes) / bits_per_entry).exp();
            let left = |rows: u32| filters * set.powi(rows as i32);
            (0..hashes).map(|row| left(row).min(1.0)).sum::<f64>() + left(hashes) * READ_ROWS
        };
        (1..=rarest).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(rarest)
    }

    /// The probability that a full filter reports an absent key as present.
    pub(super) fn false_positives(&self, entries: u64) -> f64 {
        let set = 1.0 - (-f64::from(self.hashes) * entries as f64 / f64::from(self.rows)).exp();
        set.powi(self.hashes as i32)
    }

    fn words(&self) -> usize {
        // A row is read in whole words, two of which may belong to other rows in part.
        (self.rows as usize * self.row_bytes()).div_ceil(8) + 2
    }

    pub(super) fn ram_bytes(&self) -> u64 {
        self.words() as u64 * 8
    }

    /// The rows of a key.
    fn rows_of(&self, hash: u64) -> impl Iterator<Item = u32> {
        let (rows, step) = (u64::from(self.rows), (hash >> 32) as u32 | 1);
        let mut at = hash as u32;
        (0..self.hashes).map(move |i| {
            let row = (u64::from(at) * rows) >> 32;
            at = at.wrapping_add(step).wrapping_add(i.wrapping_mul(0x9E37_79B9));
            row as u32
        })
    }
}

/// A filter that is being filled.
pub(super) struct Column {
    shape: FilterShape,
    bits: Vec<u64>,
}

impl Column {
    pub(super) fn new(shape: FilterShape) -> Self {
        Self { shape, bits: vec![0; shape.rows.div_ceil(WORD_BITS) as usize] }
    }

    pub(super) fn add(&mut self, hash: u64) {
        for row in self.shape.rows_of(hash) {
            self.bits[(row / WORD_BITS) as usize] |= 1 << (row % WORD_BITS);
        }
    }
}

/// The columns that may hold a key.
pub(super) struct Columns {
    words: smallvec::SmallVec<[u64; 2]>,
}

impl Columns {
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().zip((0..).step_by(WORD_BITS as usize)).flat_map(|(word, first)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < WORD_BITS).then_some(first + bit)
            })
        })
    }
}

/// All filters of a super table. They are changed and read only under the lock of the table, but [`warm`](Self::warm)
/// may be called at any time.
pub(super) struct Filters {
    shape: FilterShape,
    /// The rows, packed, lowest byte first.
    words: Box<[AtomicU64]>,
}

/// The number of rows that are read before the result is checked, so that their memory accesses overlap.
const ROWS_AT_ONCE: u32 = 5;
/// The number of rows that are prefetched: few look-ups read more.
const ROWS_WARM: usize = 6;

impl Filters {
    pub(super) fn new(shape: FilterShape) -> Self {
        Self { words: (0..shape.words()).map(|_| AtomicU64::new(0)).collect(), shape }
    }

    pub(super) fn shape(&self) -> FilterShape {
        self.shape
    }

    /// The eight bytes from byte `at` on.
    #[inline]
    fn word(&self, at: usize) -> u64 {
        let (word, shift) = (at / 8, at % 8 * 8);
        let (low, high) = (self.words[word].load(Relaxed), self.words[word + 1].load(Relaxed));
        low >> shift | high << 1 << (63 - shift)
    }

    /// Reads the rows that a look-up of the key will read. The result is not used; but the memory accesses for many
    /// keys overlap, so that [probing](Self::probe) them afterwards does not wait for each in turn.
    #[inline]
    pub(super) fn warm(&self, hash: u64) -> u64 {
        let rows = self.shape.rows_of(hash).take(ROWS_WARM);
        rows.fold(0, |sum, row| sum ^ self.words[row as usize * self.shape.row_bytes() / 8].load(Relaxed))
    }

    /// The columns whose filters may hold the key.
    #[inline]
    pub(super) fn probe(&self, hash: u64) -> Columns {
        let (row_bytes, width) = (self.shape.row_bytes(), self.shape.row_words());
        let mut words: smallvec::SmallVec<[u64; 2]> = smallvec::smallvec![u64::MAX; width];
        // The bits after the last column belong to another row.
        if let Some(last) = words.last_mut().filter(|_| !row_bytes.is_multiple_of(8)) {
            *last = !(u64::MAX << (row_bytes % 8 * 8));
        }
        let mut rows = self.shape.rows_of(hash);
        let mut left = self.shape.hashes;
        while left > 0 {
            let now = left.min(ROWS_AT_ONCE);
            left -= now;
            for row in rows.by_ref().take(now as usize) {
                let first = row as usize * row_bytes;
                for (i, found) in words.iter_mut().enumerate() {
                    *found &= self.word(first + i * 8);
                }
            }
            if words.iter().all(|w| *w == 0) {
                break;
            }
        }
        Columns { words }
    }

    /// Replaces the filter of a column.
    pub(super) fn set(&self, column: u32, filter: &Column) {
        let row_bytes = self.shape.row_bytes();
        for row in 0..self.shape.rows as usize {
            let bit = filter.bits[row / WORD_BITS as usize] >> (row % WORD_BITS as usize) & 1;
            let byte = row * row_bytes + (column / 8) as usize;
            let (word, shift) = (&self.words[byte / 8], byte % 8 * 8 + (column % 8) as usize);
            // There is only one writer.
            word.store(word.load(Relaxed) & !(1 << shift) | bit << shift, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_of;

    fn hash(filter: u64, n: u64) -> u64 {
        hash_of(&[filter.to_le_bytes(), n.to_le_bytes()].concat(), 1) as u64
    }

    #[test]
    fn every_filter_finds_its_own_and_few_others() {
        for (count, bits) in [(1, 8.0), (3, 10.0), (16, 14.0), (64, 12.0), (100, 9.0)] {
            let entries = 1000_u32;
            let columns = FilterShape::columns_for(count);
            let shape = FilterShape {
                rows: (f64::from(entries) * bits) as u32,
                columns,
                hashes: FilterShape::hashes_for(bits, count.into()),
            };
            let filters = Filters::new(shape);
            // Each column is used twice, as when incarnations are discarded.
            for filter in 0..2 * u64::from(count) {
                let mut column = Column::new(shape);
                (0..entries).for_each(|n| column.add(hash(filter, n.into())));
                filters.set((filter % u64::from(count)) as u32, &column);
            }
            let mut wrong = 0;
            for filter in u64::from(count)..2 * u64::from(count) {
                for n in 0..u64::from(entries) {
                    let found = filters.probe(hash(filter, n));
                    let own = (filter % u64::from(count)) as u32;
                    assert!(found.iter().any(|column| column == own));
                    wrong += found.iter().filter(|column| *column != own).count();
                }
            }
            let asked = f64::from(count) * f64::from(entries) * f64::from(count - 1);
            let (rate, formula) = (wrong as f64 / asked.max(1.0), shape.false_positives(entries.into()));
            assert!(rate < formula * 1.25 + 20.0 / asked.max(20.0), "{count} filters: {rate} where {formula} is due");
            assert!(count < 16 || rate > formula * 0.75, "{count} filters: {rate} where {formula} is due");
        }
    }
}
