//! Storage as a sparse file has it.

/// Storage is assigned in blocks of this size.
const BLOCK_BYTES: u64 = 4096;

/// Which blocks have storage: they get some when they are written to, or reserved, as long as there is any.
pub(super) struct Room {
    left: u64,
    backed: Vec<bool>,
}

impl Room {
    /// Room for a device of that size, none of which has storage.
    pub(super) fn new(size_bytes: u64) -> Self {
        Self { left: 0, backed: vec![false; size_bytes.div_ceil(BLOCK_BYTES) as usize] }
    }

    /// From now on so many bytes are left.
    pub(super) fn set_left(&mut self, bytes: u64) {
        self.left = bytes / BLOCK_BYTES;
    }

    /// Bytes that have storage.
    pub(super) fn backed_bytes(&self) -> u64 {
        self.backed.iter().filter(|backed| **backed).count() as u64 * BLOCK_BYTES
    }

    /// Gives storage to the blocks of a range, first to last. Returns how many bytes from the start have it.
    pub(super) fn back(&mut self, offset: u64, len: u64) -> u64 {
        for number in offset / BLOCK_BYTES..(offset + len).div_ceil(BLOCK_BYTES) {
            let backed = &mut self.backed[number as usize];
            if !*backed && self.left == 0 {
                return (number * BLOCK_BYTES).saturating_sub(offset);
            }
            self.left -= u64::from(!*backed);
            *backed = true;
        }
        len
    }

    /// Takes storage away from the blocks that lie whole within a range.
    pub(super) fn release(&mut self, offset: u64, len: u64) {
        for number in offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES {
            self.left += u64::from(std::mem::take(&mut self.backed[number as usize]));
        }
    }
}
