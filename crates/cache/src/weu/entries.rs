//! The base entries of one WEU slot, 12 bytes each.

use super::bits::Bits;
use super::layout::{Position, Stored};
use nitro_units::ExtentKey;

/// The entries, in the order in which their extents were stored.
#[derive(Debug, Default)]
pub(super) struct Entries {
    list: Vec<BaseEntry>,
    /// Whether the extent of an entry is stored as it is.
    raw: Bits,
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
    pub(super) fn push(&mut self, key: ExtentKey, position: Position, stored: Stored) {
        let place = match stored {
            Stored::Raw { crc, .. } => {
                self.raw.set(self.list.len() as u16);
                crc
            }
            Stored::Zero | Stored::Packed(_) => position.to_bits(),
        };
        self.list.push(BaseEntry { key: [key.raw() as u32, (key.raw() >> 32) as u32], place });
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn key(&self, entry: u16) -> Option<ExtentKey> {
        self.list.get(usize::from(entry)).map(BaseEntry::key)
    }

    /// The position of an entry's extent, and its checksum if it is stored as it is.
    pub(super) fn place(&self, entry: u16, weu_bytes: u32, extent_bytes: u32) -> Option<(Position, Option<u32>)> {
        let place = self.list.get(usize::from(entry))?.place;
        if !self.raw.has(entry) {
            return Some((Position::from_bits(place), None));
        }
        let position = Position::new(weu_bytes - self.raw.count_upto(entry) * extent_bytes, extent_bytes);
        Some((position, Some(place)))
    }

    /// Gives back the room for further entries. The lists are copied: one that is shortened where it is leaves a hole
    /// behind it, which is too small for the list of the next unit.
    pub(super) fn shrink_to_fit(&mut self) {
        self.list = self.list.as_slice().to_vec();
        self.raw.shrink_to_fit();
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.list.capacity() * size_of::<BaseEntry>() + self.raw.ram_bytes()
    }
}

const _: () = assert!(size_of::<BaseEntry>() == 12);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weu::layout::Fill;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_is_found_where_it_was_put(
            all in prop::collection::vec((any::<u64>(), 0u32..9000, any::<bool>(), any::<u32>()), 0..300),
        ) {
            let (weu_bytes, extent_bytes) = (2 << 20, 8192);
            let (mut fill, mut entries, mut model) = (Fill::new(weu_bytes, 2048), Entries::default(), Vec::new());
            for (key, bytes, raw, crc) in all {
                let stored = match bytes {
                    _ if raw => Stored::Raw { bytes: extent_bytes, crc },
                    0..1000 => Stored::Zero,
                    _ => Stored::Packed(bytes),
                };
                let Some(position) = fill.take(stored, 0) else { continue };
                entries.push(ExtentKey::from_raw(key), position, stored);
                model.push((key, position, raw.then_some(crc)));
            }
            entries.shrink_to_fit();
            prop_assert_eq!(entries.len(), model.len());
            for (number, (key, position, crc)) in (0u16..).zip(&model) {
                prop_assert_eq!(entries.key(number).map(ExtentKey::raw), Some(*key));
                prop_assert_eq!(entries.place(number, weu_bytes, extent_bytes), Some((*position, *crc)));
            }
            let past = model.len() as u16;
            prop_assert_eq!(entries.place(past, weu_bytes, extent_bytes), None);
                    }
    }
}
