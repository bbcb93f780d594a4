//! Names and numbers shared by all crates of Nitro, as types: objects, extents, write-evict units (WEUs), fingerprints.
//! No I/O.
#![forbid(unsafe_code)]

mod counter;
mod extents;

pub use counter::{Counted, Counter, Growth, Part};
pub use extents::ExtentRange;

/// The example of docs/adding-a-counter.md, which is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-counter.md")]
struct AddingACounter;

use std::fmt;

/// The number of a cached object (a volume, file or snapshot), assigned by the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u16);

/// The class of a request or of its data (Differentiated Storage Services, SOSP 2011, §2): five bits, as the group
/// number of SCSI commands (SBC-4). The meaning of a class is set by the administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClassId(u8);

impl ClassId {
    /// The class of requests that are not classified.
    pub const UNCLASSIFIED: Self = Self(0);
    /// The number of classes.
    pub const COUNT: usize = 32;

    /// The class with this number; `None` if the number is not below [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// The class as a number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The class as an index into an array of [`COUNT`](Self::COUNT) items.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is not [`UNCLASSIFIED`](Self::UNCLASSIFIED).
    #[must_use]
    pub const fn is_classified(self) -> bool {
        self.0 != 0
    }

    /// All classes, in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of an extent within its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentIndex(pub u64);

impl ExtentIndex {
    /// The largest extent number: 48 bits, which is 2⁶⁰ bytes of an object with the smallest extents (4 KiB).
    pub const MAX: Self = Self((1 << 48) - 1);

    /// The next extent.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The offset of its first byte in the object.
    #[must_use]
    pub const fn offset(self, extent_bytes: u64) -> u64 {
        self.0 * extent_bytes
    }
}

/// The key of an extent: `(object, index)`, packed into 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentKey(u64);

impl ExtentKey {
    /// Packs an object and an extent's number.
    ///
    /// # Panics
    /// If the index is above [`ExtentIndex::MAX`]: the key would be that of another extent.
    #[must_use]
    pub const fn new(object: ObjectId, index: ExtentIndex) -> Self {
        assert!(index.0 <= ExtentIndex::MAX.0, "an extent's number has 48 bits");
        Self((object.0 as u64) << 48 | index.0)
    }

    /// The key whose packed form is `raw`. Every value is a key.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The packed form: the object in the upper 16 bits, the extent's number in the lower 48. WEU headers store it.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The object of the extent.
    #[must_use]
    pub const fn object(self) -> ObjectId {
        ObjectId((self.0 >> 48) as u16)
    }

    /// The number of the extent within its object.
    #[must_use]
    pub const fn index(self) -> ExtentIndex {
        ExtentIndex(self.0 & ExtentIndex::MAX.0)
    }
}

impl fmt::Debug for ExtentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.object().0, self.index().0)
    }
}

/// The number of a WEU's slot on the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeuId(pub u32);

impl WeuId {
    /// The number of different WEU numbers: 24 bits, which is 32 TiB of SSD with WEUs of 2 MiB.
    pub const COUNT_MAX: u32 = 1 << 24;
}

/// The number of the current filling of a WEU slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u32);

impl Generation {
    /// The generation of the next filling. It wraps; the cleaner removes all entries of a generation before its number
    /// recurs.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The hash of an extent's bytes: the first 160 bits of BLAKE3, or SHA-1. The cache keeps and compares 128 of them in
/// RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 20]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_extent_of_an_object_keeps_its_number() {
        let key = ExtentKey::new(ObjectId(7), ExtentIndex::MAX);
        assert_eq!((key.object(), key.index()), (ObjectId(7), ExtentIndex::MAX));
    }

    #[test]
    #[should_panic(expected = "48 bits")]
    fn an_extent_behind_the_last_does_not_become_another() {
        let _ = ExtentKey::new(ObjectId(7), ExtentIndex(ExtentIndex::MAX.0 + 1));
    }
}
