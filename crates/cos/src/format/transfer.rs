//! What two stores say to each other while an object is sent: frames, numbered in each direction from 0 on.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | bytes of the payload, at most 1 MiB and 64 KiB |
//! | 4 | 1 | kind |
//! | 5 | 3 | reserved, zero |
//! | 8 | | payload |
//! | … | 4 | CRC-32C of the frame's number (8) and everything before |
//!
//! The sender says 1, 3, 5 and 6, the receiver 2, 4 and 7, and either of them 8:
//!
//! | kind | what | payload |
//! |---|---|---|
//! | 1 | offer | magic `NITROSND`, format version 1 (4), kind (1: 0 volume, 1 stream), levels of the recipe (1), reserved, zero (2), bytes of a chunk (4), bytes of the object (8), fingerprint of the recipe's root (20; zero: no content), name |
//! | 2 | position | offset in the object at which to begin (8) |
//! | 3 | list | offset of the first chunk (8); for each of at most 1024 chunks in order: fingerprint (20; zero: a hole), bytes (4) |
//! | 4 | lacks | offset of the list (8), one bit for each chunk of the list: the receiver lacks it |
//! | 5 | chunks | encoding (1: 0 raw, 1 LZ4, 2 Zstandard), reserved, zero (3), bytes when decoded (4), the next chunks that the receiver lacks of the first list of which it does, one after the other |
//! | 6 | end | |
//! | 7 | done | bytes by which the receiver's store grew (8) |
//! | 8 | failed | why, in words |

use super::{u32_at, u64_at};
use crate::format::increment::Content;
use crate::format::record::Kind;
use bytes::Bytes;
use nitro_log::{CHECKSUM_BYTES, FormatError, crc32c};
use nitro_port::codec::{Encoding, decode};
use nitro_units::Fingerprint;

const MAGIC: [u8; 8] = *b"NITROSND";
const VERSION: u32 = 1;
/// Bytes of a frame before its payload.
const HEAD_BYTES: usize = 8;
const PAYLOAD_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Bytes of an offer before the name.
const OFFER_BYTES: usize = 48;
const ENTRY_BYTES: usize = 24;
/// The maximum number of chunks in a list.
pub(crate) const LIST_MAX: usize = 1024;
/// The maximum number of decoded bytes in a frame.
pub(crate) const RAW_BYTES_MAX: usize = 1 << 20;
/// The maximum length of a name or a reason.
const TEXT_BYTES_MAX: usize = 1024;
const FRAME: &str = "frame of a transfer";

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub(crate) kind: Kind,
    pub(crate) chunk_bytes: u32,
    pub(crate) size_bytes: u64,
    pub(crate) content: Content,
    /// The name that the object has where it comes from.
    pub name: String,
}

/// A chunk of an object, or a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// `None`: a hole.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) bytes: u32,
}

/// Consecutive chunks of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    pub(crate) offset: u64,
    pub(crate) chunks: Vec<Listed>,
}

/// What one of the two says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// What is sent.
    Offer(Offer),
    /// Where the receiver wants to begin, in bytes.
    Position(u64),
    /// The fingerprints of chunks.
    List(List),
    /// Which chunks of the list that begins at an offset the receiver lacks.
    Lacks(u64, Vec<bool>),
    /// Chunks, one after the other, encoded.
    Chunks(Encoding, u32, Bytes),
    /// Everything was listed.
    End,
    /// The object is complete; with the bytes by which the store grew.
    Done(u64),
    /// The transfer has failed.
    Failed(String),
}

impl Offer {
    /// The size of the object in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// A number that says whether an unfinished transfer was one of the same content.
    pub(crate) fn token(&self) -> u64 {
        let mut of = self.clone();
        of.name.clear();
        super::checksum(&Message::Offer(of).payload().1, 0, 0)
    }
}

fn put_fingerprint(out: &mut Vec<u8>, fingerprint: Option<Fingerprint>) {
    out.extend_from_slice(&fingerprint.map_or([0; 20], |fingerprint| fingerprint.0));
}

