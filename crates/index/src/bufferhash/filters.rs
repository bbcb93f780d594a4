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
    /// Filters: a power of two up to 64, or a multiple of 64.
    pub(super) columns: u32,
    /// Bits that an entry sets.
    pub(super) hashes: u32,
}

impl FilterShape {
    /// The columns that `count` filters take.
    pub(super) const fn columns_for(count: u32) -> u32 {
        if count <= WORD_BITS { count.next_power_of_two() } else { count.next_multiple_of(WORD_BITS) }
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

    fn words(&self) -> usize {
        (u64::from(self.rows) * u64::from(self.columns)).div_ceil(WORD_BITS.into()) as usize
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
    words: smallvec::SmallVec<[u64; 1]>,
}

impl Columns {
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    pub(super) fn has(&self, column: u32) -> bool {
        self.words[(column / WORD_BITS) as usize] >> (column % WORD_BITS) & 1 != 0
    }
}

/// All filters of a super table.
pub(super) struct Filters {
    shape: FilterShape,
    words: Box<[u64]>,
}

impl Filters {
    pub(super) fn new(shape: FilterShape) -> Self {
        Self { words: vec![0; shape.words()].into(), shape }
    }

    pub(super) fn shape(&self) -> FilterShape {
        self.shape
    }

    /// The columns whose filters may hold the key.
    #[inline]
    pub(super) fn probe(&self, hash: u64) -> Columns {
        let columns = self.shape.columns;
        if columns <= WORD_BITS {
            let per_word = WORD_BITS / columns;
            let mut found = u64::MAX >> (WORD_BITS - columns);
            for row in self.shape.rows_of(hash) {
                found &= self.words[(row / per_word) as usize] >> (row % per_word * columns);
                if found == 0 {
                    break;
                }
            }
            return Columns { words: smallvec::smallvec![found] };
        }
        let width = (columns / WORD_BITS) as usize;
        let mut words = smallvec::smallvec![u64::MAX; width];
        for row in self.shape.rows_of(hash) {
            let first = row as usize * width;
            for (found, row) in words.iter_mut().zip(&self.words[first..first + width]) {
                *found &= row;
            }
            if words.iter().all(|w| *w == 0) {
                break;
            }
        }
        Columns { words }
    }

    /// Puts a filter in place of a column's.
    pub(super) fn set(&mut self, column: u32, filter: &Column) {
        let columns = self.shape.columns;
        let bit = |row: u32| filter.bits[(row / WORD_BITS) as usize] >> (row % WORD_BITS) & 1;
        if columns <= WORD_BITS {
            let per_word = WORD_BITS / columns;
            // The column's bit of every row in a word.
            let mask = (0..per_word).fold(0, |mask, i| mask | 1 << (i * columns + column));
            for (word, row) in self.words.iter_mut().zip((0..).step_by(per_word as usize)) {
                let rows = per_word.min(self.shape.rows - row);
                let set = (0..rows).fold(0, |set, i| set | bit(row + i) << (i * columns + column));
                *word = *word & !mask | set;
            }
            return;
        }
        let (width, at, shift) = ((columns / WORD_BITS) as usize, (column / WORD_BITS) as usize, column % WORD_BITS);
        for row in 0..self.shape.rows {
            let word = &mut self.words[row as usize * width + at];
            *word = *word & !(1 << shift) | bit(row) << shift;
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
                    assert!(found.has((filter % u64::from(count)) as u32));
                    wrong += (0..count).filter(|c| u64::from(*c) != filter % u64::from(count) && found.has(*c)).count();
                }
            }
            let asked = f64::from(count) * f64::from(entries) * f64::from(count - 1);
            let (rate, formula) = (wrong as f64 / asked.max(1.0), shape.false_positives(entries.into()));
            assert!(rate < formula * 1.25 + 20.0 / asked.max(20.0), "{count} filters: {rate} where {formula} is due");
            assert!(count < 16 || rate > formula * 0.75, "{count} filters: {rate} where {formula} is due");
        }
    }
}
