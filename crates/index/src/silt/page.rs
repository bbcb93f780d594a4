//! Pages of entries.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | checksum, see the crate's `hash`: bound to the page's place and to the index |
//! | 8 | 8 | number of the store that it belongs to; no two stores of an index ever have the same |
//! | 16 | 2 | entries |
//! | 18 | 2 | kind: 1 log, 2 hash store, 3 sorted store |
//! | 20 | 4 | reserved, zero |
//! | 24 | 8 r | log and hash store: one bit for each entry, set if it says that its key was removed; r = ⌈c / 64⌉ |
//! | 24 + 8 r | | the entries, each a key and its value; c fit into a page; zeroes behind them |
//!
//! In a sorted store, where nothing is removed, r is 0.

use crate::hash::{is_sealed, seal};
use crate::{PAGE_BYTES, Shape};
use std::ops::Range;

const ID_AT: usize = 8;
const COUNT_AT: usize = 16;
const KIND_AT: usize = 18;
const HEADER_BYTES: usize = 24;

/// The kind of store that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Entries in the order of arrival.
    Log = 1,
    /// Entries in order of hash, including removals.
    Hash = 2,
    /// Entries in order of hash.
    Sorted = 3,
}

/// The layout of the pages of a kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    kind: PageKind,
    shape: Shape,
    /// The offset of the first entry.
    start: usize,
    capacity: usize,
}

impl Layout {
    /// The layout of pages of `kind`.
    #[must_use]
    pub fn new(kind: PageKind, shape: Shape) -> Self {
        let entry = shape.entry_bytes();
        let removals = |capacity: usize| match kind {
            PageKind::Sorted => 0,
            PageKind::Log | PageKind::Hash => capacity.div_ceil(64) * 8,
        };
        let mut capacity = (PAGE_BYTES - HEADER_BYTES) / entry;
        while HEADER_BYTES + removals(capacity) + capacity * entry > PAGE_BYTES {
            capacity -= 1;
        }
        Self { kind, shape, start: HEADER_BYTES + removals(capacity), capacity }
    }

    /// The number of entries that fit into a page.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn place(&self, index: usize) -> Range<usize> {
        let at = self.start + index * self.shape.entry_bytes();
        at..at + self.shape.entry_bytes()
    }

    /// Key and value of an entry; `index` must be below the capacity.
    #[must_use]
    pub fn entry<'a>(&self, page: &'a [u8], index: usize) -> (&'a [u8], &'a [u8]) {
        self.shape.split(&page[self.place(index)])
    }

    /// The index of `key`'s entry among a range of entries, which must be below the capacity.
    pub(super) fn position(&self, page: &[u8], among: Range<usize>, key: &[u8]) -> Option<usize> {
        let size = self.shape.entry_bytes();
        let entries = &page[self.start + among.start * size..self.start + among.end * size];
        // Most keys differ in their first eight bytes, which are compared as one.
        let first: [u8; 8] = *key.first_chunk()?;
        let mut entries = entries.chunks_exact(size).zip(among);
        entries.find(|(entry, _)| entry[..8] == first && entry[..key.len()] == *key).map(|(_, at)| at)
    }

    /// Whether an entry is a removal.
    #[must_use]
    pub fn is_removal(&self, page: &[u8], index: usize) -> bool {
        self.kind != PageKind::Sorted && page[HEADER_BYTES + index / 8] >> (index % 8) & 1 == 1
    }

    /// Writes an entry. The page must be zeroed before the first one.
    pub(super) fn put(&self, page: &mut [u8], index: usize, key: &[u8], value: Option<&[u8]>) {
        let place = self.place(index);
        page[place.start..place.start + key.len()].copy_from_slice(key);
        match value {
            Some(value) => page[place.end - value.len()..place.end].copy_from_slice(value),
            None => page[HEADER_BYTES + index / 8] |= 1 << (index % 8),
        }
    }

    /// Completes a page of `count` entries for `offset`.
    pub(super) fn finish(&self, page: &mut [u8], count: usize, id: u64, offset: u64, seed: u64) {
        page[ID_AT..COUNT_AT].copy_from_slice(&id.to_le_bytes());
        page[COUNT_AT..KIND_AT].copy_from_slice(&(count as u16).to_le_bytes());
        page[KIND_AT..HEADER_BYTES - 4].copy_from_slice(&(self.kind as u16).to_le_bytes());
        seal(page, offset, seed);
    }

    /// Whether the header has the number of store `id`; the page may be torn.
    pub(super) fn is_of(page: &[u8], id: u64) -> bool {
        page[ID_AT..COUNT_AT] == id.to_le_bytes()
    }

    /// The number of entries of a page that was read at `offset`; `None` if it is not a valid page of store `id`.
    #[must_use]
    pub fn check(&self, page: &[u8], id: u64, offset: u64, seed: u64) -> Option<usize> {
        if !is_sealed(page, offset, seed) || page[ID_AT..COUNT_AT] != id.to_le_bytes() {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([page[COUNT_AT], page[COUNT_AT + 1]]));
        let kind = page[KIND_AT..KIND_AT + 2] == (self.kind as u16).to_le_bytes();
        (kind && count <= self.capacity).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_put_and_a_flipped_byte_is_noticed() {
        for (key_bytes, value_bytes) in [(8, 0), (20, 12), (64, 1024), (9, 3)] {
            let shape = Shape::new(key_bytes, value_bytes).unwrap();
            for kind in [PageKind::Log, PageKind::Hash, PageKind::Sorted] {
                let layout = Layout::new(kind, shape);
                let mut page = vec![0; PAGE_BYTES];
                let key = |i: usize| vec![i as u8 ^ 0x55; key_bytes.into()];
                let value = |i: usize| vec![i as u8 ^ 0xAA; value_bytes.into()];
                let removed = |i: usize| kind != PageKind::Sorted && i % 3 == 1;
                for i in 0..layout.capacity() {
                    layout.put(&mut page, i, &key(i), (!removed(i)).then(|| value(i)).as_deref());
                }
                layout.finish(&mut page, layout.capacity(), 77, 8192, 5);
                assert_eq!(layout.check(&page, 77, 8192, 5), Some(layout.capacity()));
                for i in 0..layout.capacity() {
                    assert_eq!(layout.is_removal(&page, i), removed(i));
                    assert_eq!(layout.entry(&page, i).0, key(i));
                    assert!(removed(i) || layout.entry(&page, i).1 == value(i));
                    assert_eq!(layout.position(&page, i.saturating_sub(100)..layout.capacity(), &key(i)), Some(i));
                    assert_eq!(layout.position(&page, i.saturating_sub(100)..i, &key(i)), None);
                }
                assert_eq!(layout.check(&page, 78, 8192, 5), None, "another store's");
                assert_eq!(layout.check(&page, 77, 4096, 5), None, "another place's");
                assert_eq!(layout.check(&page, 77, 8192, 6), None, "another index's");
                for at in (0..PAGE_BYTES).step_by(13).chain([0, 8, 16, 18, PAGE_BYTES - 1]) {
                    page[at] ^= 1;
                    assert_eq!(layout.check(&page, 77, 8192, 5), None, "byte {at}");
                    page[at] ^= 1;
                }
            }
        }
    }

    #[test]
    fn twenty_byte_keys_and_twelve_byte_values_fill_pages() {
        let shape = Shape::new(20, 12).unwrap();
        assert_eq!(Layout::new(PageKind::Log, shape).capacity(), 126);
        assert_eq!(Layout::new(PageKind::Sorted, shape).capacity(), 127);
    }
}