fn fingerprint_at(bytes: &[u8], at: usize) -> Option<Fingerprint> {
    let found = bytes.get(at..at + 20)?.first_chunk::<20>()?;
    (*found != [0; 20]).then_some(Fingerprint(*found))
}

impl Message {
    fn payload(&self) -> (u8, Vec<u8>) {
        let mut out = Vec::new();
        let kind = match self {
            Self::Offer(offer) => {
                out.extend_from_slice(&MAGIC);
                out.extend_from_slice(&VERSION.to_le_bytes());
                let kind = u8::from(offer.kind == Kind::Stream);
                out.extend_from_slice(&[kind, offer.content.map_or(0, |(_, levels)| levels), 0, 0]);
                out.extend_from_slice(&offer.chunk_bytes.to_le_bytes());
                out.extend_from_slice(&offer.size_bytes.to_le_bytes());
                put_fingerprint(&mut out, offer.content.map(|(fingerprint, _)| fingerprint));
                out.extend_from_slice(offer.name.as_bytes());
                1
            }
            Self::Position(offset) => {
                out.extend_from_slice(&offset.to_le_bytes());
                2
            }
            Self::List(list) => {
                out.extend_from_slice(&list.offset.to_le_bytes());
                for chunk in &list.chunks {
                    put_fingerprint(&mut out, chunk.fingerprint);
                    out.extend_from_slice(&chunk.bytes.to_le_bytes());
                }
                3
            }
            Self::Lacks(offset, lacks) => {
                out.extend_from_slice(&offset.to_le_bytes());
                let byte = |eight: &[bool]| eight.iter().zip(0..).fold(0, |byte, (bit, n)| byte | u8::from(*bit) << n);
                out.extend(lacks.chunks(8).map(byte));
                4
            }
            Self::Chunks(encoding, raw_bytes, payload) => {
                out.extend_from_slice(&[*encoding as u8, 0, 0, 0]);
                out.extend_from_slice(&raw_bytes.to_le_bytes());
                out.extend_from_slice(payload);
                5
            }
            Self::End => 6,
            Self::Done(stored) => {
                out.extend_from_slice(&stored.to_le_bytes());
                7
            }
            Self::Failed(why) => {
                out.extend(why.bytes().take(TEXT_BYTES_MAX));
                8
            }
        };
        (kind, out)
    }

    /// Encodes the frame of this number.
    #[must_use]
    pub fn encode(&self, number: u64) -> Vec<u8> {
        let (kind, payload) = self.payload();
        let mut out = Vec::with_capacity(HEAD_BYTES + payload.len() + CHECKSUM_BYTES);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&[kind, 0, 0, 0]);
        out.extend_from_slice(&payload);
        let sum = checksum(number, &out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The chunks, decoded; `None`: they are damaged, or this has none.
    #[must_use]
    pub fn raw(&self) -> Option<Bytes> {
        match self {
            Self::Chunks(encoding, raw_bytes, payload) => decode(*encoding, payload.clone(), *raw_bytes as usize),
            _ => None,
        }
    }
}

fn checksum(number: u64, frame: &[u8]) -> u32 {
    crc32c(&[&number.to_le_bytes()[..], frame].concat())
}

/// Decodes the frames of one direction.
#[derive(Debug, Default)]
pub struct FrameReader {
    number: u64,
}

impl FrameReader {
    /// The length of the first piece of a frame.
    pub const FIRST_BYTES: usize = HEAD_BYTES;

    /// The length of the rest of a frame that begins with `first`, [`FIRST_BYTES`](Self::FIRST_BYTES) long.
    ///
    /// # Errors
    /// It is damaged.
    pub fn rest(first: &[u8]) -> Result<usize, FormatError> {
        let refuse = |field, value| FormatError::Field { structure: FRAME, field, value };
        let len = u32_at(first, 0) as usize;
        if first.len() != HEAD_BYTES || len > PAYLOAD_BYTES_MAX {
            return Err(refuse("bytes of the payload", len as u64));
        }
        Ok(len + CHECKSUM_BYTES)
    }

