//! The base entries of one WEU slot, 12 bytes each; once the unit is closed, a lean index keeps them [packed](Packed).

use super::bits::Bits;
use super::layout::{Position, Stored};
use super::packed::{Entry, Packed, Place};
use nitro_units::ExtentKey;

/// The entries, in the order in which their extents were stored.
#[derive(Debug, Default)]
pub(super) struct Entries {
    list: List,
    /// Whether the extent of an entry is stored as it is.
    raw: Bits,
}

#[derive(Debug)]
enum List {
    Plain(Vec<BaseEntry>),
    Packed(Packed),
}

impl Default for List {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

#[derive(Debug, Clone, Copy)]
struct BaseEntry {
    /// The two halves of the key: with a `u64`, the entry would be aligned to 8 bytes and take 16.
    key: [u32; 2],
    /// A packed [`Position`]. For an extent stored as it is, its checksum: the position follows from the number of such
    /// extents before it.
    place: u32,
}

impl BaseEntry {
    fn key(&self) -> ExtentKey {
        ExtentKey::from_raw(u64::from(self.key[1]) << 32 | u64::from(self.key[0]))
    }
}

impl Entries {
    /// Adds an entry, before the unit is [closed](Self::close).
    pub(super) fn push(&mut self, key: ExtentKey, position: Position, stored: Stored) {
        let List::Plain(list) = &mut self.list else {
            debug_assert!(false, "the unit is closed");
            return;
        };
        let place = match stored {
            Stored::Raw { crc, .. } => {
                self.raw.set(list.len() as u16);
                crc
            }
            Stored::Zero | Stored::Packed(_) => position.to_bits(),
        };
        list.push(BaseEntry { key: [key.raw() as u32, (key.raw() >> 32) as u32], place });
    }

    pub(super) fn len(&self) -> usize {
        match &self.list {
            List::Plain(list) => list.len(),
            List::Packed(packed) => packed.len(),
        }
    }

    pub(super) fn key(&self, entry: u16) -> Option<ExtentKey> {
        match &self.list {
            List::Plain(list) => list.get(usize::from(entry)).map(BaseEntry::key),
            List::Packed(packed) => packed.key(entry),
        }
    }

    /// The position of an entry's extent, and its checksum if it is stored as it is.
    pub(super) fn place(&self, entry: u16, weu_bytes: u32, extent_bytes: u32) -> Option<(Position, Option<u32>)> {
        let is_raw = self.raw.has(entry);
        let raws = if is_raw { self.raw.count_upto(entry) } else { 0 };
        let place = match &self.list {
            List::Plain(list) => {
                let place = list.get(usize::from(entry))?.place;
                if is_raw { Place::Raw(place) } else { Place::Packed(Position::from_bits(place)) }
            }
            List::Packed(packed) if is_raw => Place::Raw(packed.checksum(raws - 1)),
            List::Packed(packed) => Place::Packed(packed.position(entry)?),
        };
        Some(match place {
            Place::Packed(position) => (position, None),
            Place::Raw(crc) => (Position::new(weu_bytes - raws * extent_bytes, extent_bytes), Some(crc)),
        })
    }

    /// Gives back the room for further entries, and packs them if `packs`. The lists are copied: one that is shortened where
    /// it is leaves a hole behind it, which is too small for the list of the next unit.
    pub(super) fn close(&mut self, packs: bool) {
        self.raw.shrink_to_fit();
        let List::Plain(list) = &self.list else { return };
        let entry = |(number, entry): (u16, &BaseEntry)| {
            let place = match self.raw.has(number) {
                true => Place::Raw(entry.place),
                false => Place::Packed(Position::from_bits(entry.place)),
            };
            Entry { key: entry.key(), place }
        };
        let packed = packs.then(|| Packed::new(&(0..).zip(list).map(entry).collect::<Vec<_>>())).flatten();
        self.list = match packed {
            Some(packed) => List::Packed(packed),
            None => List::Plain(list.as_slice().to_vec()),
        };
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let list = match &self.list {
            List::Plain(list) => list.capacity() * size_of::<BaseEntry>(),
            List::Packed(packed) => packed.ram_bytes(),
        };
        list + self.raw.ram_bytes()
    }
}

const _: () = assert!(size_of::<BaseEntry>() == 12);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weu::layout::Fill;
    use proptest::prelude::*;

    const WEU_BYTES: u32 = 2 << 20;
    const EXTENT_BYTES: u32 = 8192;

    fn check(entries: &Entries, model: &[(u64, Position, Option<u32>)]) {
        assert_eq!(entries.len(), model.len());
        for (number, (key, position, crc)) in (0u16..).zip(model) {
            assert_eq!(entries.key(number).map(ExtentKey::raw), Some(*key));
            assert_eq!(entries.place(number, WEU_BYTES, EXTENT_BYTES), Some((*position, *crc)), "entry {number}");
        }
        assert_eq!(
            (entries.key(model.len() as u16), entries.place(model.len() as u16, WEU_BYTES, EXTENT_BYTES)),
            (None, None)
        );
    }

    /// Keys as they occur: of a few objects, near one another or far apart; or of any.
    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![
            (0u64..3, 0u64..1 << 27).prop_map(|(object, index)| object << 48 | index),
            (0u64..1000).prop_map(|index| (7 << 48) | ((1 << 40) + index)),
            any::<u64>(),
        ]
    }

    proptest! {
        #[test]
        fn every_entry_is_found_where_it_was_put(
            all in prop::collection::vec((key(), 0u32..9000, any::<bool>(), any::<u32>(), 0u8..9), 0..300),
            kinds in 0u8..4,
            packs: bool,
        ) {
            let (mut fill, mut entries, mut model) = (Fill::new(WEU_BYTES, 2048), Entries::default(), Vec::new());
            for (key, bytes, raw, crc, align) in all {
                let stored = match bytes {
                    _ if raw && kinds != 1 => Stored::Raw { bytes: EXTENT_BYTES, crc },
                    0..1000 => Stored::Zero,
                    _ => Stored::Packed(bytes),
                };
                if align == 0 && kinds > 1 {
                    fill.align(4096);
                }
                let Some(position) = fill.take(stored, 0) else { continue };
                entries.push(ExtentKey::from_raw(key), position, stored);
                model.push((key, position, matches!(stored, Stored::Raw { .. }).then_some(crc)));
            }
            check(&entries, &model);
            entries.close(packs);
            prop_assert_eq!(matches!(entries.list, List::Packed(_)), packs);
            check(&entries, &model);
        }
    }

    #[test]
    fn packed_entries_take_few_bytes() {
        let mut random = 1u64;
        let mut fill = Fill::new(WEU_BYTES, 2048);
        let mut entries = Entries::default();
        for _ in 0..500 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            // A TiB of extents of 8 KiB, which shrink to 2 to 6 KiB.
            let stored = Stored::Packed(2048 + (random >> 20 & 0xFFF) as u32);
            let Some(position) = fill.take(stored, 0) else { break };
            entries.push(ExtentKey::from_raw(5 << 48 | random >> 37), position, stored);
        }
        entries.close(true);
        let each = entries.ram_bytes() as f64 / entries.len() as f64;
        assert!(entries.len() > 400 && each < 5.4, "{each} bytes an entry");
    }
}
