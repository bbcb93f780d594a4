//! Entry points of the fuzz targets: the parsers, on arbitrary bytes that first get valid magic numbers and checksums.
//! Not a part of the public interface.

use crate::format::batch::{self, BatchHead};
use crate::format::container::{self, ContainerChunk};
use crate::format::increment::{self, IncrementReader};
use crate::format::node::{Entry, Node};
use crate::format::page::{Child, Entries, Head, Page};
use crate::format::record::{Kind, ObjectRecord, Record, Root, SlotRecord, SlotState};
use crate::format::region::{self, ChunkKind, Prepared, RegionChunk, RegionHead};
use crate::format::ssd::{self, SsdSuperblock};
use crate::format::superblock::Superblock;
use crate::format::transfer::{self, FrameReader};
use crate::format::{BLOCK_BYTES, SECTOR_BYTES, u64_at};
use crate::place::{Place, Reference};
use crate::plan::{Layout, Plan, StoreOptions};
use bytes::Bytes;
use nitro_port::codec::{Compression, Compressor};
use nitro_units::Fingerprint;

const SEED: u64 = 7;
const AT: u64 = 4096;

/// Parses bytes as a superblock, a batch of the journal, a region, a container's metadata, a recipe block or a page of
/// the directory, selected by `which`. Returns whether they are valid.
///
/// # Panics
/// If decoded bytes do not survive a round trip.
#[must_use]
pub fn parse(which: u8, bytes: &[u8]) -> bool {
    match which % 6 {
        0 => superblock(bytes),
        1 => journal_batch(bytes),
        2 => one_region(bytes),
        3 => metadata(bytes),
        4 => recipe_block(bytes),
        _ => directory_page(bytes),
    }
}

fn superblock(bytes: &[u8]) -> bool {
    let mut page = vec![0; BLOCK_BYTES];
    let len = bytes.len().min(BLOCK_BYTES);
    page[..len].copy_from_slice(&bytes[..len]);
    Superblock::reseal(&mut page);
    let Ok(superblock) = Superblock::decode(&page) else { return false };
    if let Some(layout) = Layout::of(&superblock) {
        assert!(layout.journals_at <= layout.summary_at && layout.summary_at <= layout.index_at, "{layout:?}");
        assert!(layout.index_at <= layout.metadata_end && layout.metadata_end <= layout.end, "{layout:?}");
        assert!(layout.containers_at <= layout.end, "{layout:?}");
    }
    true
}

fn journal_batch(bytes: &[u8]) -> bool {
    let batch = batch::encode(bytes, (3, 4), SEED);
    let head = BatchHead::decode(&batch, SEED).filter(|head| (head.epoch, head.number) == (3, 4));
    let Some(Ok(records)) = head.and_then(|head| head.records(&batch, SEED)) else { return false };
    let mut again = Vec::new();
    records.iter().for_each(|record| record.encode(&mut again));
    let mut rest = &again[..];
    let decoded = records.iter().all(|record| Record::decode(&mut rest).is_ok_and(|r| r == *record));
    assert!(decoded && rest.is_empty(), "{records:?}");
    true
}

fn one_region(bytes: &[u8]) -> bool {
    let mut bytes = bytes.to_vec();
    region::reseal(&mut bytes, SEED, AT);
    let Some(head) = RegionHead::decode(&bytes, SEED, AT) else { return false };
    let payload = head.payload(&bytes.into(), SEED, AT);
    payload.is_some_and(|payload: Bytes| {
        assert_eq!(payload.len(), head.raw_bytes as usize);
        true
    })
}

fn metadata(bytes: &[u8]) -> bool {
    let mut section = bytes.to_vec();
    container::reseal(&mut section, SEED, AT);
    let sequence = u64_at(&section, 8);
    let Some(chunks) = container::decode(&section, sequence, SEED, AT) else { return false };
    let mut again = vec![0; container::section_bytes(chunks.len())];
    container::encode(&mut again, &chunks, sequence, SEED, AT);
    assert_eq!(container::decode(&again, sequence, SEED, AT), Some(chunks));
    true
}

fn recipe_block(bytes: &[u8]) -> bool {
    let Ok(node) = Node::decode(bytes) else { return false };
    let mut again = Vec::new();
    node.encode(&mut again);
    let back = Node::decode(&again);
    assert_eq!(back.as_ref().map(Node::fingerprint), Ok(node.fingerprint()));
    assert_eq!(back, Ok(node));
    true
}

fn directory_page(bytes: &[u8]) -> bool {
    let Ok(page) = Page::decode(bytes) else { return false };
    let mut again = Vec::new();
    page.encode(&mut again);
    assert_eq!(again.len(), page.encoded_bytes());
    assert_eq!(Page::decode(&again), Ok(page));
    true
}

