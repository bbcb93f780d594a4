//! Names for what all crates of Nitro speak of: objects, extents, write-evict units, fingerprints. Numbers with a type, no I/O.
#![forbid(unsafe_code)]

use std::fmt;

/// What is cached: a volume, file or snapshot, by the number the cache gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u16);

/// What kind of request it is, or what kind of data it is for: the classes of Differentiated Storage Services (SOSP 2011, §2), five
/// bits as the group number of SCSI commands (SBC-4). What a class means is for whoever configures the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ClassId(u8);

impl ClassId {
    /// Of requests that nobody classified.
    pub const UNCLASSIFIED: Self = Self(0);
    /// How many classes there are.
    pub const COUNT: usize = 32;

    /// The class of that number; `None`: there are only [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < Self::COUNT { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its number, to index with.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether somebody classified it.
    #[must_use]
    pub const fn is_classified(self) -> bool {
        self.0 != 0
    }

    /// All classes.
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
    /// Extent numbers have 48 bits: 2⁶⁰ bytes of object at the smallest extent.
    pub const MAX: Self = Self((1 << 48) - 1);
}

/// Names one extent: `(object, index)`, packed into 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtentKey(u64);

impl ExtentKey {
    /// Packs object and index.
    ///
    /// # Panics
    /// If the index is above [`ExtentIndex::MAX`]: the key would be that of another extent.
    #[must_use]
    pub const fn new(object: ObjectId, index: ExtentIndex) -> Self {
        assert!(index.0 <= ExtentIndex::MAX.0, "an extent's number has 48 bits");
        Self((object.0 as u64) << 48 | index.0)
    }

    /// The key whose packed form is `raw`; every value is a key.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The packed form, as it stands in a WEU's header.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The object.
    #[must_use]
    pub const fn object(self) -> ObjectId {
        ObjectId((self.0 >> 48) as u16)
    }

    /// The extent within the object.
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

/// The number of a write-evict unit, that is of its slot on the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WeuId(pub u32);

impl WeuId {
    /// WEU numbers have 24 bits: 32 TiB of SSD at 2 MiB each.
    pub const COUNT_MAX: u32 = 1 << 24;
}

/// How many times a WEU slot has been filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u32);

impl Generation {
    /// The next filling. Wraps; the cleaner sees to it that no entry is left from a lap before.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The hash of an extent's bytes: BLAKE3 (or SHA-1) of 160 bits. 128 of them are kept in RAM and compared.
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
