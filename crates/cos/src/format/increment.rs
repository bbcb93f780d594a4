//! An increment: a stream that makes a volume from another one with a certain content. It is a header, records in the order of
//! their offsets, and the end.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `NITROINC` |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | bytes of a chunk |
//! | 16 | 8 | bytes of the volume, which is as large as its base |
//! | 24 | 20 | the base's content: fingerprint of its recipe's root (zero: all zeroes) |
//! | 44 | 20 | the volume's content |
//! | 64 | 1 | levels of the base's recipe |
//! | 65 | 1 | levels of the volume's recipe |
//! | 66 | 1 | bytes of the base's name |
//! | 67 | 1 | bytes of the volume's name |
//! | 68 | | the base's name, the volume's name, and CRC-32C of everything before (4) |
//!
//! Names are hints for people; the base is recognised by its content.
//!
//! | offset | bytes | field of a record |
//! |---|---|---|
//! | 0 | 8 | offset in the volume, a multiple of a chunk; in the end: all ones |
//! | 8 | 4 | bytes of the volume, at most 1 MiB; in the end: 0 |
//! | 12 | 4 | bytes of the payload; 0: zeroes |
//! | 16 | 1 | encoding of the payload: 0 raw, 1 LZ4, 2 Zstandard |
//! | 17 | 3 | reserved, zero |
//! | 20 | 4 | CRC-32C of the header's checksum (4), the record's number from 0 on (8), these first 20 bytes, and the payload |
//! | 24 | | payload |

use super::{u32_at, u64_at};
use crate::format::record::Root;
use bytes::Bytes;
use nitro_log::{FormatError, crc32c};
use nitro_port::codec::{Encoding, decode};
use nitro_units::Fingerprint;

const MAGIC: [u8; 8] = *b"NITROINC";
const VERSION: u32 = 1;
/// Bytes of the header before the names.
const FIXED_BYTES: usize = 68;
const RECORD_BYTES: usize = 24;
/// The maximum number of bytes of a volume in one record.
pub(crate) const RAW_BYTES_MAX: u32 = 1 << 20;
/// The offset in the end.
const END: u64 = u64::MAX;
const STRUCTURE: &str = "header of an increment";
const RECORD: &str = "record of an increment";

/// The content of a volume: the fingerprint of its recipe's root, and the levels of the recipe. `None`: all zeroes.
pub(crate) type Content = Option<(Fingerprint, u8)>;

/// The content with this root.
pub(crate) fn content_of(root: Option<Root>) -> Content {
    root.map(|root| (root.reference.fingerprint, root.levels))
}

/// What an increment is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncrementHead {
    pub(crate) chunk_bytes: u32,
    pub(crate) size_bytes: u64,
    pub(crate) base: Content,
    pub(crate) content: Content,
    /// The name that the base had.
    pub base_name: String,
    /// The name that the volume had.
    pub name: String,
}

/// A part of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncrementPart {
    /// The offset in the volume.
    pub offset: u64,
    /// The length in bytes.
    pub len: u32,
    /// The content; `None`: zeroes.
    pub data: Option<Bytes>,
}

fn put_content(out: &mut [u8], content: &Content) {
    out.copy_from_slice(&content.map_or([0; 20], |(fingerprint, _)| fingerprint.0));
}