/// Parses bytes as a superblock of an SSD, as a unit, both with valid magic and checksums, or as a page of short
/// fingerprints, selected by `which`. The entries of a unit's table are restored into a cache manager, looked up,
/// checked and evicted. Returns whether the bytes are valid.
///
/// # Panics
/// If decoded bytes do not survive a round trip.
#[must_use]
pub fn parse_ssd(which: u8, bytes: &[u8]) -> bool {
    match which % 3 {
        0 => ssd_superblock(bytes),
        1 => crate::ssd::take_unit(bytes, SEED),
        _ => crate::ssd::take_short_page(bytes),
    }
}

fn ssd_superblock(bytes: &[u8]) -> bool {
    let mut page = vec![0; BLOCK_BYTES];
    let len = bytes.len().min(BLOCK_BYTES);
    page[..len].copy_from_slice(&bytes[..len]);
    ssd::reseal_superblock(&mut page);
    let Ok(superblock) = SsdSuperblock::decode(&page) else { return false };
    let again = superblock.encode();
    assert!(SsdSuperblock::decode(&again).is_ok_and(|back| back == superblock));
    true
}

/// As [`samples`], for an SSD.
#[must_use]
pub fn ssd_samples() -> Vec<(u8, Vec<u8>)> {
    let superblock = SsdSuperblock {
        unit_bytes: 1 << 20,
        identity: 2,
        session: 3,
        filling: 4,
        units: 5,
        extent_bytes: 8192,
        lz4: true,
        short_pages: 7,
    };
    let page = crate::ssd::sample_short_page();
    vec![(0, superblock.encode().to_vec()), (1, crate::ssd::sample_unit(SEED)), (2, page)]
}

/// A valid sample for each parser and its number, as the corpus of a fuzzer.
#[must_use]
pub fn samples() -> Vec<(u8, Vec<u8>)> {
    let mut samples = vec![(1, sample_records()), (3, sample_metadata()), (4, sample_node())];
    samples.extend(sample_pages().map(|page| (5, page)));
    let plan = Plan::new(&StoreOptions { size_bytes: 1 << 30, ..StoreOptions::default() }, SEED, 1);
    samples.extend(plan.map(|plan| (0, plan.superblock.encode().to_vec())));
    samples.extend([Compression::None, Compression::Lz4, Compression::Zstd].map(|c| (2, sample_region(c))));
    samples
}

const SAMPLE: Reference =
    Reference { fingerprint: Fingerprint([1; 20]), place: Place { slot: 1, sector: 2, sectors: 3, number: 4 } };

fn sample_object() -> ObjectRecord {
    ObjectRecord {
        id: 6,
        kind: Kind::Volume,
        read_only: false,
        incomplete: true,
        in_directory: false,
        chunk_bytes: 8192,
        size_bytes: 1 << 20,
        root: Some(Root { reference: SAMPLE, levels: 1 }),
        created: 1,
        token: 2,
        imported_bytes: 8192,
        recipe: 3,
        modified_ns: 4,
        name: "vm".to_owned(),
    }
}

fn sample_records() -> Vec<u8> {
    let slot =
        SlotRecord { slot: 1, state: SlotState::Sealed, kind: ChunkKind::Data, sectors: 64, chunks: 9, sequence: 5 };
    let mut records = Vec::new();
    for record in [
        Record::Object(Box::new(sample_object())),
        Record::Slot(slot),
        Record::Chunk { object: 6, index: 7, reference: Some(SAMPLE) },
        Record::Chunk { object: 6, index: 8, reference: None },
        Record::Removed { id: 6 },
        Record::Indexed { sequence: 7 },
        Record::Summarised { sequence: 8 },
    ] {
        record.encode(&mut records);
    }
    records
}

fn sample_region(compression: Compression) -> Vec<u8> {
    let raw: Vec<u8> = (0..600_u32).map(|at| (at / 50) as u8).collect();
    let chunks = [250, 350].map(|bytes| RegionChunk { fingerprint: SAMPLE.fingerprint, bytes });
    let (encoding, payload) = Compressor::new(compression).compress(&raw.into());
    let prepared = Prepared { kind: ChunkKind::Data, chunks: chunks.into(), encoding, payload, raw_bytes: 600 };
    let mut region = vec![0; usize::from(prepared.sectors()) * SECTOR_BYTES];
    prepared.encode(&mut region, 0, 5, SEED, AT);
    region
}

fn sample_metadata() -> Vec<u8> {
    let mut section = vec![0; BLOCK_BYTES];
    let chunk = ContainerChunk { fingerprint: SAMPLE.fingerprint, sector: 3, sectors: 4 };
    container::encode(&mut section, &[chunk], 5, SEED, AT);
    section
}

fn sample_node() -> Vec<u8> {
    let mut node = Node::empty(1);
    node.set(2, Some(Entry { reference: SAMPLE, bytes: 8192 }));
    let mut bytes = Vec::new();
    node.encode(&mut bytes);
    bytes
}

