//! The keys and places of a unit's entries in few bits: what a [lean](crate::settings::IndexKind::Lean) index keeps of a unit
//! that is closed. Nothing is lost: each entry has the same key and the same place as in the list.
//!
//! - A key is the number of a *base*, the lowest key of its object in the unit, and the distance from it, each in as many
//!   bits as the unit needs: 27 for extents at random in a TiB of one volume.
//! - Packed extents follow one another, so that the offset of one is the sum of the lengths before it, from the *mark* of
//!   its group on. Where a gap is in between (dirty units are written in whole blocks), it is in a list.
//! - Of extents stored as they are, only the checksums are kept.

use super::layout::{HEAD_BYTES, Position, SECTOR_BYTES, UNIT_BYTES};
use nitro_units::ExtentKey;

/// Entries of one mark.
const GROUP: u16 = 32;
/// Bits of a mark: an offset within a unit of 8 MiB, in units of [`UNIT_BYTES`].
const MARK_BITS: u8 = 20;
const BASE_BITS: u8 = 64;
const GAP_BITS: u8 = 32;
const CHECKSUM_BITS: u8 = 32;
/// There are at least this many entries for each base; otherwise there is one base for all.
const ENTRIES_PER_BASE: usize = 8;

/// Equally wide numbers in an array of bits.
#[derive(Debug, Clone, Copy)]
struct Field {
    /// The first bit.
    at: u32,
    /// Bits of a number, at most 64.
    width: u8,
}

impl Field {
    /// The numbers behind `count` ones of this field.
    const fn behind(self, count: u32, width: u8) -> Self {
        Self { at: self.at + count * self.width as u32, width }
    }

    fn get(self, words: &[u64], number: usize) -> u64 {
        let (bit, width) = (self.at as usize + number * usize::from(self.width), u32::from(self.width));
        let (word, shift) = (bit / 64, (bit % 64) as u32);
        let of = |word: usize| words.get(word).copied().unwrap_or(0);
        let mut value = of(word) >> shift;
        if shift + width > 64 {
            value |= of(word + 1) << (64 - shift);
        }
        value & mask(width)
    }
}

const BASES: Field = Field { at: 0, width: BASE_BITS };

fn mask(width: u32) -> u64 {
    1u64.checked_shl(width).map_or(u64::MAX, |bit| bit - 1)
}

/// Bits of a number.
const fn bits_of(value: u64) -> u8 {
    (u64::BITS - value.leading_zeros()) as u8
}

/// An array of bits that is being written.
#[derive(Default)]
struct Writer {
    words: Vec<u64>,
    bits: usize,
}

impl Writer {
    /// Appends numbers of `width` bits.
    fn append(&mut self, width: u8, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            let (word, shift) = (self.bits / 64, (self.bits % 64) as u32);
            self.bits += usize::from(width);
            self.words.resize(self.bits.div_ceil(64), 0);
            if width > 0 {
                self.words[word] |= number << shift;
                if shift + u32::from(width) > 64 {
                    self.words[word + 1] |= number >> (64 - shift);
                }
            }
        }
    }
}

/// An entry to be packed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: ExtentKey,
    pub(super) place: Place,
}

/// The place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Behind those before it, or all zeroes.
    Packed(Position),
    /// Stored as it is, with this checksum.
    Raw(u32),
}

/// The entries. In `words` are, one behind the other:
/// - the bases, of 64 bits;
/// - the keys, each the number of a base above the distance from it;
/// - the lengths in units, 0 for extents stored as they are;
/// - the marks;
/// - the gaps, each the number of the entry before which it is above its length in units;
/// - the checksums.
#[derive(Debug)]
pub(super) struct Packed {
    words: Box<[u64]>,
    len: u16,
    base_count: u16,
    gap_count: u16,
    key_bits: u8,
    distance_bits: u8,
    length_bits: u8,
}

/// Where packed extents are.
#[derive(Default)]
struct Lengths {
    lengths: Vec<u64>,
    marks: Vec<u64>,
    gaps: Vec<u64>,
}

impl Lengths {
    /// `None`: they do not follow one another.
    fn of(entries: &[Entry]) -> Option<Self> {
        let mut all = Self::default();
        let packed = |entry: &Entry| match entry.place {
            Place::Packed(position) => Some(position),
            Place::Raw(_) => None,
        };
        let mut followers = entries.iter().filter_map(packed).skip(1);
        let mut next = HEAD_BYTES;
        for (number, entry) in entries.iter().enumerate() {
            let position = packed(entry);
            if let Some(position) = position.filter(|position| position.offset() != next) {
                let units = position.offset().checked_sub(next)? / UNIT_BYTES;
                all.gaps.push((number as u64) << 16 | u64::from(u16::try_from(units).ok()?));
                next = position.offset();
            }
            if number % usize::from(GROUP) == 0 {
                all.marks.push((next / UNIT_BYTES).into());
            }
            let length = position.map_or(0, |position| length(position, followers.next()));
            all.lengths.push((length / UNIT_BYTES).into());
            next += length;
        }
        Some(all)
    }
}

