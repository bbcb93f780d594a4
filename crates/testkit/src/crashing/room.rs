//! The storage of a sparse file.

/// Size of a block, the unit of storage.
const BLOCK_BYTES: u64 = 4096;

/// Which blocks have storage. A block gets storage when it is written or reserved, as long as some is left.
pub(super) struct Room {
    left: u64,
    backed: Vec<bool>,
}

impl Room {
    /// The storage of a device of `size_bytes`, none of whose blocks has storage.
    pub(super) fn new(size_bytes: u64) -> Self {
        Self { left: 0, backed: vec![false; size_bytes.div_ceil(BLOCK_BYTES) as usize] }
    }

    /// Sets the bytes of storage that are left.
    pub(super) fn set_left(&mut self, bytes: u64) {
        self.left = bytes / BLOCK_BYTES;
    }

    /// Bytes that have storage.
    pub(super) fn backed_bytes(&self) -> u64 {
        self.backed.iter().filter(|backed| **backed).count() as u64 * BLOCK_BYTES
    }

    /// Assigns storage to the blocks of a range, in ascending order. Returns how many bytes from its start have
    /// storage.
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

    /// Releases the storage of the blocks that lie completely within a range.
    pub(super) fn release(&mut self, offset: u64, len: u64) {
        for number in offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES {
            self.left += u64::from(std::mem::take(&mut self.backed[number as usize]));
        }
    }
}
