//! A block of a recipe: up to 448 references, to chunks of an object or to blocks below.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | magic `NCRB` |
//! | 4 | 1 | level: 0 names chunks, higher ones blocks of the level below |
//! | 5 | 1 | reserved, zero |
//! | 6 | 2 | references; those behind them are holes |
//! | 8 | 8 | the newest container at a time when all places were correct: places in containers that are not newer are still correct |
//! | 16 | 36 each | fingerprint (20; all zero: a hole), place (8), bytes of the object beneath (8) |
//!
//! A block's fingerprint is BLAKE3, cut to 160 bits, of its level and of the references' fingerprints and sizes. Places
//! are not part of it, so that blocks with the same content are the same block.

use super::{u16_at, u64_at};
use crate::place::{Place, Reference};
use nitro_log::FormatError;
use nitro_units::Fingerprint;

const MAGIC: [u8; 4] = *b"NCRB";
const HEADER_BYTES: usize = 16;
const ENTRY_BYTES: usize = 36;
/// The maximum number of references of a block, which then has about 16 KiB.
pub(crate) const FANOUT: usize = 448;
/// The maximum size of a block in bytes.
#[cfg(test)]
pub(crate) const NODE_BYTES_MAX: usize = HEADER_BYTES + FANOUT * ENTRY_BYTES;
const NONE: Fingerprint = Fingerprint([0; 20]);

/// An entry of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) reference: Reference,
    /// Bytes of the object below the entry.
    pub(crate) bytes: u64,
}

/// A block of a recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) level: u8,
    /// The sequence number of the newest container at a time when all places were correct.
    pub(crate) since: u64,
    pub(crate) entries: Vec<Option<Entry>>,
}

impl Node {
    pub(crate) fn empty(level: u8) -> Self {
        Self { level, since: u64::MAX, entries: Vec::new() }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Entry> {
        self.entries.get(index).copied().flatten()
    }

    pub(crate) fn set(&mut self, index: usize, entry: Option<Entry>) {
        if self.entries.len() <= index {
            self.entries.resize(index + 1, None);
        }
        self.entries[index] = entry;
        while self.entries.last() == Some(&None) {
            self.entries.pop();
        }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"recipe").update(&[self.level]);
        for entry in &self.entries {
            match entry {
                Some(entry) => hasher.update(&entry.reference.fingerprint.0).update(&entry.bytes.to_le_bytes()),
                None => hasher.update(&[0; 28]),
            };
        }
        let mut fingerprint = [0; 20];
        fingerprint.copy_from_slice(&hasher.finalize().as_bytes()[..20]);
        Fingerprint(fingerprint)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[self.level, 0]);
        out.extend_from_slice(&(self.entries.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.since.to_le_bytes());
        for entry in &self.entries {
            let (fingerprint, place, bytes) = match entry {
                Some(entry) => (entry.reference.fingerprint, entry.reference.place, entry.bytes),
                None => (NONE, Place::default(), 0),
            };
            out.extend_from_slice(&fingerprint.0);
            out.extend_from_slice(&place.pack().to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        const STRUCTURE: &str = "recipe block";
        if bytes.len() < HEADER_BYTES {
            return Err(FormatError::Short { structure: STRUCTURE, have: bytes.len(), need: HEADER_BYTES });
        }
        if bytes[..4] != MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        let count = usize::from(u16_at(bytes, 6));
        let need = HEADER_BYTES + count * ENTRY_BYTES;
        if count > FANOUT {
            return Err(FormatError::Field { structure: STRUCTURE, field: "references", value: count as u64 });
        }
        if bytes.len() != need {
            return Err(FormatError::Short { structure: STRUCTURE, have: bytes.len(), need });
        }
        let entries = bytes[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).map(|field| {
            let mut fingerprint = NONE;
            fingerprint.0.copy_from_slice(&field[..20]);
            let place = Place::unpack(u64_at(field, 20));
            (fingerprint != NONE)
                .then(|| Entry { reference: Reference { fingerprint, place }, bytes: u64_at(field, 28) })
        });
        Ok(Self { level: bytes[4], since: u64_at(bytes, 8), entries: entries.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_come_back_and_are_named_by_content_alone() {
        let mut node = Node::empty(1);
        let at = |slot| Place { slot, sector: 1, sectors: 2, number: 3 };
        let entry = |slot| {
            Some(Entry { reference: Reference { fingerprint: Fingerprint([7; 20]), place: at(slot) }, bytes: 8192 })
        };
        node.set(3, entry(1));
        node.set(447, entry(2));
        let mut out = Vec::new();
        node.encode(&mut out);
        assert_eq!(out.len(), NODE_BYTES_MAX);
        assert_eq!(Node::decode(&out).unwrap(), node);
        let before = node.fingerprint();
        node.set(3, entry(9));
        assert_eq!(node.fingerprint(), before);
        node.set(447, None);
        assert_eq!(node.entries.len(), 4);
        assert_ne!(node.fingerprint(), before);
    }
}
