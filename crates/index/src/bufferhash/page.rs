//! Pages with entries: those of incarnations and those of the journal.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | checksum of the rest: CRC-64/NVME, mixed with the page's offset and the index's seed |
//! | 8 | 8 | incarnation: its sequence number; journal: its generation, with bit 63 set |
//! | 16 | 8 | every sequence number below this was durable when the page was written |
//! | 24 | 8 | incarnation: sequence number of the previous incarnation of its super table, 2⁶⁴−1 if there is none; journal: the sequence number that was next when the entries were gathered |
//! | 32 | 4 | incarnation: its super table; journal: number of pages before this one in its generation |
//! | 36 | 4 | incarnation: number of pages before this one; journal: pages of its generation that were durable when it was written |
//! | 40 | 2 | number of entries |
//! | 42 | 2 | 1: of the journal, if a batch ends with this page; of an incarnation, if it was made while the journal was replayed |
//! | 44 | 4 | epoch: number of the opening that wrote the page |
//! | 48 | *n*/8, rounded up | one bit for each of the *n* entries that fit: set if the key was removed |
//! | behind | *n* × entry | entries: key, then value; in an incarnation ordered by the key's hash, over all its pages |

use super::buffer::Entry;
use crate::hash::{is_sealed, seal};
use crate::{PAGE_BYTES, Shape};

const HEADER_BYTES: usize = 48;
/// Marks pages of the journal.
const JOURNAL: u64 = 1 << 63;

/// The header of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The sequence number of the incarnation, or the generation of the journal.
    pub(super) number: u64,
    /// Whether the page belongs to the journal.
    pub(super) in_journal: bool,
    /// The sequence number below which every incarnation was durable.
    pub(super) durable: u64,
    /// The sequence number of the previous incarnation, or, in the journal, the next one.
    pub(super) neighbour: u64,
    /// The super table, or, in the journal, the number of the page.
    pub(super) place: u32,
    /// The number of the page, or, in the journal, the durable pages of the generation.
    pub(super) pages: u32,
    /// Journal: a batch ends with this page. Incarnation: it was made while the journal was replayed.
    pub(super) flag: bool,
    /// The number of the opening that wrote the page.
    pub(super) epoch: u32,
}

/// The number of entries that fit into a page.
pub(super) const fn entries_per_page(shape: Shape) -> usize {
    let entry = shape.key_bytes as usize + shape.value_bytes as usize;
    let mut count = (PAGE_BYTES - HEADER_BYTES) * 8 / (8 * entry + 1);
    while HEADER_BYTES + count.div_ceil(8) + count * entry > PAGE_BYTES {
        count -= 1;
    }
    count
}

/// A page that is being filled.
pub(super) struct Writer<'a> {
    page: &'a mut [u8],
    shape: Shape,
    count: usize,
}

impl<'a> Writer<'a> {
    /// `page` must be all zeroes.
    pub(super) fn new(page: &'a mut [u8], shape: Shape) -> Self {
        debug_assert_eq!(page.len(), PAGE_BYTES);
        Self { page, shape, count: 0 }
    }

    pub(super) fn push(&mut self, entry: Entry<'_>) {
        let bits = entries_per_page(self.shape).div_ceil(8);
        let at = HEADER_BYTES + bits + self.count * self.shape.entry_bytes();
        self.page[at..at + entry.bytes.len()].copy_from_slice(entry.bytes);
        self.page[HEADER_BYTES + self.count / 8] |= u8::from(entry.removed) << (self.count % 8);
        self.count += 1;
    }

    pub(super) fn finish(self, header: &Header, offset: u64, seed: u64) {
        let number = header.number | if header.in_journal { JOURNAL } else { 0 };
        self.page[8..16].copy_from_slice(&number.to_le_bytes());
        self.page[16..24].copy_from_slice(&header.durable.to_le_bytes());
        self.page[24..32].copy_from_slice(&header.neighbour.to_le_bytes());
        self.page[32..36].copy_from_slice(&header.place.to_le_bytes());
        self.page[36..40].copy_from_slice(&header.pages.to_le_bytes());
        self.page[40..42].copy_from_slice(&(self.count as u16).to_le_bytes());
        self.page[42..44].copy_from_slice(&u16::from(header.flag).to_le_bytes());
        self.page[44..48].copy_from_slice(&header.epoch.to_le_bytes());
        seal(self.page, offset, seed);
    }
}

