//! The requests of a trace.

use crate::Problem;
use nitro_units::{ClassId, Fingerprint};

/// Bytes of a sector, the unit of most formats.
pub const SECTOR_BYTES: u64 = 512;

/// Upper limit of offsets and ends in bytes, so that they fit into Parquet's signed integers.
const END_MAX: u64 = i64::MAX as u64;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Op {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
    /// Discard, unmap.
    Trim,
    /// Make written data durable; usually without a length.
    Flush,
    /// Unknown: the trace does not contain the operation.
    Other,
}

impl Op {
    /// All operations, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Trim, Self::Flush, Self::Other];

    /// The operation as a lower-case word, as in the Parquet format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Flush => "flush",
            Self::Other => "other",
        }
    }

    /// Parses an operation in any of the spellings that traces use.
    #[must_use]
    pub const fn from_word(word: &[u8]) -> Option<Self> {
        let Some(first) = word.first() else { return None };
        match (first.to_ascii_lowercase(), word.len()) {
            (b'r', 1) => Some(Self::Read),
            (b'w', 1) => Some(Self::Write),
            (b'd' | b't', 1) => Some(Self::Trim),
            (b'f', 1) => Some(Self::Flush),
            (b'o', 1) => Some(Self::Other),
            (b'r', 4) if word.eq_ignore_ascii_case(b"read") => Some(Self::Read),
            (b'w', 5) if word.eq_ignore_ascii_case(b"write") => Some(Self::Write),
            (b't', 4) if word.eq_ignore_ascii_case(b"trim") => Some(Self::Trim),
            (b'd', 7) if word.eq_ignore_ascii_case(b"discard") => Some(Self::Trim),
            (b'u', 5) if word.eq_ignore_ascii_case(b"unmap") => Some(Self::Trim),
            (b'f', 5) if word.eq_ignore_ascii_case(b"flush") => Some(Self::Flush),
            (b'o', 5) if word.eq_ignore_ascii_case(b"other") => Some(Self::Other),
            _ => None,
        }
    }
}

/// A request. Readers fill the same one repeatedly, so that its list of fingerprints is allocated only once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Nanoseconds since an epoch of the trace: the Unix epoch if the format has absolute times; always 0 if it has no
    /// times. It may decrease from one request to the next.
    pub time_ns: u64,
    /// The operation.
    pub op: Op,
    /// The volume, disk or file, as a number within the trace.
    pub object: u32,
    /// The offset in the object, in bytes.
    pub offset: u64,
    /// The length in bytes; `offset + len` is at most `i64::MAX`. All requests but trims are shorter than 4 GiB.
    pub len: u64,
    /// The class of the request; unclassified if the trace does not contain it.
    pub class: ClassId,
    /// Bytes of the block of each of `fingerprints`; 0 if there are none.
    pub block_bytes: u32,
    /// Fingerprints of the request's successive blocks, from `offset` on: none, or as many as there are blocks. MD5
    /// digests (128 bits) are padded with zeroes.
    pub fingerprints: Vec<Fingerprint>,
    /// The compressed size of the request's data in bytes, if it is known.
    pub compressed_bytes: Option<u32>,
}

impl Request {
    /// Resets all fields to their defaults; keeps the allocation of the fingerprints.
    pub(crate) fn clear(&mut self) {
        let mut fingerprints = std::mem::take(&mut self.fingerprints);
        fingerprints.clear();
        *self = Self { fingerprints, ..Self::default() };
    }

    /// The offset of the end in bytes.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The numbers of the blocks of `block_bytes` that the request touches; empty if it has no length.
    ///
    /// # Panics
    /// `block_bytes` is 0.
    #[must_use]
    pub const fn blocks(&self, block_bytes: u64) -> std::ops::Range<u64> {
        let first = self.offset / block_bytes;
        first..if self.len == 0 { first } else { self.end().div_ceil(block_bytes) }
    }

    /// The fingerprints, each with the offset of its block in bytes.
    pub fn prints(&self) -> impl Iterator<Item = (u64, &Fingerprint)> {
        let step = u64::from(self.block_bytes);
        self.fingerprints.iter().enumerate().map(move |(number, print)| (self.offset + number as u64 * step, print))
    }

    /// Sets offset and length, which are given in units of `offset_unit` and `len_unit` bytes, and checks the request.
    pub(crate) fn place(&mut self, offset: u64, offset_unit: u64, len: u64, len_unit: u64) -> Result<(), Problem> {
        self.offset =
            offset.checked_mul(offset_unit).filter(|&at| at <= END_MAX).ok_or(Problem::new("offset", "too large"))?;
        self.len = len.checked_mul(len_unit).ok_or(Problem::new("size", "too large"))?;
        self.check()
    }

    /// Checks the conditions in the documentation of the fields.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        if self.offset.checked_add(self.len).is_none_or(|end| end > END_MAX) {
            return Err(Problem::new("size", "reaches past the last address"));
        }
        if self.len > u64::from(u32::MAX) && self.op != Op::Trim {
            return Err(Problem::new("size", "4 GiB or more"));
        }
        let prints = self.fingerprints.len() as u64;
        if prints > 0 && (self.block_bytes == 0 || self.len.div_ceil(self.block_bytes.into()) != prints) {
            return Err(Problem::new("fingerprint", "does not fit the size"));
        }
        Ok(())
    }
}
