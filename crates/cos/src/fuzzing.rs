//! What the fuzz target calls: the parsers, on anybody's bytes, which are first given the magic and the checksums that they should
//! have. Not part of the interface.

use crate::format::batch::{self, BatchHead};
use crate::format::node::Node;
use crate::format::record::Record;
use crate::format::region::{self, RegionHead};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK_BYTES, container, u64_at};
use crate::plan::Layout;
use bytes::Bytes;

const SEED: u64 = 7;
const AT: u64 = 4096;

/// Parses bytes as a superblock, a batch of the journal, a region, a container's metadata or a recipe's block, as `which` has it.
/// Returns whether they are one.
///
/// # Panics
/// When what was taken does not come back as it was.
#[must_use]
pub fn parse(which: u8, bytes: &[u8]) -> bool {
    match which % 5 {
        0 => superblock(bytes),
        1 => journal_batch(bytes),
        2 => one_region(bytes),
        3 => metadata(bytes),
        _ => recipe_block(bytes),
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
        assert!(layout.index_at <= layout.containers_at && layout.containers_at <= layout.end, "{layout:?}");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::container::ContainerChunk;
    use crate::format::region::{ChunkKind, Prepared, RegionChunk};
    use nitro_engine::codec::Encoding;
    use nitro_engine::manager::Fingerprint;

    fn whole() -> Vec<(u8, Vec<u8>)> {
        let payload = Bytes::from_static(&[9; 300]);
        let chunks = vec![RegionChunk { fingerprint: Fingerprint([1; 20]), bytes: 300 }];
        let prepared = Prepared { kind: ChunkKind::Data, chunks, encoding: Encoding::Raw, payload, raw_bytes: 300 };
        let mut region = vec![0; usize::from(prepared.sectors()) * 512];
        prepared.encode(&mut region, 0, 5, SEED, AT);
        let mut section = vec![0; BLOCK_BYTES];
        let chunk = ContainerChunk { fingerprint: Fingerprint([2; 20]), sector: 3, sectors: 4 };
        container::encode(&mut section, &[chunk], 5, SEED, AT);
        let mut records = Vec::new();
        Record::Removed { id: 6 }.encode(&mut records);
        Record::Indexed { sequence: 7 }.encode(&mut records);
        let mut node = Vec::new();
        Node::empty(1).encode(&mut node);
        vec![(0, vec![0; BLOCK_BYTES]), (1, records), (2, region), (3, section), (4, node)]
    }

    #[test]
    fn what_is_whole_is_taken_and_what_is_changed_harms_nobody() {
        for (which, bytes) in whole() {
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
}
