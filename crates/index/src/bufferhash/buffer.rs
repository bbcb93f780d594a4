//! The buffer of a super table: a hash table in RAM with partial-key cuckoo hashing.
//!
//! Buckets have four slots. The other bucket of an entry is computed from its tag and its current bucket, so entries
//! are displaced without hashing their keys.

use crate::Shape;

const WAYS: usize = 4;
/// The maximum number of displacements; after them, the buffer counts as full.
const KICKS_MAX: u32 = 500;
/// Slots for each entry that the buffer must hold, in hundredths: with four-way buckets, cuckoo hashing fails above 95
/// %.
const SLOTS_PERCENT: usize = 106;

const OCCUPIED: u16 = 1 << 15;
const TOMBSTONE: u16 = 1 << 14;
const UNSYNCED: u16 = 1 << 13;
const TAG: u16 = UNSYNCED - 1;

/// An entry of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) removed: bool,
}

/// The hash table.
pub(super) struct Buffer {
    shape: Shape,
    buckets: u32,
    /// The flags of each slot, and the tag of its entry.
    meta: Box<[u16]>,
    entries: Box<[u8]>,
    len: usize,
    len_max: usize,
    /// The state of a generator that chooses the entries to displace.
    turn: u32,
}

/// The buffer has no room for another entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

fn slots_for(len_max: usize) -> usize {
    (len_max * SLOTS_PERCENT).div_ceil(100).next_multiple_of(WAYS).max(2 * WAYS)
}

impl Buffer {
    /// RAM of a buffer for `len_max` entries, in bytes.
    pub(super) fn ram_bytes(shape: Shape, len_max: usize) -> u64 {
        (slots_for(len_max) * (shape.entry_bytes() + size_of::<u16>())) as u64
    }

    pub(super) fn new(shape: Shape, len_max: usize) -> Self {
        let slots = slots_for(len_max);
        Self {
            shape,
            buckets: (slots / WAYS) as u32,
            meta: vec![0; slots].into(),
            entries: vec![0; slots * shape.entry_bytes()].into(),
            len: 0,
            len_max,
            turn: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn place(&self, hash: u64) -> (u32, u16) {
        let bucket = (u64::from(hash as u32) * u64::from(self.buckets)) >> 32;
        (bucket as u32, (hash >> 32) as u16 & TAG)
    }

    /// The other bucket of a tag; the function is its own inverse.
    fn other(&self, bucket: u32, tag: u16) -> u32 {
        let spread = (u64::from(tag) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let at = ((spread * u64::from(self.buckets)) >> 32) as u32;
        if at >= bucket { at - bucket } else { at + self.buckets - bucket }
    }

    fn entry(&self, slot: usize) -> &[u8] {
        let size = self.shape.entry_bytes();
        &self.entries[slot * size..(slot + 1) * size]
    }

    fn find_in(&self, bucket: u32, tag: u16, key: &[u8]) -> Option<usize> {
        let first = bucket as usize * WAYS;
        let matches = |slot: &usize| {
            self.meta[*slot] & (OCCUPIED | TAG) == OCCUPIED | tag && self.entry(*slot)[..key.len()] == *key
        };
        (first..first + WAYS).find(matches)
    }

    fn slot_of(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let (bucket, tag) = self.place(hash);
        self.find_in(bucket, tag, key).or_else(|| self.find_in(self.other(bucket, tag), tag, key))
    }

    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        self.slot_of(hash, key).map(|slot| self.look(slot))
    }

    fn look(&self, slot: usize) -> Entry<'_> {
        Entry { bytes: self.entry(slot), removed: self.meta[slot] & TOMBSTONE != 0 }
    }

    fn fill(&mut self, slot: usize, meta: u16, key: &[u8], value: &[u8]) {
        self.meta[slot] = meta;
        let size = self.shape.entry_bytes();
        let entry = &mut self.entries[slot * size..(slot + 1) * size];
        entry[..key.len()].copy_from_slice(key);
        match value {
            // The key was removed.
            [] => entry[key.len()..].fill(0),
            value => entry[key.len()..].copy_from_slice(value),
        }
    }

    fn free_in(&self, bucket: u32) -> Option<usize> {
        let first = bucket as usize * WAYS;
        (first..first + WAYS).find(|slot| self.meta[*slot] == 0)
    }

    /// Inserts a key, or with `removed` its removal, and replaces the key's earlier entry. `synced`: the entry is
    /// durable already.
    pub(super) fn put(&mut self, hash: u64, key: &[u8], value: &[u8], removed: bool, synced: bool) -> Result<(), Full> {
        let (bucket, tag) = self.place(hash);
        let meta = OCCUPIED | tag | if removed { TOMBSTONE } else { 0 } | if synced { 0 } else { UNSYNCED };
        if let Some(slot) = self.slot_of(hash, key) {
            self.fill(slot, meta, key, value);
            return Ok(());
        }
        if self.len >= self.len_max {
            return Err(Full);
        }
        let other = self.other(bucket, tag);
        let slot = match self.free_in(bucket).or_else(|| self.free_in(other)) {
            Some(slot) => slot,
            None => self.make_room(bucket).ok_or(Full)?,
        };
        self.fill(slot, meta, key, value);
        self.len += 1;
        Ok(())
    }

    /// Displaces entries until a slot of `bucket` is free. Finds the whole path first, so that a failure changes
    /// nothing.
    fn make_room(&mut self, bucket: u32) -> Option<usize> {
        let mut path = Vec::new();
        let mut at = bucket;
        for _ in 0..KICKS_MAX {
            self.turn = self.turn.wrapping_mul(0x915F_77F5).wrapping_add(0x2545_F491);
            let slot = at as usize * WAYS + (self.turn >> 30) as usize;
            if path.contains(&slot) {
                continue;
            }
            path.push(slot);
            at = self.other(at, self.meta[slot] & TAG);
            if let Some(free) = self.free_in(at) {
                let size = self.shape.entry_bytes();
                let mut to = free;
                for from in path.into_iter().rev() {
                    self.meta[to] = std::mem::take(&mut self.meta[from]);
                    self.entries.copy_within(from * size..(from + 1) * size, to * size);
                    to = from;
                }
                return Some(to);
            }
        }
        None
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.meta.len()).filter(|slot| self.meta[*slot] != 0).map(|slot| self.look(slot))
    }

