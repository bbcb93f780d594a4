//! The manifest: the list of all stores and their locations. Two copies follow the superblocks and are written
//! alternately; of the valid copies, the one with the higher generation counts. Nothing that it names is overwritten
//! before the next one is durable.
//!
//! Each page of a copy:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | checksum, see the crate's `hash`: bound to the page's place and to the index |
//! | 8 | 8 | generation: one more each time |
//! | 16 | 4072 | content, continued from page to page |
//! | 4088 | 8 | reserved, zero |
//!
//! The content:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | bytes of the content |
//! | 8 | 8 | checksum of what follows: XXH3, seeded with the generation; pages of two attempts do not pass for one copy |
//! | 16 | 8 | the number of the next store |
//! | 24 | | the partitions, in order |
//!
//! A partition:
//!
//! | bytes | field |
//! |---|---|
//! | 8, 4 | number and segment of the older log |
//! | 8, 4 | number and segment of the newer log |
//! | 4 | hash stores, newest first, each: |
//! | 8, 4, 4 | number, segment, entries |
//! | 8 | number of the sorted store; 0 if there is none, and then nothing follows |
//! | 8, 4 | its entries and segments, the latter each: |
//! | 4 | segment |

use super::plan::Plan;
use crate::PAGE_BYTES;
use crate::hash::is_sealed;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const GENERATION_AT: usize = 8;
const CONTENT_AT: usize = 16;
const CONTENT_BYTES: usize = 4072;
const HEADER_BYTES: usize = 24;

/// A log's number and segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogAt {
    /// The number of the log.
    pub id: u64,
    /// The segment of the log.
    pub segment: u32,
}

/// The location of a hash store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashAt {
    /// The number of the store.
    pub id: u64,
    /// The segment of the store.
    pub segment: u32,
    /// The number of entries.
    pub entries: u32,
}

/// The location of a sorted store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedAt {
    /// The number of the store.
    pub id: u64,
    /// The number of entries.
    pub entries: u64,
    /// The segments of the store.
    pub segments: Vec<u32>,
}

/// The stores of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionAt {
    /// The older and the newer log.
    pub logs: [LogAt; 2],
    /// The hash stores, newest first.
    pub hashes: Vec<HashAt>,
    /// `None` if the sorted store has no entries, as before the first merge.
    pub sorted: Option<SortedAt>,
}

/// The content of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Increased by one at each write.
    pub generation: u64,
    /// The number of the next store.
    pub next_id: u64,
    /// The partitions, in order.
    pub partitions: Vec<PartitionAt>,
}

/// The maximum number of pages of a copy.
pub(super) fn pages_for(plan: &Plan) -> u32 {
    let partitions = plan.partitions as usize * (2 * 12 + 4 + 8 + 12);
    let stores = plan.hash_stores_max() * 16 + plan.segments as usize * 4;
    (HEADER_BYTES + partitions + stores).div_ceil(CONTENT_BYTES) as u32
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number of items of `bytes` each, if at least as many bytes follow.
    fn count(&mut self, bytes: usize) -> Option<u32> {
        self.u32().filter(|count| *count as usize <= self.0.len() / bytes)
    }

    fn log(&mut self) -> Option<LogAt> {
        Some(LogAt { id: self.u64()?, segment: self.u32()? })
    }

    fn hash(&mut self) -> Option<HashAt> {
        Some(HashAt { id: self.u64()?, segment: self.u32()?, entries: self.u32()? })
    }

    fn partition(&mut self) -> Option<PartitionAt> {
        let logs = [self.log()?, self.log()?];
        let hashes = (0..self.count(16)?).map(|_| self.hash()).collect::<Option<_>>()?;
        let sorted = match self.u64()? {
            0 => None,
            id => {
                let entries = self.u64()?;
                let segments = (0..self.count(4)?).map(|_| self.u32()).collect::<Option<_>>()?;
                Some(SortedAt { id, entries, segments })
            }
        };
        Some(PartitionAt { logs, hashes, sorted })
    }
}

