//! One request of a trace.

use crate::Problem;
use nitro_units::{ClassId, Fingerprint};

/// Bytes of a sector, the unit in which most formats count.
pub const SECTOR_BYTES: u64 = 512;

/// Offsets and ends are below this, so that they fit Parquet's signed integers.
const END_MAX: u64 = i64::MAX as u64;

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Op {
    /// Read.
    #[default]
    Read,
    /// Write.
    Write,
    /// Discard, unmap.
    Trim,
    /// Make what was written durable; has no length.
    Flush,
    /// Whatever the trace does not tell.
    Other,
}

impl Op {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Trim, Self::Flush, Self::Other];

    /// One lower-case word, as in the Parquet format.
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

    /// The operation of that word, in any of the spellings that traces use, or `None`.
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

/// One request. Readers fill the same one again and again, so that its list of fingerprints is allocated once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Nanoseconds since the trace's own beginning of time: the Unix epoch where the format says so; 0 where it has no
    /// times. May go back from one request to the next.
    pub time_ns: u64,
    /// What is asked for.
    pub op: Op,
    /// The volume, disk or file, by a number of the trace's own.
    pub object: u32,
    /// First byte within the object.
    pub offset: u64,
    /// Bytes; `offset + len` is at most `i64::MAX`. Reads and writes are shorter than 4 GiB.
    pub len: u64,
    /// What kind of request it is; unclassified where the trace does not tell.
    pub class: ClassId,
    /// Bytes that each of `fingerprints` stands for; 0 where there are none.
    pub block_bytes: u32,
    /// Fingerprints of the request's successive blocks, from `offset` on: none, or as many as there are blocks. MD5
    /// digests (128 bits) are padded with zeroes.
    pub fingerprints: Vec<Fingerprint>,
    /// What the request's bytes take after compression, where that is known.
    pub compressed_bytes: Option<u32>,
}

impl Request {
    /// Prepares for the next record: no content, no operation.
    pub(crate) fn clear(&mut self) {
        let mut fingerprints = std::mem::take(&mut self.fingerprints);
        fingerprints.clear();
        *self = Self { fingerprints, ..Self::default() };
    }

    /// The byte behind the last.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// The numbers of the blocks of `block_bytes` that the request touches.
    ///
    /// # Panics
    /// When `block_bytes` is 0.
    #[must_use]
    pub const fn blocks(&self, block_bytes: u64) -> std::ops::Range<u64> {
        let first = self.offset / block_bytes;
        first..if self.len == 0 { first } else { self.end().div_ceil(block_bytes) }
    }

    /// The fingerprints with the offset of each one's block.
    pub fn prints(&self) -> impl Iterator<Item = (u64, &Fingerprint)> {
        let step = u64::from(self.block_bytes);
        self.fingerprints.iter().enumerate().map(move |(number, print)| (self.offset + number as u64 * step, print))
    }

    /// Takes offset and length in `unit`s of bytes, as every reader does.
    pub(crate) fn place(&mut self, offset: u64, offset_unit: u64, len: u64, len_unit: u64) -> Result<(), Problem> {
        self.offset =
            offset.checked_mul(offset_unit).filter(|&at| at <= END_MAX).ok_or(Problem::new("offset", "too large"))?;
        self.len = len.checked_mul(len_unit).ok_or(Problem::new("size", "too large"))?;
        self.check()
    }

    /// Checks what the fields' documentation promises.
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