fn sample_pages() -> impl Iterator<Item = Vec<u8>> {
    let child = |name: &str, page| Child { name: name.to_owned(), page };
    let entries = Entries::Pages { level: 1, children: vec![child("", 1), child("vm", 2)] };
    let head = Head { pages: 3, ..Head::default() };
    let leaf = Entries::Objects(vec![sample_object()]);
    [Page { number: 0, head, entries }, Page { number: 1, head: Head::default(), entries: leaf }].into_iter().map(
        |page| {
            let mut bytes = Vec::new();
            page.encode(&mut bytes);
            bytes
        },
    )
}

/// Parses bytes as the frames of one direction of a transfer. Returns the number of messages before the end, or before the first
/// error.
///
/// # Panics
/// If a message does not survive a round trip, or is larger than one may be.
#[must_use]
pub fn transfer(bytes: &[u8], is_resealed: bool) -> usize {
    let mut bytes = bytes.to_vec();
    if is_resealed {
        transfer::reseal(&mut bytes);
    }
    let bytes = Bytes::from(bytes);
    let (mut reader, mut at, mut count) = (FrameReader::default(), 0, 0);
    while let Some(Ok(rest)) = bytes.get(at..at + FrameReader::FIRST_BYTES).map(FrameReader::rest) {
        let end = at + FrameReader::FIRST_BYTES + rest;
        if end > bytes.len() {
            break;
        }
        let Ok(message) = reader.frame(&bytes.slice(at..end)) else { break };
        let again = message.encode(0);
        let back = FrameReader::default().frame(&again.into());
        assert!(back.is_ok_and(|back| back == message), "{message:?}");
        let raw_bytes = message.raw().map_or(0, |raw| raw.len());
        assert!(raw_bytes <= transfer::RAW_BYTES_MAX, "{raw_bytes} bytes in a frame");
        (at, count) = (end, count + 1);
    }
    count
}

/// Samples for [`transfer`].
#[must_use]
pub fn transfer_samples() -> Vec<u8> {
    transfer::samples().iter().zip(0..).flat_map(|(message, number)| message.encode(number)).collect()
}

/// Parses bytes as an increment. Returns the number of parts before the end, or before the first error.
///
/// # Panics
/// If a part is not within the volume, or has more bytes than a part may have.
#[must_use]
pub fn increment(bytes: &[u8], is_resealed: bool) -> usize {
    let mut bytes = bytes.to_vec();
    if is_resealed {
        increment::reseal(&mut bytes);
    }
    let (mut reader, first) = (IncrementReader::default(), IncrementReader::FIRST_BYTES);
    let rest = bytes.get(..first).and_then(|first| IncrementReader::rest_of_head(first).ok());
    let Some(end) = rest.map(|rest| first + rest) else { return 0 };
    let Some(Ok(head)) = bytes.get(..end).map(|bytes| reader.head(bytes)) else { return 0 };
    assert_eq!(head.encode(), bytes[..end]);
    let (mut at, mut parts, mut reached) = (end, 0, 0);
    while let Some(first) = bytes.get(at..at + IncrementReader::RECORD_BYTES) {
        let Ok(rest) = reader.rest_of_record(first) else { return parts };
        at += IncrementReader::RECORD_BYTES;
        let Some(payload) = bytes.get(at..at + rest) else { return parts };
        let Ok(Some(part)) = reader.record(first, Bytes::copy_from_slice(payload)) else { return parts };
        assert!(part.offset >= reached && part.len > 0, "{part:?}");
        reached = part.offset + u64::from(part.len);
        assert!(reached <= head.size_bytes() && part.len <= increment::RAW_BYTES_MAX, "{part:?}");
        assert!(part.data.is_none_or(|data| data.len() == part.len as usize));
        (at, parts) = (at + rest, parts + 1);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_whole_is_taken_and_what_is_changed_harms_nobody() {
        for (which, bytes) in samples() {
            assert!(parse(which, &bytes), "structure {which}");
            for at in 0..bytes.len().min(512) {
                for value in [0, 1, 0x7F, 0xFF] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = parse(which, &changed);
                }
                let _ = parse(which, &bytes[..at]);
            }
        }
    }

    #[test]
    fn what_is_whole_of_a_transfer_is_taken_and_what_is_changed_harms_nobody() {
        let bytes = transfer_samples();
        assert_eq!(transfer(&bytes, false), transfer::samples().len());
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = transfer(&changed, true);
            }
        }
    }

    #[test]
    fn what_is_whole_on_an_ssd_is_taken_and_what_is_changed_harms_nobody() {
        for (which, bytes) in ssd_samples() {
            assert!(parse_ssd(which, &bytes), "structure {which}");
            for at in 0..bytes.len().min(1024) {
                for value in [0, 1, 0x7F, 0xFF] {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = parse_ssd(which, &changed);
                }
                let _ = parse_ssd(which, &bytes[..at]);
            }
        }
    }
}