    /// Decodes a frame.
    ///
    /// # Errors
    /// It is damaged, not the next one of its direction, or of a later version.
    pub fn frame(&mut self, frame: &Bytes) -> Result<Message, FormatError> {
        let end = frame.len().saturating_sub(CHECKSUM_BYTES);
        let is_whole =
            frame.get(..HEAD_BYTES).is_some_and(|first| Self::rest(first).ok() == Some(frame.len() - HEAD_BYTES));
        if !is_whole || checksum(self.number, &frame[..end]) != u32_at(frame, end) {
            return Err(FormatError::Checksum { structure: FRAME });
        }
        self.number += 1;
        message(frame[4], &frame.slice(HEAD_BYTES..end))
    }
}

fn message(kind: u8, payload: &Bytes) -> Result<Message, FormatError> {
    let refuse = |field, value| FormatError::Field { structure: FRAME, field, value };
    let len = payload.len();
    let short = |need| FormatError::Short { structure: FRAME, have: len, need };
    let number = || if len == 8 { Ok(u64_at(payload, 0)) } else { Err(short(8)) };
    let text = |from: usize| {
        let bytes = payload.get(from..).filter(|bytes| bytes.len() <= TEXT_BYTES_MAX);
        let text = bytes.map(|bytes| String::from_utf8_lossy(bytes).replace(char::is_control, " "));
        text.ok_or_else(|| refuse("bytes of the text", len as u64))
    };
    Ok(match kind {
        1 => Message::Offer(offer(payload, text)?),
        2 => Message::Position(number()?),
        3 => {
            let entries = payload.get(8..).ok_or_else(|| short(8))?;
            let count = entries.len() / ENTRY_BYTES;
            if !entries.len().is_multiple_of(ENTRY_BYTES) || count == 0 || count > LIST_MAX {
                return Err(refuse("bytes of a list", len as u64));
            }
            let listed = |entry: &[u8]| Listed { fingerprint: fingerprint_at(entry, 0), bytes: u32_at(entry, 20) };
            Message::List(List {
                offset: u64_at(payload, 0),
                chunks: entries.chunks(ENTRY_BYTES).map(listed).collect(),
            })
        }
        4 => {
            let bits = payload.get(8..).filter(|bits| bits.len() <= LIST_MAX / 8).ok_or_else(|| short(8))?;
            let lacks = bits.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect();
            Message::Lacks(u64_at(payload, 0), lacks)
        }
        5 => {
            let raw_bytes = u32_at(payload, 4);
            if len < 8 || raw_bytes as usize > RAW_BYTES_MAX {
                return Err(refuse("bytes when decoded", raw_bytes.into()));
            }
            let encoding = Encoding::from_number(payload[0]).ok_or_else(|| refuse("encoding", payload[0].into()))?;
            Message::Chunks(encoding, raw_bytes, payload.slice(8..))
        }
        6 => Message::End,
        7 => Message::Done(number()?),
        8 => Message::Failed(text(0)?),
        other => return Err(refuse("kind of a frame", other.into())),
    })
}

fn offer(payload: &Bytes, text: impl Fn(usize) -> Result<String, FormatError>) -> Result<Offer, FormatError> {
    let refuse = |field, value| FormatError::Field { structure: FRAME, field, value };
    if payload.len() < OFFER_BYTES || payload[..8] != MAGIC {
        return Err(FormatError::Magic { structure: FRAME });
    }
    if u32_at(payload, 8) != VERSION {
        return Err(FormatError::Version { found: u32_at(payload, 8), known: VERSION });
    }
    let kind = match payload[12] {
        0 => Kind::Volume,
        1 => Kind::Stream,
        other => return Err(refuse("kind of the object", other.into())),
    };
    let size_bytes = u64_at(payload, 20);
    // The end of its last chunk has a number.
    if size_bytes > i64::MAX as u64 {
        return Err(refuse("bytes of the object", size_bytes));
    }
    let content = match (fingerprint_at(payload, 28), payload[13]) {
        (None, 0) => None,
        (Some(fingerprint), levels @ 1..=8) => Some((fingerprint, levels)),
        (_, levels) => return Err(refuse("levels", levels.into())),
    };
    Ok(Offer { kind, chunk_bytes: u32_at(payload, 16), size_bytes, content, name: text(OFFER_BYTES)? })
}

/// Writes right checksums into frames, as far as their lengths make sense; for fuzzing.
pub(crate) fn reseal(bytes: &mut [u8]) {
    let (mut at, mut number) = (0, 0);
    while let Some(first) = bytes.get(at..at + HEAD_BYTES) {
        let Ok(rest) = FrameReader::rest(first) else { return };
        let end = at + HEAD_BYTES + rest;
        let Some(frame) = bytes.get(at..end - CHECKSUM_BYTES) else { return };
        let sum = checksum(number, frame);
        let Some(field) = bytes.get_mut(end - CHECKSUM_BYTES..end) else { return };
        field.copy_from_slice(&sum.to_le_bytes());
        (at, number) = (end, number + 1);
    }
}

/// One of each message.
pub(crate) fn samples() -> Vec<Message> {
    let listed = |byte: u8| Listed { fingerprint: (byte > 0).then_some(Fingerprint([byte; 20])), bytes: 4096 };
    let content = Some((Fingerprint([3; 20]), 1));
    let (kind, name) = (Kind::Volume, "müller@1".to_owned());
    vec![
        Message::Offer(Offer { kind, chunk_bytes: 4096, size_bytes: 9 * 4096 + 7, content, name }),
        Message::Position(4096),
        Message::List(List { offset: 4096, chunks: (0..9).map(listed).collect() }),
        Message::Lacks(4096, (0..16).map(|n| n % 3 == 1).collect()),
        Message::Chunks(Encoding::Raw, 4096, vec![7; 4096].into()),
        Message::End,
        Message::Done(4096),
        Message::Failed("no room".to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(frames: &[Vec<u8>]) -> Result<Vec<Message>, FormatError> {
        let mut reader = FrameReader::default();
        frames.iter().map(|frame| reader.frame(&Bytes::copy_from_slice(frame))).collect()
    }

    #[test]
    fn messages_come_back_and_no_change_goes_unnoticed() {
        let samples = samples();
        let frames: Vec<_> = samples.iter().zip(0..).map(|(message, number)| message.encode(number)).collect();
        assert_eq!(read(&frames).unwrap(), samples);
        for (n, frame) in frames.iter().enumerate() {
            for at in 0..frame.len() {
                let mut changed = frames.clone();
                changed[n][at] ^= 4;
                assert!(read(&changed).is_err(), "byte {at} of {:?}", samples[n]);
            }
            let mut cut = frames.clone();
            cut[n].pop();
            assert!(read(&cut).is_err());
        }
        // In another order, twice, or with one missing.
        for others in [[0, 2, 1], [0, 0, 1], [0, 2, 3]] {
            assert!(read(&others.map(|n| frames[n].clone())).is_err(), "{others:?}");
        }
    }

    #[test]
    fn lengths_are_bounded_before_memory_is_taken() {
        let head = |len: u32| [&len.to_le_bytes()[..], &[3, 0, 0, 0]].concat();
        assert!(FrameReader::rest(&head(u32::MAX)).is_err());
        assert_eq!(FrameReader::rest(&head(8)).unwrap(), 12);
        let raw = Message::Chunks(Encoding::Zstd, RAW_BYTES_MAX as u32 + 1, vec![0; 9].into());
        assert!(read(&[raw.encode(0)]).is_err());
        let chunk = Listed { fingerprint: None, bytes: 1 };
        for count in [0, LIST_MAX + 1] {
            let list = Message::List(List { offset: 0, chunks: vec![chunk; count] });
            assert!(read(&[list.encode(0)]).is_err(), "{count}");
        }
        let long = Message::Failed("x".repeat(5000));
        assert!(matches!(&read(&[long.encode(0)]).unwrap()[..], [Message::Failed(why)] if why.len() == 1024));
    }
}
