//! New entries in RAM, until they are merged into their pages.

use super::page::{Entry, OWNER_BITS, Owner, Spot};

/// The number of pages that are merged together.
pub(super) const GROUP_PAGES: u32 = 16;
/// Entries by which the list of a group grows.
const GROWTH: usize = 32;
/// An entry is kept in the buffer for this number of chunks that the store is planned for: about a quarter of a byte of
/// RAM for each.
const CHUNKS_AN_ENTRY: u64 = 32;
const ENTRIES_MIN: u64 = 32;
const PACKED_BITS: u32 = 48;

/// Entries by groups of pages, in the order in which they came.
#[derive(Debug)]
pub(super) struct Buffer {
    /// An entry in the lower 48 bits, and above it the number of its page in the group.
    groups: Vec<Vec<u64>>,
    len: usize,
    /// The number of entries from which on they are merged.
    limit: usize,
}

impl Buffer {
    pub(super) fn new(pages: u32, chunks: u64) -> Self {
        let groups = vec![Vec::new(); pages.div_ceil(GROUP_PAGES) as usize];
        Self { groups, len: 0, limit: Self::limit(chunks) }
    }

    fn limit(chunks: u64) -> usize {
        (chunks / CHUNKS_AN_ENTRY).max(ENTRIES_MIN) as usize
    }

    /// Adds an entry; returns false if merging has fallen behind and there is no room for it.
    pub(super) fn push(&mut self, page: u32, entry: Entry) -> bool {
        // Half more than the limit: room for what arrives while a group is merged.
        if self.len > self.limit + self.limit / 2 {
            return false;
        }
        let packed = u64::from(page % GROUP_PAGES) << PACKED_BITS | entry.pack();
        let Some(group) = self.groups.get_mut((page / GROUP_PAGES) as usize) else { return false };
        if group.len() == group.capacity() {
            group.reserve_exact(GROWTH);
        }
        group.push(packed);
        self.len += 1;
        true
    }

    /// The containers that new entries name for a fingerprint, the newest first.
    pub(super) fn owners(&self, spot: Spot) -> Vec<Owner> {
        let wanted = u64::from(spot.page % GROUP_PAGES) << (PACKED_BITS - OWNER_BITS) | u64::from(spot.tag);
        let group = self.groups.get((spot.page / GROUP_PAGES) as usize).map_or(&[][..], |group| group);
        let found = group.iter().rev().filter(|packed| **packed >> OWNER_BITS == wanted);
        found.map(|packed| Entry::unpack(*packed).owner).collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len > self.limit
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The group with the most entries, and a copy of them; `None`: all are empty.
    pub(super) fn fullest(&self) -> Option<(u32, Vec<u64>)> {
        let (number, group) = (0..).zip(&self.groups).max_by_key(|(_, group)| group.len())?;
        (!group.is_empty()).then(|| (number, group.clone()))
    }

    /// Removes the oldest entries of a group, which are in their pages now.
    pub(super) fn remove(&mut self, group: u32, count: usize) {
        let Some(group) = self.groups.get_mut(group as usize) else { return };
        let count = count.min(group.len());
        *group = group.split_off(count);
        self.len -= count;
    }

    /// RAM in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        let entries: usize = self.groups.iter().map(Vec::capacity).sum();
        (entries * size_of::<u64>() + self.groups.capacity() * size_of::<Vec<u64>>()) as u64
    }

    /// The maximum of [`ram_bytes`](Self::ram_bytes).
    pub(super) fn ram_bytes_max(pages: u32, chunks: u64) -> u64 {
        let groups = u64::from(pages.div_ceil(GROUP_PAGES));
        let limit = Self::limit(chunks) as u64;
        let each = (size_of::<Vec<u64>>() + GROWTH * size_of::<u64>()) as u64;
        (limit + limit / 2 + 1) * size_of::<u64>() as u64 + groups * each
    }
}

/// The page and the entry of a packed entry.
pub(super) fn unpack(group: u32, packed: u64) -> (u32, Entry) {
    (group * GROUP_PAGES + (packed >> PACKED_BITS) as u32, Entry::unpack(packed))
}