impl IncrementHead {
    /// The size of the volume in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; FIXED_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.chunk_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.size_bytes.to_le_bytes());
        put_content(&mut out[24..44], &self.base);
        put_content(&mut out[44..64], &self.content);
        let levels = [self.base, self.content].map(|content| content.map_or(0, |(_, levels)| levels));
        out[64..66].copy_from_slice(&levels);
        // Names have at most 255 bytes.
        let names = [&self.base_name, &self.name];
        out[66..68].copy_from_slice(&names.map(|name| name.len() as u8));
        names.iter().for_each(|name| out.extend_from_slice(name.as_bytes()));
        out.extend_from_slice(&crc32c(&out).to_le_bytes());
        out
    }

    /// The number of bytes of a header that begins with `fixed`, [`IncrementReader::FIRST_BYTES`] long.
    fn len(fixed: &[u8]) -> Result<usize, FormatError> {
        let [.., base, name] = *fixed else { return Err(FormatError::Magic { structure: STRUCTURE }) };
        if fixed.len() != FIXED_BYTES || fixed[..8] != MAGIC {
            return Err(FormatError::Magic { structure: STRUCTURE });
        }
        match u32_at(fixed, 8) {
            VERSION => Ok(FIXED_BYTES + usize::from(base) + usize::from(name) + 4),
            found => Err(FormatError::Version { found, known: VERSION }),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let refuse = |field, value| FormatError::Field { structure: STRUCTURE, field, value };
        let (fixed, names) = bytes.split_at_checked(FIXED_BYTES).ok_or(refuse("length", bytes.len() as u64))?;
        let end = Self::len(fixed)?.checked_sub(4).filter(|end| *end + 4 == bytes.len());
        let end = end.ok_or(refuse("length", bytes.len() as u64))?;
        if crc32c(&bytes[..end]) != u32_at(bytes, end) {
            return Err(FormatError::Checksum { structure: STRUCTURE });
        }
        let (chunk_bytes, size_bytes) = (u32_at(fixed, 12), u64_at(fixed, 16));
        if !crate::StoreOptions::CHUNK_BYTES.contains(&chunk_bytes) || !chunk_bytes.is_power_of_two() {
            return Err(refuse("bytes of a chunk", chunk_bytes.into()));
        }
        // The end of its last chunk has a number.
        if size_bytes > i64::MAX as u64 {
            return Err(refuse("bytes of the volume", size_bytes));
        }
        let content = |at: usize, levels: u8| {
            let mut fingerprint = Fingerprint([0; 20]);
            fingerprint.0.copy_from_slice(&fixed[at..at + 20]);
            match (fingerprint.0 == [0; 20], levels) {
                (true, 0) => Ok(None),
                (false, 1..=8) => Ok(Some((fingerprint, levels))),
                _ => Err(refuse("levels", levels.into())),
            }
        };
        let (base, content) = (content(24, fixed[64])?, content(44, fixed[65])?);
        let (base_name, name) = names[..end - FIXED_BYTES].split_at(usize::from(fixed[66]));
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).map_err(|_| refuse("name", 0));
        Ok(Self { chunk_bytes, size_bytes, base, content, base_name: text(base_name)?, name: text(name)? })
    }
}

/// The checksum of a record.
fn sum(of_header: u32, number: u64, head: &[u8], payload: &[u8]) -> u32 {
    crc32c(&[&of_header.to_le_bytes()[..], &number.to_le_bytes(), &head[..20], payload].concat())
}

/// Encodes the records of an increment, in order.
#[derive(Debug)]
pub struct IncrementWriter {
    of_header: u32,
    number: u64,
}

impl IncrementWriter {
    /// For the records behind a header, as it was encoded.
    #[must_use]
    pub fn new(header: &[u8]) -> Self {
        Self { of_header: u32_at(header, header.len().saturating_sub(4)), number: 0 }
    }

    fn record(&mut self, (offset, len): (u64, u32), encoding: Encoding, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_BYTES + payload.len());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&[encoding as u8, 0, 0, 0]);
        let sum = sum(self.of_header, self.number, &out, payload);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(payload);
        self.number += 1;
        out
    }

    /// Encodes a part of the volume of `len` bytes, at most 1 MiB, with its compressed content; an empty one: zeroes.
    #[must_use]
    pub fn part(&mut self, offset: u64, len: u32, (encoding, payload): (Encoding, &[u8])) -> Vec<u8> {
        self.record((offset, len), encoding, payload)
    }

    /// Encodes the end.
    #[must_use]
    pub fn end(&mut self) -> Vec<u8> {
        self.record((END, 0), Encoding::Raw, &[])
    }
}