    /// Passes the entries that are not durable yet (with `all`, every entry) to `take`, and marks them as durable.
    pub(super) fn take_unsynced(&mut self, all: bool, mut take: impl FnMut(Entry<'_>)) {
        for slot in 0..self.meta.len() {
            if self.meta[slot] & UNSYNCED != 0 || (all && self.meta[slot] != 0) {
                self.meta[slot] &= !UNSYNCED;
                take(self.look(slot));
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.meta.fill(0);
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_of;
    use std::collections::HashMap;

    const SHAPE: Shape = Shape { key_bytes: 8, value_bytes: 4 };

    fn put(buffer: &mut Buffer, n: u64, value: u32, removed: bool) -> Result<(), Full> {
        let key = n.to_le_bytes();
        buffer.put(hash_of(&key, 7) as u64, &key, &value.to_le_bytes(), removed, false)
    }

    #[test]
    fn it_fills_and_keeps_what_it_took() {
        for len_max in [1, 5, 100, 4032] {
            let mut buffer = Buffer::new(SHAPE, len_max);
            let mut model = HashMap::new();
            let mut n = 0;
            while put(&mut buffer, n, n as u32, false).is_ok() {
                model.insert(n, (n as u32, false));
                n += 1;
            }
            assert!(buffer.len() * 100 >= len_max * 97, "{} of {len_max}", buffer.len());
            // Keys of a full buffer can still be updated.
            for n in (0..n).step_by(3) {
                put(&mut buffer, n, 9, n % 2 == 0).unwrap();
                model.insert(n, (9, n % 2 == 0));
            }
            assert_eq!(buffer.len(), model.len());
            for (n, (value, removed)) in &model {
                let key = n.to_le_bytes();
                let entry = buffer.find(hash_of(&key, 7) as u64, &key).unwrap();
                assert_eq!((&entry.bytes[8..], entry.removed), (&value.to_le_bytes()[..], *removed));
            }
            assert_eq!(buffer.find(hash_of(&[9; 8], 7) as u64, &[9; 8]), None);
            assert_eq!(buffer.iter().count(), model.len());
        }
    }

    #[test]
    fn what_was_taken_is_not_taken_again_until_it_changes() {
        let mut buffer = Buffer::new(SHAPE, 50);
        for n in 0..50 {
            put(&mut buffer, n, 1, false).unwrap();
        }
        let count = |buffer: &mut Buffer, all| {
            let mut count = 0;
            buffer.take_unsynced(all, |_| count += 1);
            count
        };
        assert_eq!(count(&mut buffer, false), 50);
        assert_eq!(count(&mut buffer, false), 0);
        put(&mut buffer, 3, 2, false).unwrap();
        assert_eq!(count(&mut buffer, false), 1);
        assert_eq!(count(&mut buffer, true), 50);
    }
}
