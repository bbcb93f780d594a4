//! Pages of short fingerprints, and their entries.

use crate::format::record::SlotState;
use crate::slots::Slot;
use hashbrown::HashSet;
use nitro_units::Fingerprint;

/// Bytes of an entry: 3 of the fingerprint, and 3 that name the container.
pub(crate) const ENTRY_BYTES: usize = 6;
/// The maximum number of entries of a page, so that a page with its prefix takes less than 4096 bytes.
pub(crate) const ENTRIES_MAX: usize = 680;
/// The planned number of entries of a page: with 612 of 680, about 3 in 1000 pages are full.
const ENTRIES_PLANNED: u64 = 612;
const TAG_BITS: u32 = 24;
pub(super) const OWNER_BITS: u32 = 24;
const OWNER_MASK: u32 = (1 << OWNER_BITS) - 1;

/// The number of pages for a store that is planned for this number of chunks.
pub(crate) fn pages_for(chunks: u64) -> u32 {
    chunks.div_ceil(ENTRIES_PLANNED).clamp(1, u64::from(u32::MAX)) as u32
}

/// Where the entry of a fingerprint is: its page, and the bits that distinguish it from the others there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) page: u32,
    pub(crate) tag: u32,
}

impl Spot {
    /// The page is derived from other bits of the fingerprint than the tag.
    pub(crate) fn of(fingerprint: &Fingerprint, pages: u32) -> Self {
        let [.., a, b, c, d, e, f, g, _] = fingerprint.0;
        let page = (u64::from(u32::from_le_bytes([a, b, c, d])) * u64::from(pages)) >> 32;
        Self { page: page as u32, tag: u32::from_le_bytes([e, f, g, 0]) }
    }
}

/// The container of an entry: its slot, and as many low bits of its sequence number as there is room for. They show
/// that a slot has another container by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner(u32);

/// How [`Owner`]s are packed: the number of bits of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owners {
    slot_bits: u32,
}

impl Owners {
    /// For a store of this number of containers.
    pub(crate) fn new(containers: u32) -> Self {
        Self { slot_bits: (u32::BITS - containers.saturating_sub(1).leading_zeros()).clamp(1, OWNER_BITS) }
    }

    const fn slot_mask(self) -> u32 {
        OWNER_MASK >> (OWNER_BITS - self.slot_bits)
    }

    pub(crate) fn owner(self, slot: u32, sequence: u64) -> Owner {
        Owner((sequence << self.slot_bits) as u32 & OWNER_MASK | slot & self.slot_mask())
    }

    pub(crate) fn slot(self, owner: Owner) -> u32 {
        owner.0 & self.slot_mask()
    }

    /// Whether the container in its slot may be the one that the entry names.
    pub(crate) fn is_of(self, owner: Owner, held: &Slot) -> bool {
        held.state != SlotState::Free && self.owner(self.slot(owner), held.sequence) == owner
    }
}

/// An entry of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) tag: u32,
    pub(crate) owner: Owner,
}

impl Entry {
    /// The entry in 48 bits.
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.tag) << OWNER_BITS | u64::from(self.owner.0)
    }

    /// The entry from the lower 48 bits; each number is valid.
    pub(crate) fn unpack(packed: u64) -> Self {
        let tag = (packed >> OWNER_BITS) as u32 & ((1 << TAG_BITS) - 1);
        Self { tag, owner: Owner(packed as u32 & OWNER_MASK) }
    }
}

/// The entries of a page, the newest first. Bytes that are not a page have none.
pub(crate) fn entries(page: &[u8]) -> impl Iterator<Item = Entry> {
    let is_page = page.len().is_multiple_of(ENTRY_BYTES) && page.len() <= ENTRIES_MAX * ENTRY_BYTES;
    let page = if is_page { page } else { &[] };
    page.chunks_exact(ENTRY_BYTES).map(|field| {
        let mut packed = [0; 8];
        packed[..ENTRY_BYTES].copy_from_slice(field);
        Entry::unpack(u64::from_le_bytes(packed))
    })
}

/// The bytes of a page with these entries, of which there must be at most [`ENTRIES_MAX`].
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.pack().to_le_bytes().into_iter().take(ENTRY_BYTES)).collect()
}

/// New entries, the newest first, in front of those of a page, each once.
pub(crate) fn merged(new: impl Iterator<Item = Entry>, page: &[u8]) -> Vec<Entry> {
    let mut seen = HashSet::new();
    new.chain(entries(page)).filter(|entry| seen.insert(*entry)).collect()
}
