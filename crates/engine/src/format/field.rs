//! Reading and writing fields one after the other.

use super::FormatError;

/// Takes fields off the front of a structure.
pub(super) struct Reader<'a> {
    structure: &'static str,
    all: usize,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(structure: &'static str, bytes: &'a [u8]) -> Self {
        Self { structure, all: bytes.len(), rest: bytes }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let need = self.all - self.rest.len() + N;
        let short = FormatError::Short { structure: self.structure, have: self.all, need };
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*field)
    }

    pub(super) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u32(&mut self) -> Result<u32, FormatError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, FormatError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) const fn refuse(&self, field: &'static str, value: u64) -> FormatError {
        FormatError::Field { structure: self.structure, field, value }
    }
}

/// Puts fields one after the other.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn put(&mut self, field: &[u8]) -> &mut Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }

    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&[value])
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }
}