/// Decodes an increment, from pieces of the lengths that it asks for.
#[derive(Debug, Default)]
pub struct IncrementReader {
    of_header: u32,
    number: u64,
    chunk_bytes: u32,
    size_bytes: u64,
    /// The end of the last part.
    reached: u64,
}

impl IncrementReader {
    /// The length of the first piece.
    pub const FIRST_BYTES: usize = FIXED_BYTES;
    /// The length of the first piece of a record.
    pub const RECORD_BYTES: usize = RECORD_BYTES;

    /// Whether something begins as an increment does.
    #[must_use]
    pub fn is_one(start: &[u8]) -> bool {
        start.starts_with(&MAGIC)
    }

    /// The length of the rest of the header that begins with `first`.
    ///
    /// # Errors
    /// It is no increment, or one of a later version.
    pub fn rest_of_head(first: &[u8]) -> Result<usize, FormatError> {
        IncrementHead::len(first).map(|len| len - FIXED_BYTES)
    }

    /// Decodes the header, from its two pieces in one.
    ///
    /// # Errors
    /// It is damaged.
    pub fn head(&mut self, bytes: &[u8]) -> Result<IncrementHead, FormatError> {
        let head = IncrementHead::decode(bytes)?;
        self.of_header = u32_at(bytes, bytes.len() - 4);
        (self.chunk_bytes, self.size_bytes) = (head.chunk_bytes, head.size_bytes);
        Ok(head)
    }

    /// The length of the payload of the record that begins with `first`.
    ///
    /// # Errors
    /// It is damaged, or not behind the records before it.
    pub fn rest_of_record(&self, first: &[u8]) -> Result<usize, FormatError> {
        let refuse = |field, value| FormatError::Field { structure: RECORD, field, value };
        if first.len() != RECORD_BYTES {
            return Err(refuse("length", first.len() as u64));
        }
        let (offset, len, stored) = (u64_at(first, 0), u32_at(first, 8), u32_at(first, 12));
        if offset == END && len == 0 && stored == 0 {
            return Ok(0);
        }
        let end = offset.checked_add(len.into()).filter(|end| *end <= self.size_bytes);
        let end = end.ok_or(refuse("offset", offset))?;
        if !offset.is_multiple_of(self.chunk_bytes.max(1).into()) || offset < self.reached {
            return Err(refuse("offset", offset));
        }
        let is_whole = len.is_multiple_of(self.chunk_bytes.max(1)) || end == self.size_bytes;
        if len == 0 || len > RAW_BYTES_MAX || !is_whole {
            return Err(refuse("bytes of the volume", len.into()));
        }
        if stored > len {
            return Err(refuse("bytes of the payload", stored.into()));
        }
        Ok(stored as usize)
    }

    /// Decodes a record from its two pieces; `None`: the end.
    ///
    /// # Errors
    /// It is damaged.
    pub fn record(&mut self, first: &[u8], payload: Bytes) -> Result<Option<IncrementPart>, FormatError> {
        let stored = self.rest_of_record(first)?;
        let is_right =
            payload.len() == stored && sum(self.of_header, self.number, first, &payload) == u32_at(first, 20);
        if !is_right {
            return Err(FormatError::Checksum { structure: RECORD });
        }
        self.number += 1;
        let (offset, len) = (u64_at(first, 0), u32_at(first, 8));
        if offset == END {
            return Ok(None);
        }
        self.reached = offset + u64::from(len);
        let refuse = |value: u8| FormatError::Field { structure: RECORD, field: "encoding", value: value.into() };
        let encoding = Encoding::from_number(first[16]).ok_or(refuse(first[16]))?;
        let data = match stored {
            0 => None,
            _ => Some(decode(encoding, payload, len as usize).ok_or(refuse(first[16]))?),
        };
        Ok(Some(IncrementPart { offset, len, data }))
    }
}

