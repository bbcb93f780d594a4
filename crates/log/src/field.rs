//! Reading and writing fields one after the other.

use crate::FormatError;

/// Takes fields off the front of a structure.
#[derive(Debug)]
pub struct Reader<'a> {
    structure: &'static str,
    all: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of the structure of that name.
    pub const fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Self { structure, all: bytes.len(), rest: bytes }
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`FormatError::Short`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let need = self.all - self.rest.len() + N;
        let short = FormatError::Short { structure: self.structure, have: self.all, need };
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*field)
    }

    /// The next byte.
    ///
    /// # Errors
    /// [`FormatError::Short`].
    pub fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// [`FormatError::Short`].
    pub fn u32(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// [`FormatError::Short`].
    pub fn u64(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }

    /// That a field cannot have that value.
    pub const fn refuse(&self, field: &'static str, value: u64) -> FormatError {
        FormatError::Field { structure: self.structure, field, value }
    }
}

/// Puts fields one after the other.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// A writer from the first byte on.
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Puts bytes.
    ///
    /// # Panics
    /// If there is no room, as the others do.
    pub fn put(&mut self, field: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    /// Puts a byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    /// Puts four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Puts eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
}

/// The number of two bytes at `at`; 0: there are none.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

/// The number of four bytes at `at`; 0: there are none.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The number of eight bytes at `at`; 0: there are none.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}
