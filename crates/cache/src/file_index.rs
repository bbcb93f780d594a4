//! The file index: `ExtentKey -> Location`. A *base* entry is one that its WEU's header names, and costs 7 bytes here
//! and 12 in the WEU table, or in a [lean](IndexKind::Lean) index 6 here and some 6 there; a *dup* entry is a further key with
//! the same content, and keeps key, target and generation.

use crate::settings::IndexKind;
use crate::table::{Dense, Shard, Slot, Spread, Table};
use crate::weu::{ADDRESS_BITS, Address};
use nitro_units::{ExtentKey, Generation, WeuId};
use std::num::NonZeroU64;

/// The target of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Entry `.1` of WEU `.0`, whose header has the key.
    Base(WeuId, u16),
    /// A dup entry, by its number in [`Dups`].
    Dup(u32),
}

/// A slot of the file index: home bits and a packed [`Reference`].
trait FileSlot: Slot {
    /// The number of bits of entry numbers does not change while a cache is in use.
    fn new(home: u32, reference: Reference, entry_bits: u32) -> Self;

    fn reference(&self, entry_bits: u32) -> Reference;
}

const WIDE_REFERENCE_BITS: u32 = 38;

/// 56 bits: reference (38: kind, then WEU and entry, or dup number), home bits (18).
#[derive(Debug, Clone, Copy, PartialEq)]
struct WideSlot([u8; 7]);

