//! One bit for each entry of a unit; entries beyond the end have none set.

/// The bits, up to the last one that is set.
#[derive(Debug, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn set(&mut self, entry: u16) {
        let (word, bit) = (usize::from(entry / 64), entry % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    pub(super) fn has(&self, entry: u16) -> bool {
        self.0.get(usize::from(entry / 64)).is_some_and(|word| word >> (entry % 64) & 1 == 1)
    }

    /// The number of bits that are set, up to that of an entry.
    pub(super) fn count_upto(&self, entry: u16) -> u32 {
        let (word, bit) = (usize::from(entry / 64), entry % 64);
        let before: u32 = self.0.iter().take(word).map(|word| word.count_ones()).sum();
        before + self.0.get(word).map_or(0, |word| (word << (63 - bit)).count_ones())
    }

    /// Gives back the room for further bits, in a copy, so that no hole is left.
    pub(super) fn shrink_to_fit(&mut self) {
        self.0 = self.0.as_slice().to_vec();
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.0.capacity() * size_of::<u64>()
    }
}
