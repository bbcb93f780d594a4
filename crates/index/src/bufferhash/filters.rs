//! The Bloom filters of a super table's incarnations, bit-sliced: bit *i* of all filters stands in one row, so that one look
//! at a row asks all of them.
//!
//! A row has one column for each incarnation that can be alive. Columns are used in turn: the oldest incarnation's becomes the
//! newest's (the paper's sliding window), in one pass over the rows that clears and sets it at once.

const WORD_BITS: u32 = u64::BITS;

/// Sizes of the filters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FilterShape {
    /// Bits of a filter: rows.
    pub(super) rows: u32,
    /// Filters; a multiple of eight.
    pub(super) columns: u32,
    /// Bits that an entry sets.
    pub(super) hashes: u32,
}

impl FilterShape {
    /// The columns that `count` filters take.
    pub(super) const fn columns_for(count: u32) -> u32 {
        count.next_multiple_of(8)
    }

    fn row_bytes(&self) -> usize {
        self.columns as usize / 8
    }

    /// Words that a look at a row takes.
    pub(super) fn row_words(&self) -> usize {
        self.row_bytes().div_ceil(8)
    }

    /// The number of bits to set for so many bits an entry that is best: ln 2 of them.
    pub(super) fn hashes_for(bits_per_entry: f64) -> u32 {
        ((bits_per_entry * std::f64::consts::LN_2).round() as u32).clamp(1, 24)
    }

    /// The share of absent keys that one full filter takes for present.
    pub(super) fn false_positives(&self, entries: u64) -> f64 {
        let set = 1.0 - (-f64::from(self.hashes) * entries as f64 / f64::from(self.rows)).exp();
        set.powi(self.hashes as i32)
    }

    fn bytes(&self) -> usize {
        // A row is read in whole words.
        self.rows as usize * self.row_bytes() + 8
    }

    pub(super) fn ram_bytes(&self) -> u64 {
        self.bytes() as u64
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

/// One filter while it is made.
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

/// Which columns may hold a key.
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

/// All filters of a super table.
pub(super) struct Filters {
    shape: FilterShape,
    /// Row by row, with eight bytes behind the last one.
    bytes: Box<[u8]>,
}

/// Rows that are looked at before it is asked whether any column is left: their places in memory are read at once.
const ROWS_AT_ONCE: u32 = 4;

impl Filters {
    pub(super) fn new(shape: FilterShape) -> Self {
        Self { bytes: vec![0; shape.bytes()].into(), shape }
    }

    pub(super) fn shape(&self) -> FilterShape {
        self.shape
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
    }

    /// The columns whose filters may hold the key.
    #[inline]
    pub(super) fn probe(&self, hash: u64) -> Columns {
        let (row_bytes, width) = (self.shape.row_bytes(), self.shape.row_words());
        let mut words: smallvec::SmallVec<[u64; 2]> = smallvec::smallvec![u64::MAX; width];
        // Behind the last column another row begins.
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

    /// Puts a filter in place of a column's.
    pub(super) fn set(&mut self, column: u32, filter: &Column) {
        let (at, mask) = ((column / 8) as usize, 1 << (column % 8));
        let rows = self.bytes[at..].iter_mut().step_by(self.shape.row_bytes()).take(self.shape.rows as usize);
        for (row, byte) in rows.enumerate() {
            let bit = (filter.bits[row / WORD_BITS as usize] >> (row % WORD_BITS as usize) & 1) as u8;
            *byte = *byte & !mask | bit << (column % 8);
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
                hashes: FilterShape::hashes_for(bits),
            };
            let mut filters = Filters::new(shape);
            // Each column is used twice, as when incarnations retire.
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