impl WideSlot {
    fn raw(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

impl Slot for WideSlot {
    const EMPTY: Self = Self([0xFF; 7]);
    const HOME_BITS: u32 = 18;
    fn home(&self) -> u32 {
        (self.raw() >> WIDE_REFERENCE_BITS) as u32
    }
}

impl FileSlot for WideSlot {
    fn new(home: u32, reference: Reference, _entry_bits: u32) -> Self {
        let reference = match reference {
            Reference::Base(weu, entry) => u64::from(weu.0) << 13 | u64::from(entry),
            Reference::Dup(number) => 1 << 37 | u64::from(number),
        };
        let raw = (u64::from(home) << WIDE_REFERENCE_BITS | reference).to_le_bytes();
        let [a, b, c, d, e, f, g, _] = raw;
        Self([a, b, c, d, e, f, g])
    }

    fn reference(&self, _entry_bits: u32) -> Reference {
        let raw = self.raw();
        if raw >> 37 & 1 == 1 {
            Reference::Dup(raw as u32)
        } else {
            Reference::Base(WeuId((raw >> 13) as u32 & 0xFF_FFFF), raw as u16 & 0x1FFF)
        }
    }
}

const LEAN_REFERENCE_BITS: u32 = ADDRESS_BITS + 1;

/// 48 bits: reference (35: kind, then WEU and entry as one [address](Address), or dup number), home bits (13).
#[derive(Debug, Clone, Copy, PartialEq)]
struct LeanSlot([u8; 6]);

impl LeanSlot {
    fn raw(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl Slot for LeanSlot {
    const EMPTY: Self = Self([0xFF; 6]);
    const HOME_BITS: u32 = 13;
    fn home(&self) -> u32 {
        (self.raw() >> LEAN_REFERENCE_BITS) as u32
    }
}

impl FileSlot for LeanSlot {
    fn new(home: u32, reference: Reference, entry_bits: u32) -> Self {
        let reference = match reference {
            Reference::Base(weu, entry) => Address::of(weu, entry, entry_bits).0,
            Reference::Dup(number) => 1 << ADDRESS_BITS | u64::from(number),
        };
        let raw = (u64::from(home) << LEAN_REFERENCE_BITS | reference).to_le_bytes();
        let [a, b, c, d, e, f, ..] = raw;
        Self([a, b, c, d, e, f])
    }

    fn reference(&self, entry_bits: u32) -> Reference {
        let raw = self.raw();
        if raw >> ADDRESS_BITS & 1 == 1 {
            Reference::Dup(raw as u32)
        } else {
            let (weu, entry) = Address(raw & ((1 << ADDRESS_BITS) - 1)).parts(entry_bits);
            Reference::Base(weu, entry)
        }
    }
}

/// Maps the hash of a key to candidates; the caller checks which of them really has the key.
struct Keyed<S, L> {
    table: Table<S, L>,
    entry_bits: u32,
    seed: u64,
}

impl<S: FileSlot, L: Shard<S>> Keyed<S, L> {
    fn hash(&self, key: ExtentKey) -> u64 {
        mix(key.raw() ^ self.seed)
    }

    fn find(&self, key: ExtentKey, bears: impl Fn(Reference) -> bool) -> Option<Reference> {
        let bits = self.entry_bits;
        self.table.find(self.hash(key), |s| bears(s.reference(bits))).map(|s| s.reference(bits))
    }

    fn insert(&mut self, key: ExtentKey, reference: Reference) {
        let hash = self.hash(key);
        self.table.insert(hash, S::new(Table::<S, L>::home_of(hash), reference, self.entry_bits));
    }

    fn remove(&mut self, key: ExtentKey, reference: Reference) -> bool {
        let bits = self.entry_bits;
        self.table.remove(self.hash(key), |s| s.reference(bits) == reference).is_some()
    }
}

/// The file index, of either [kind](IndexKind).
pub(crate) struct FileIndex(Kind);

enum Kind {
    Exact(Keyed<WideSlot, Spread<WideSlot>>),
    Lean(Keyed<LeanSlot, Dense<LeanSlot>>),
}

/// The same call for either kind.
macro_rules! each {
    ($index:expr, $keyed:ident => $call:expr) => {
        match $index {
            Kind::Exact($keyed) => $call,
            Kind::Lean($keyed) => $call,
        }
    };
}

impl FileIndex {
    /// For about `expected` keys, and units of at most `1 << entry_bits` entries.
    pub(crate) fn new(kind: IndexKind, expected: u64, entry_bits: u32, seed: u64) -> Self {
        Self(match kind {
            IndexKind::Exact => Kind::Exact(Keyed { table: Table::new(expected, 4), entry_bits, seed }),
            IndexKind::Lean => Kind::Lean(Keyed { table: Table::new(expected, 4), entry_bits, seed }),
        })
    }

    pub(crate) fn find(&self, key: ExtentKey, bears: impl Fn(Reference) -> bool) -> Option<Reference> {
        each!(&self.0, keyed => keyed.find(key, bears))
    }

    /// Reads the memory that a search for the key reads first.
    #[inline]
    pub(crate) fn touch(&self, key: ExtentKey) -> u64 {
        each!(&self.0, keyed => keyed.table.touch(keyed.hash(key)).into())
    }

    /// The first candidate for a key, which most probably is the right one.
    #[inline]
    pub(crate) fn guess(&self, key: ExtentKey) -> Option<Reference> {
        each!(&self.0, keyed => keyed.find(key, |_| true))
    }

    /// Adds a key that is not in the index.
    pub(crate) fn insert(&mut self, key: ExtentKey, reference: Reference) {
        each!(&mut self.0, keyed => keyed.insert(key, reference));
    }

    /// Removes the entry that is exactly `reference`.
    pub(crate) fn remove(&mut self, key: ExtentKey, reference: Reference) -> bool {
        each!(&mut self.0, keyed => keyed.remove(key, reference))
    }

    pub(crate) fn len(&self) -> usize {
        each!(&self.0, keyed => keyed.table.len())
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        each!(&self.0, keyed => keyed.table.ram_bytes())
    }
}

/// The finaliser of SplitMix64: every input bit affects every output bit.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// A key whose content was stored under another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dup {
    pub(crate) key: ExtentKey,
    /// One bit that is always set, generation (26 bits; the dup is cleaned long before the slot has had 2^26 fillings),
    /// WEU (24), entry (13).
    target: NonZeroU64,
    pub(crate) recorded: Recorded,
}

/// Where a dup is recorded, so that a restart brings it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// Nowhere, and it never was.
    Never,
    /// In records that do not count any more.
    Before,
    /// In the record with this number of a WEU.
    In(WeuId, u16),
}

impl Dup {
    pub(crate) fn new(key: ExtentKey, weu: WeuId, entry: u16, generation: Generation) -> Self {
        let generation = u64::from(generation.0 & DUP_GENERATION_MASK);
        let target = generation << 37 | u64::from(weu.0) << 13 | u64::from(entry);
        Self { key, target: NonZeroU64::MIN.saturating_add(u64::MAX >> 1) | target, recorded: Recorded::Never }
    }

    /// The same dup with another target, which no record has; `None`: this is its target already.
    pub(crate) fn moved(&self, weu: WeuId, entry: u16, generation: Generation) -> Option<Self> {
        let recorded = if self.recorded == Recorded::Never { Recorded::Never } else { Recorded::Before };
        let moved = Self { recorded, ..Self::new(self.key, weu, entry, generation) };
        (moved.target != self.target).then_some(moved)
    }

    pub(crate) fn weu(&self) -> WeuId {
        WeuId((self.target.get() >> 13) as u32 & 0xFF_FFFF)
    }

    pub(crate) fn entry(&self) -> u16 {
        self.target.get() as u16 & 0x1FFF
    }

    pub(crate) fn is_of(&self, generation: Generation) -> bool {
        (self.target.get() >> 37) as u32 & DUP_GENERATION_MASK == generation.0 & DUP_GENERATION_MASK
    }
}

const DUP_GENERATION_MASK: u32 = (1 << 26) - 1;
const _: () = assert!(size_of::<Option<Dup>>() == 24);

const DUPS_PER_BLOCK: usize = 1024;

/// The dup entries, in blocks, so that growth copies nothing. Their number is bounded: beyond the bound, a new entry
/// replaces the one at a moving hand.
pub(crate) struct Dups {
    blocks: Vec<Box<[Option<Dup>]>>,
    free: Vec<u32>,
    len: u32,
    len_max: u32,
    hand: u32,
}

impl Dups {
    pub(crate) fn new(len_max: u32) -> Self {
        Self { blocks: Vec::new(), free: Vec::new(), len: 0, len_max: len_max.max(1), hand: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether a further entry would displace another one.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.len_max
    }

    /// All numbers in use are below this.
    pub(crate) fn capacity(&self) -> u32 {
        (self.blocks.len() * DUPS_PER_BLOCK) as u32
    }

    fn slot_mut(&mut self, number: u32) -> &mut Option<Dup> {
        &mut self.blocks[number as usize / DUPS_PER_BLOCK][number as usize % DUPS_PER_BLOCK]
    }

    pub(crate) fn get(&self, number: u32) -> Option<Dup> {
        *self.blocks.get(number as usize / DUPS_PER_BLOCK)?.get(number as usize % DUPS_PER_BLOCK)?
    }

    /// If the bound is reached, the entry to remove before another one is added: the next one for which `kept` returns
    /// false.
    pub(crate) fn victim(&mut self, kept: impl Fn(&Dup) -> bool) -> Option<u32> {
        if self.len < self.len_max {
            return None;
        }
        let capacity = self.capacity();
        (0..capacity).find_map(|_| {
            self.hand = (self.hand + 1) % capacity;
            self.get(self.hand).filter(|dup| !kept(dup)).map(|_| self.hand)
        })
    }

    pub(crate) fn insert(&mut self, dup: Dup) -> u32 {
        if self.free.is_empty() {
            let first = self.capacity();
            self.blocks.push(vec![None; DUPS_PER_BLOCK].into_boxed_slice());
            self.free.extend((first..first + DUPS_PER_BLOCK as u32).rev());
        }
        let number = self.free.pop().unwrap_or_default();
        *self.slot_mut(number) = Some(dup);
        self.len += 1;
        number
    }

    /// Notes where an entry is recorded.
    pub(crate) fn set_recorded(&mut self, number: u32, recorded: Recorded) {
        if let Some(dup) = self.slot_mut(number) {
            dup.recorded = recorded;
        }
    }

    /// Replaces an entry.
    pub(crate) fn replace(&mut self, number: u32, dup: Dup) {
        *self.slot_mut(number) = Some(dup);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if self.slot_mut(number).take().is_some() {
            self.free.push(number);
            self.len -= 1;
        }
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.blocks.len() * DUPS_PER_BLOCK * size_of::<Option<Dup>>() + self.free.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survives_packing<S: FileSlot + std::fmt::Debug>(entry_bits: u32, last: Reference) {
        let home = (1 << S::HOME_BITS) - 1;
        for reference in [
            Reference::Base(WeuId(0), 0),
            Reference::Base(WeuId(1), (1 << entry_bits) - 1),
            last,
            Reference::Dup(0),
            Reference::Dup(u32::MAX - 1),
        ] {
            let slot = S::new(home, reference, entry_bits);
            assert_eq!((slot.reference(entry_bits), slot.home()), (reference, home));
            assert_ne!(slot, S::EMPTY);
        }
        assert_eq!(S::EMPTY.home(), home);
    }

    #[test]
    fn references_survive_packing() {
        survives_packing::<WideSlot>(13, Reference::Base(WeuId(WeuId::COUNT_MAX - 1), 8191));
        for entry_bits in 10..=13 {
            let weu = (1u32 << (ADDRESS_BITS - entry_bits)).min(WeuId::COUNT_MAX) - 1;
            survives_packing::<LeanSlot>(entry_bits, Reference::Base(WeuId(weu), (1 << entry_bits) - 1));
        }
    }

    #[test]
    fn dups_stay_within_their_bound() {
        let mut dups = Dups::new(3);
        for n in 0..10 {
            if let Some(victim) = dups.victim(|_| false) {
                dups.remove(victim);
            }
            dups.insert(Dup::new(ExtentKey::from_raw(n), WeuId(n as u32), 5, Generation(1)));
            assert!(dups.len() <= 3);
        }
    }
}