/// Bytes of a packed extent, as far as its sectors show them: up to the next one, or, if a gap follows, the fewest that take
/// as many sectors.
fn length(position: Position, next: Option<Position>) -> u32 {
    let until = next.and_then(|next| next.offset().checked_sub(position.offset()));
    let is_same = |bytes: &u32| Position::new(position.offset(), *bytes) == position;
    until.filter(is_same).unwrap_or_else(|| match u32::from(position.sectors()) {
        0 => 0,
        sectors => {
            ((sectors - 1) * SECTOR_BYTES + UNIT_BYTES).saturating_sub(position.offset() % SECTOR_BYTES).max(UNIT_BYTES)
        }
    })
}

/// The lowest key of each object, in order; if there are many objects, that of all.
fn bases_of(entries: &[Entry]) -> Vec<u64> {
    let mut keys: Vec<u64> = entries.iter().map(|entry| entry.key.raw()).collect();
    keys.sort_unstable();
    keys.dedup_by_key(|key| ExtentKey::from_raw(*key).object());
    if keys.len() * ENTRIES_PER_BASE > entries.len().max(ENTRIES_PER_BASE) {
        keys.truncate(1);
    }
    keys
}

impl Packed {
    /// `None`: the entries cannot be packed.
    pub(super) fn new(entries: &[Entry]) -> Option<Self> {
        let Lengths { lengths, marks, gaps } = Lengths::of(entries)?;
        let bases = bases_of(entries);
        let split = |entry: &Entry| {
            let key = entry.key.raw();
            let base = bases.partition_point(|base| *base <= key).saturating_sub(1);
            (base as u64, key - bases.get(base).copied().unwrap_or(key))
        };
        let distance_bits = entries.iter().map(|entry| bits_of(split(entry).1)).max().unwrap_or(0);
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let checksums = entries.iter().filter_map(|entry| match entry.place {
            Place::Raw(checksum) => Some(u64::from(checksum)),
            Place::Packed(_) => None,
        });
        let packed = Self {
            len: entries.len() as u16,
            gap_count: gaps.len() as u16,
            base_count: bases.len() as u16,
            key_bits: distance_bits + bits_of(bases.len().saturating_sub(1) as u64),
            distance_bits,
            length_bits: bits_of(longest),
            words: Box::default(),
        };
        let key = |entry| {
            let (base, distance) = split(entry);
            base.checked_shl(distance_bits.into()).unwrap_or(0) | distance
        };
        let mut writer = Writer::default();
        writer.append(BASE_BITS, bases.iter().copied());
        writer.append(packed.key_bits, entries.iter().map(key));
        writer.append(packed.length_bits, lengths.into_iter());
        writer.append(MARK_BITS, marks.into_iter());
        writer.append(GAP_BITS, gaps.into_iter());
        writer.append(CHECKSUM_BITS, checksums);
        Some(Self { words: writer.words.into(), ..packed })
    }

    const fn keys(&self) -> Field {
        Field { at: BASE_BITS as u32 * self.base_count as u32, width: self.key_bits }
    }

    const fn lengths(&self) -> Field {
        self.keys().behind(self.len as u32, self.length_bits)
    }

    const fn marks(&self) -> Field {
        self.lengths().behind(self.len as u32, MARK_BITS)
    }

    const fn gaps(&self) -> Field {
        self.marks().behind(self.len.div_ceil(GROUP) as u32, GAP_BITS)
    }

    const fn checksums(&self) -> Field {
        self.gaps().behind(self.gap_count as u32, CHECKSUM_BITS)
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn key(&self, entry: u16) -> Option<ExtentKey> {
        if entry >= self.len {
            return None;
        }
        let packed = self.keys().get(&self.words, entry.into());
        let base = packed.checked_shr(self.distance_bits.into()).unwrap_or(0);
        let distance = packed & mask(self.distance_bits.into());
        Some(ExtentKey::from_raw(BASES.get(&self.words, base as usize) + distance))
    }

    /// The checksum of the extent with this number among those that are stored as they are.
    pub(super) fn checksum(&self, number: u32) -> u32 {
        self.checksums().get(&self.words, number as usize) as u32
    }

    /// The position of an entry's extent, which is packed.
    pub(super) fn position(&self, entry: u16) -> Option<Position> {
        if entry >= self.len {
            return None;
        }
        let first = entry / GROUP * GROUP;
        let lengths = self.lengths();
        let length = |entry: u16| lengths.get(&self.words, entry.into()) as u32;
        let units: u32 = (first..entry).map(length).sum();
        let mark = self.marks().get(&self.words, (first / GROUP).into()) as u32;
        let offset = (mark + units + self.gaps_in(first, entry)) * UNIT_BYTES;
        Some(Position::new(offset, length(entry) * UNIT_BYTES))
    }

    /// The length of the gaps behind entry `first` and before `entry` and others in between, in units.
    fn gaps_in(&self, first: u16, entry: u16) -> u32 {
        let gaps = self.gaps();
        let gap = |number: u16| {
            let gap = gaps.get(&self.words, number.into());
            ((gap >> 16) as u16, gap as u16)
        };
        let (mut low, mut high) = (0, self.gap_count);
        while low < high {
            let middle = low + (high - low) / 2;
            if gap(middle).0 <= first { low = middle + 1 } else { high = middle }
        }
        (low..self.gap_count)
            .map(gap)
            .take_while(|(before, _)| *before <= entry)
            .map(|(_, units)| u32::from(units))
            .sum()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }
}