/// A page whose checksum is valid.
#[derive(Clone, Copy)]
pub(super) struct Page<'a> {
    page: &'a [u8],
    shape: Shape,
    count: usize,
}

fn number<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}

impl<'a> Page<'a> {
    /// `None` if the page was not written at `offset` by the index with this seed.
    pub(super) fn open(page: &'a [u8], shape: Shape, offset: u64, seed: u64) -> Option<Self> {
        if !is_sealed(page, offset, seed) {
            return None;
        }
        let count = usize::from(u16::from_le_bytes(number(page, 40)));
        (count <= entries_per_page(shape)).then_some(Self { page, shape, count })
    }

    /// The header.
    pub(super) fn header(&self) -> Header {
        let first = u64::from_le_bytes(number(self.page, 8));
        Header {
            number: first & !JOURNAL,
            in_journal: first & JOURNAL != 0,
            durable: u64::from_le_bytes(number(self.page, 16)),
            neighbour: u64::from_le_bytes(number(self.page, 24)),
            place: u32::from_le_bytes(number(self.page, 32)),
            pages: u32::from_le_bytes(number(self.page, 36)),
            flag: self.page[42] & 1 != 0,
            epoch: u32::from_le_bytes(number(self.page, 44)),
        }
    }

    fn entry(&self, i: usize) -> Entry<'a> {
        let bits = entries_per_page(self.shape).div_ceil(8);
        let at = HEADER_BYTES + bits + i * self.shape.entry_bytes();
        Entry {
            bytes: &self.page[at..at + self.shape.entry_bytes()],
            removed: self.page[HEADER_BYTES + i / 8] >> (i % 8) & 1 != 0,
        }
    }

    pub(super) fn entries(self) -> impl Iterator<Item = Entry<'a>> {
        (0..self.count).map(move |i| self.entry(i))
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Entry<'a>> {
        // Most keys differ in their first eight bytes, which are compared as one.
        let (first, size) = (number::<8>(key, 0), self.shape.entry_bytes());
        let entries = &self.page[HEADER_BYTES + entries_per_page(self.shape).div_ceil(8)..][..self.count * size];
        let mut at = entries.chunks_exact(size).enumerate().filter(|(_, entry)| entry[..8] == first);
        at.find(|(_, entry)| entry[..key.len()] == *key).map(|(i, _)| self.entry(i))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_as_they_were() {
        for (key_bytes, value_bytes) in [(8, 0), (20, 12), (64, 1024), (20, 1000), (9, 3)] {
            let shape = Shape { key_bytes, value_bytes };
            let count = entries_per_page(shape);
            let entries: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; shape.entry_bytes()]).collect();
            let mut page = vec![0; PAGE_BYTES];
            let mut writer = Writer::new(&mut page, shape);
            for (i, bytes) in entries.iter().enumerate() {
                writer.push(Entry { bytes, removed: i % 3 == 1 });
            }
            let header = Header {
                number: 7,
                in_journal: true,
                durable: 5,
                neighbour: u64::MAX,
                place: 9,
                pages: 31,
                flag: true,
                epoch: 12,
            };
            writer.finish(&header, 8192, 3);
            let read = Page::open(&page, shape, 8192, 3).unwrap();
            assert_eq!(read.header(), header);
            let back: Vec<_> = read.entries().collect();
            assert_eq!(back.len(), count);
            for (i, entry) in back.iter().enumerate() {
                assert_eq!((entry.bytes, entry.removed), (&entries[i][..], i % 3 == 1));
            }
            assert!(Page::open(&page, shape, 4096, 3).is_none(), "written elsewhere");
            assert!(Page::open(&page, shape, 8192, 4).is_none(), "of another index");
            for at in (0..PAGE_BYTES).step_by(97) {
                page[at] ^= 1;
                assert!(Page::open(&page, shape, 8192, 3).is_none(), "byte {at} changed");
                page[at] ^= 1;
            }
        }
    }
}