/// Writes right checksums into an increment, as far as its lengths make sense; for fuzzing.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let Some(fixed) = bytes.get_mut(..FIXED_BYTES) else { return };
    fixed[..8].copy_from_slice(&MAGIC);
    fixed[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let Ok(len) = IncrementHead::len(fixed) else { return };
    if bytes.len() < len {
        return;
    }
    let of_header = crc32c(&bytes[..len - 4]);
    bytes[len - 4..len].copy_from_slice(&of_header.to_le_bytes());
    let (mut at, mut number) = (len, 0);
    while let Some(first) = bytes.get(at..at + RECORD_BYTES) {
        let stored = u32_at(first, 12) as usize;
        let end = at + RECORD_BYTES + stored;
        let Some(payload) = bytes.get(at + RECORD_BYTES..end) else { return };
        let sum = sum(of_header, number, first, payload);
        bytes[at + 20..at + 24].copy_from_slice(&sum.to_le_bytes());
        (at, number) = (end, number + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u32 = 4096;

    fn an_increment() -> (IncrementHead, Vec<IncrementPart>, Vec<u8>) {
        let head = IncrementHead {
            chunk_bytes: CHUNK,
            size_bytes: 10 * u64::from(CHUNK) + 7,
            base: None,
            content: Some((Fingerprint([3; 20]), 1)),
            base_name: "müller@1".to_owned(),
            name: "müller@2".to_owned(),
        };
        let part = |offset, len, data: Option<u8>| IncrementPart {
            offset,
            len,
            data: data.map(|byte| vec![byte; len as usize].into()),
        };
        let parts = vec![
            part(0, CHUNK, Some(1)),
            part(2 * u64::from(CHUNK), 3 * CHUNK, None),
            part(9 * u64::from(CHUNK), CHUNK + 7, Some(2)),
        ];
        let mut bytes = head.encode();
        let mut writer = IncrementWriter::new(&bytes);
        for IncrementPart { offset, len, data } in &parts {
            let data = data.clone().unwrap_or_default();
            bytes.extend(writer.part(*offset, *len, (Encoding::Raw, &data)));
        }
        bytes.extend(writer.end());
        (head, parts, bytes)
    }

    /// What an increment consists of, and the bytes behind it; an error if it is damaged or cut off.
    fn read(bytes: &[u8]) -> Result<(IncrementHead, Vec<IncrementPart>, usize), FormatError> {
        let short = FormatError::Short { structure: RECORD, have: bytes.len(), need: bytes.len() + 1 };
        let take = |at: usize, len: usize| bytes.get(at..at + len).ok_or(short);
        let mut reader = IncrementReader::default();
        let mut at = FIXED_BYTES + IncrementReader::rest_of_head(take(0, FIXED_BYTES)?)?;
        let head = reader.head(take(0, at)?)?;
        let mut parts = Vec::new();
        loop {
            let first = take(at, RECORD_BYTES)?;
            let rest = reader.rest_of_record(first)?;
            let payload = Bytes::copy_from_slice(take(at + RECORD_BYTES, rest)?);
            at += RECORD_BYTES + rest;
            match reader.record(first, payload)? {
                Some(part) => parts.push(part),
                None => return Ok((head, parts, bytes.len() - at)),
            }
        }
    }

    #[test]
    fn an_increment_comes_back_and_no_bit_or_record_is_missed() {
        let (head, parts, bytes) = an_increment();
        assert_eq!(read(&bytes).unwrap(), (head, parts, 0));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&bytes[..at]).is_err(), "{at} bytes");
        }
        // Without the record in the middle.
        let at = FIXED_BYTES + 18 + 4 + RECORD_BYTES + CHUNK as usize;
        let without = [&bytes[..at], &bytes[at + RECORD_BYTES..]].concat();
        assert_eq!(read(&without), Err(FormatError::Checksum { structure: RECORD }));
        let mut resealed = bytes.clone();
        reseal(&mut resealed);
        assert_eq!(resealed, bytes);
        let mut newer = bytes;
        newer[8] = 2;
        assert_eq!(read(&newer), Err(FormatError::Version { found: 2, known: 1 }));
    }
}