impl Manifest {
    fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes.extend(self.next_id.to_le_bytes());
        for partition in &self.partitions {
            for log in partition.logs {
                bytes.extend(log.id.to_le_bytes());
                bytes.extend(log.segment.to_le_bytes());
            }
            bytes.extend((partition.hashes.len() as u32).to_le_bytes());
            for hash in &partition.hashes {
                bytes.extend(hash.id.to_le_bytes());
                bytes.extend(hash.segment.to_le_bytes());
                bytes.extend(hash.entries.to_le_bytes());
            }
            let Some(sorted) = &partition.sorted else {
                bytes.extend(0u64.to_le_bytes());
                continue;
            };
            bytes.extend(sorted.id.to_le_bytes());
            bytes.extend(sorted.entries.to_le_bytes());
            bytes.extend((sorted.segments.len() as u32).to_le_bytes());
            sorted.segments.iter().for_each(|s| bytes.extend(s.to_le_bytes()));
        }
        let len = bytes.len() as u64;
        bytes[..8].copy_from_slice(&len.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[16..], self.generation);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The pages of a copy, without checksums; only as many as are needed.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let content = self.content();
        let mut pages = vec![0; content.len().div_ceil(CONTENT_BYTES) * PAGE_BYTES];
        for (page, part) in pages.chunks_exact_mut(PAGE_BYTES).zip(content.chunks(CONTENT_BYTES)) {
            page[GENERATION_AT..CONTENT_AT].copy_from_slice(&self.generation.to_le_bytes());
            page[CONTENT_AT..CONTENT_AT + part.len()].copy_from_slice(part);
        }
        pages
    }

    /// Decodes a copy that was read at `offset`; `None` if it is not valid.
    #[must_use]
    pub fn decode(pages: &[u8], offset: u64, seed: u64, partitions: u32) -> Option<Self> {
        let mut generation = None;
        let mut content = Vec::new();
        let mut len = CONTENT_BYTES as u64;
        for (page, at) in pages.chunks_exact(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            // 1. Each page was written at its offset, with the same generation as the first.
            if !is_sealed(page, at, seed) {
                return None;
            }
            let of_page = Reader(&page[GENERATION_AT..]).u64()?;
            if *generation.get_or_insert(of_page) != of_page {
                return None;
            }
            content.extend_from_slice(&page[CONTENT_AT..CONTENT_AT + CONTENT_BYTES]);
            // 2. There are as many pages as the length in the first page says.
            len = Reader(&content).u64()?;
            if content.len() as u64 >= len {
                break;
            }
        }
        // 3. The pages were written together.
        let generation = generation?;
        let mut reader = Reader(content.get(8..usize::try_from(len).ok()?)?);
        if reader.u64()? != xxh3_64_with_seed(reader.0, generation) {
            return None;
        }
        // 4. The content has the stated number of partitions, and nothing else.
        let next_id = reader.u64()?;
        let partitions = (0..partitions).map(|_| reader.partition()).collect::<Option<_>>()?;
        reader.0.is_empty().then_some(Self { generation, next_id, partitions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::seal;

    fn sealed(manifest: &Manifest, offset: u64, seed: u64) -> Vec<u8> {
        let mut pages = manifest.encode();
        for (page, at) in pages.chunks_exact_mut(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            seal(page, at, seed);
        }
        pages
    }

    fn example(partitions: u64) -> Manifest {
        let partition = |n: u64| PartitionAt {
            logs: [LogAt { id: 10 * n, segment: n as u32 }, LogAt { id: 10 * n + 1, segment: 77 }],
            hashes: (0..n % 20).map(|h| HashAt { id: 100 + h, segment: 9, entries: 5 }).collect(),
            sorted: (!n.is_multiple_of(3)).then(|| SortedAt {
                id: n,
                entries: 99,
                segments: (0..n as u32 * 3).collect(),
            }),
        };
        Manifest { generation: 6, next_id: 1000, partitions: (0..partitions).map(partition).collect() }
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_a_flipped_byte_voids_it() {
        for partitions in [1, 8, 100] {
            let manifest = example(partitions);
            let mut pages = sealed(&manifest, 8192, 3);
            let padded = [&pages[..], &[0; PAGE_BYTES]].concat();
            let count = partitions as u32;
            assert_eq!(Manifest::decode(&padded, 8192, 3, count).as_ref(), Some(&manifest));
            assert_eq!(Manifest::decode(&pages, 8192, 3, count + 1), None);
            assert_eq!(Manifest::decode(&pages, 8192, 4, count), None);
            assert_eq!(Manifest::decode(&pages[..pages.len() - PAGE_BYTES], 8192, 3, count), None);
            for at in (0..pages.len()).step_by(97) {
                pages[at] ^= 0x10;
                assert_eq!(Manifest::decode(&pages, 8192, 3, count), None, "byte {at}");
                pages[at] ^= 0x10;
            }
        }
    }

    #[test]
    fn pages_of_two_generations_are_no_manifest() {
        let old = example(100);
        let mut again = old.clone();
        again.partitions[99].logs[0].segment += 1;
        for new in [Manifest { generation: 8, ..old.clone() }, again] {
            let mixed = [&sealed(&new, 0, 1)[..PAGE_BYTES], &sealed(&old, 0, 1)[PAGE_BYTES..]].concat();
            assert!(Manifest::decode(&mixed, 0, 1, 100).is_none());
        }
    }

    #[test]
    fn arbitrary_content_under_a_right_checksum_is_read_or_refused() {
        let mut word = 5u64;
        for round in 0..3000 {
            let mut pages = example(12).encode();
            for _ in 0..round % 7 {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = CONTENT_AT + 16 + (word >> 33) as usize % 600;
                pages[at] = (word >> 20) as u8;
            }
            let len = u64::from_le_bytes(*pages[CONTENT_AT..].first_chunk().unwrap()) as usize;
            let sum = xxh3_64_with_seed(&pages[CONTENT_AT + 16..CONTENT_AT + len], 6);
            pages[CONTENT_AT + 8..CONTENT_AT + 16].copy_from_slice(&sum.to_le_bytes());
            for (page, at) in pages.chunks_exact_mut(PAGE_BYTES).zip((0..).step_by(PAGE_BYTES)) {
                seal(page, at, 1);
            }
            let decoded = Manifest::decode(&pages, 0, 1, 12);
            assert!(decoded.is_none_or(|m| m.partitions.len() == 12));
        }
    }
}
