//! Reading and writing the fields of a structure in order.

use crate::FormatError;

/// Reads the fields of a structure from its bytes, in order.
#[derive(Debug)]
pub struct Reader<'a> {
    structure: &'static str,
    all: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`; `structure` is the name used in errors.
    pub const fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Self { structure, all: bytes.len(), rest: bytes }
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// [`FormatError::Short`] if fewer bytes are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let need = self.all - self.rest.len() + N;
        let short = FormatError::Short { structure: self.structure, have: self.all, need };
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*field)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// [`FormatError::Short`] if no byte is left.
    pub fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    /// Reads a 32-bit number.
    ///
    /// # Errors
    /// [`FormatError::Short`] if fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a 64-bit number.
    ///
    /// # Errors
    /// [`FormatError::Short`] if fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }

    /// The error for a field with an invalid value.
    pub const fn refuse(&self, field: &'static str, value: u64) -> FormatError {
        FormatError::Field { structure: self.structure, field, value }
    }
}

/// Writes the fields of a structure into its bytes, in order.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// A writer that starts at the first byte.
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Writes bytes.
    ///
    /// # Panics
    /// If fewer bytes are left, as all methods do.
    pub fn put(&mut self, field: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    /// Writes one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    /// Writes a 32-bit number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    /// Writes a 64-bit number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
}

/// The 16-bit number at offset `at`; 0 if the slice ends before it.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

/// The 32-bit number at offset `at`; 0 if the slice ends before it.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The 64-bit number at offset `at`; 0 if the slice ends before it.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}
