//! Sizes of keys and values.

use crate::{Error, PAGE_BYTES};

/// Sizes of an index's keys and values, the same for all its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a key: 8 to 64.
    pub key_bytes: u8,
    /// Bytes of a value: 0 to 1024.
    pub value_bytes: u16,
}

impl Shape {
    /// The valid sizes of a key.
    pub const KEY_BYTES: std::ops::RangeInclusive<u8> = 8..=64;
    /// The maximum size of a value; three entries fit into a page.
    pub const VALUE_BYTES_MAX: u16 = 1024;

    /// Checks the sizes.
    ///
    /// # Errors
    /// [`Error::Setting`] with the size that is not valid, and the nearest valid one.
    pub fn new(key_bytes: u8, value_bytes: u16) -> Result<Self, Error> {
        if !Self::KEY_BYTES.contains(&key_bytes) {
            let nearest = key_bytes.clamp(*Self::KEY_BYTES.start(), *Self::KEY_BYTES.end()).into();
            let why = "keys have 8 to 64 bytes".to_owned();
            return Err(Error::Setting { what: "key bytes", given: key_bytes.into(), why, nearest });
        }
        if value_bytes > Self::VALUE_BYTES_MAX {
            let why = "values have 1024 bytes at most".to_owned();
            let nearest = Self::VALUE_BYTES_MAX.into();
            return Err(Error::Setting { what: "value bytes", given: value_bytes.into(), why, nearest });
        }
        Ok(Self { key_bytes, value_bytes })
    }

    /// Bytes of a key and its value.
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        usize::from(self.key_bytes) + usize::from(self.value_bytes)
    }

    /// Splits an entry into its key and its value.
    #[must_use]
    pub fn split<'a>(&self, entry: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        entry.split_at(self.key_bytes.into())
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        let wanted = usize::from(self.key_bytes);
        if key.len() == wanted { Ok(()) } else { Err(Error::KeySize { given: key.len(), wanted }) }
    }

    pub(crate) fn check(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.check_key(key)?;
        let wanted = usize::from(self.value_bytes);
        if value.len() == wanted { Ok(()) } else { Err(Error::ValueSize { given: value.len(), wanted }) }
    }
}

/// The number of entries that an index is to hold, their sizes, and the RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Sizes of keys and values.
    pub shape: Shape,
    /// Minimum number of entries that it holds before the oldest are discarded, or before it is full.
    pub entries: u64,
    /// RAM that it may use, in bytes.
    pub ram_bytes: u64,
}

const _: () = assert!((Shape::VALUE_BYTES_MAX as usize + 64) * 3 < PAGE_BYTES);
