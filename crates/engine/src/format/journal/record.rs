//! The journal's records. Each begins with its tag; versions have 56 bits.
//!
//! DirtyBase (43 bytes, 63 with a fingerprint):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 1 |
//! | 1 | 8 | key: extent number (48 bits), object (16 bits) |
//! | 9 | 7 | version |
//! | 16 | 4 | WEU number |
//! | 20 | 4 | generation |
//! | 24 | 4 | start: how often the cache had been started when the WEU was filled |
//! | 28 | 2 | entry within the WEU |
//! | 30 | 4 | offset of the stored extent within the WEU |
//! | 34 | 4 | stored length in bytes; 0: all zeroes |
//! | 38 | 4 | checksum of the payload, mixed with its place |
//! | 42 | 1 | flags: bit 0, has a fingerprint; bit 1, raw blocks without a prefix; bits 2 to 6, the class |
//! | 43 | 20 | fingerprint, where there is one |
//!
//! DirtyDup:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 2 |
//! | 1 | 8 | key |
//! | 9 | 7 | version |
//! | 16 | 4 | WEU number |
//! | 20 | 4 | generation |
//! | 24 | 2 | entry within the WEU |
//!
//! Clean, and Lost with tag 9:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 3, or 9 |
//! | 1 | 8 | key |
//! | 9 | 7 | version |
//!
//! Forget:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 4 |
//! | 1 | 8 | key of the first extent |
//! | 9 | 8 | number of extents |
//! | 17 | 7 | version |
//!
//! Evicted:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 5 |
//! | 1 | 4 | WEU number |
//! | 5 | 4 | generation |
//!
//! RegionOpened, and RegionClosed with tag 7:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 6, or 7 |
//! | 1 | 2 | object |
//! | 3 | 8 | region |
//!
//! Volume (29 bytes, then its name in UTF-8, then, if the mode says so, 16 bytes that name its domain of deduplication, then, if the
//! mode says so, one byte with the length of its origin's identity, and the identity):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 8 |
//! | 1 | 2 | object |
//! | 3 | 8 | size of the origin in bytes |
//! | 11 | 16 | UUID |
//! | 27 | 1 | mode; 128 more: a domain follows the name; 64 more: an identity follows |
//! | 28 | 1 | bytes of the name |
//!
//! VolumeRemoved:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 10 |
//! | 1 | 2 | object |
//!
//! Pins (4 bytes, then 16 for each range: its first extent's number and how many extents it has, 8 bytes each, in ascending order,
//! none touching another):
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 14 |
//! | 1 | 2 | object |
//! | 3 | 1 | number of ranges, at most 16; they replace all ranges pinned before |
//!
//! Slot (15 bytes, then the bitmap), in snapshots, and in the log after a restart:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 11 |
//! | 1 | 4 | WEU number |
//! | 5 | 4 | the last generation that was evicted |
//! | 9 | 4 | generation |
//! | 13 | 2 | bytes of the bitmap of void entries and records, at most 9216 |
//!
//! NextVersion, in snapshots only:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 12 |
//! | 1 | 7 | version |
//!
//! Log:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | tag 13 |
//! | 1 | 16 | UUID of the write log; zeroes: none is in use |
//! | 17 | 8 | sequence of the first batch that is still needed |
//! | 25 | 8 | its offset within the ring, or 0 if it does not fit there |

use super::super::FormatError;
use super::super::flags::Flags;
use crate::domain::DedupDomain;
use nitro_cache::pins::{PINS_PER_VOLUME, PinRanges};
use nitro_cache::weu::layout::{ENTRIES_MAX, RECORDS_MAX};
use nitro_log::{Reader, Writer};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use std::ops::Range;

const NAME: &str = "journal record";
const DIRTY_BASE_BYTES: usize = 43;
const VOLUME_BYTES: usize = 29;
/// Added to the mode of a volume that has a domain of its own.
const DOMAINED: u8 = 128;
/// Added to the mode of a volume that has an identity.
const IDENTIFIED: u8 = 64;
const VOLUME_REMOVED_BYTES: usize = 3;

/// Bytes of a [`Record::DirtyDup`].
pub const DIRTY_DUP_BYTES: usize = 26;
/// Bytes of a [`Record::Clean`] or [`Record::Lost`].
pub const VERSIONED_BYTES: usize = 16;
/// Bytes of a [`Record::Forget`].
pub const FORGET_BYTES: usize = 24;
/// Bytes of a [`Record::Evicted`].
pub const EVICTED_BYTES: usize = 9;
/// Bytes of a [`Record::NextVersion`].
pub const NEXT_VERSION_BYTES: usize = 8;
/// Bytes of a [`Record::Log`].
pub const LOG_BYTES: usize = 33;
/// The largest version: 56 bits.
pub const VERSION_MAX: u64 = (1 << 56) - 1;
/// Bytes of the longest volume name.
pub const VOLUME_NAME_BYTES_MAX: usize = 255;
/// Bytes of the longest bitmap of void entries, and of void records of duplicates behind them.
pub const DEAD_BYTES_MAX: usize = (ENTRIES_MAX + RECORDS_MAX) as usize / 8;
/// Bytes of the longest [`Record::DirtyBase`].
pub const DIRTY_BASE_BYTES_MAX: usize = DIRTY_BASE_BYTES + 20;
/// Bytes of a [`Record::RegionOpened`] or [`Record::RegionClosed`].
pub const REGION_BYTES: usize = 11;
/// Bytes of the longest identity of a volume's origin.
pub const VOLUME_IDENTITY_BYTES_MAX: usize = 127;
/// Bytes of the longest [`Record::Volume`].
pub const VOLUME_BYTES_MAX: usize =
    VOLUME_BYTES + VOLUME_NAME_BYTES_MAX + DedupDomain::BYTES + 1 + VOLUME_IDENTITY_BYTES_MAX;
/// Bytes of a [`Record::Pins`] without its ranges.
const PINS_BYTES: usize = 4;
/// Bytes of each of them.
const PIN_BYTES: usize = 16;
/// Bytes of a [`Record::Slot`] without its bitmap.
pub const SLOT_BYTES: usize = 15;

/// The position from which on a write log is needed: everything before is in the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// The identity of the log; zeroes: none is in use.
    pub uuid: [u8; 16],
    /// The first batch that is still needed.
    pub sequence: u64,
    /// Where it begins within the ring; at 0 if it does not fit there.
    pub offset: u64,
}

/// A change of the state, or, in a snapshot, a part of the state.
///
/// Decoding checks only the format. The reader of the record has to check whether a WEU, an entry or an object exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// New dirty content, as a base extent of a WEU.
    DirtyBase {
        /// The extent.
        key: ExtentKey,
        /// Its version.
        version: u64,
        /// The WEU that holds the content.
        weu: WeuId,
        /// The filling of `weu`.
        generation: Generation,
        /// How often the cache had been started when the WEU was filled.
        start: u32,
        /// The extent's number within the WEU.
        entry: u16,
        /// First byte of the stored extent within the WEU.
        offset: u32,
        /// Stored bytes; 0: an all-zero extent.
        stored_bytes: u32,
        /// Checksum of the payload, mixed with its place.
        crc: u32,
        /// The content is stored in its own blocks, without a prefix.
        raw_blocks: bool,
        /// The class of the request that stored it.
        class: ClassId,
        /// The content's fingerprint, where deduplication is on.
        fingerprint: Option<Fingerprint>,
    },
    /// Dirty content that is stored already, elsewhere.
    DirtyDup {
        /// The extent.
        key: ExtentKey,
        /// Its version.
        version: u64,
        /// The WEU that holds the content.
        weu: WeuId,
        /// The filling of `weu`.
        generation: Generation,
        /// The base extent's number within the WEU.
        entry: u16,
    },
    /// The origin has that version durably.
    Clean {
        /// The extent.
        key: ExtentKey,
        /// Its version.
        version: u64,
    },
    /// All content of these extents that is older than `version` is void.
    Forget {
        /// The first extent.
        first: ExtentKey,
        /// The number of extents.
        count: u64,
        /// The version.
        version: u64,
    },
    /// This filling of the WEU and all earlier ones are evicted.
    Evicted {
        /// The WEU.
        weu: WeuId,
        /// The filling.
        generation: Generation,
    },
    /// Writes to this write-intent region of the origin may be in progress.
    RegionOpened {
        /// The volume.
        object: ObjectId,
        /// The region's number.
        region: u64,
    },
    /// No writes to this write-intent region are in progress any more, and the origin is flushed.
    RegionClosed {
        /// The volume.
        object: ObjectId,
        /// The region's number.
        region: u64,
    },
    /// A volume that the cache knows.
    Volume {
        /// Its number.
        object: ObjectId,
        /// Its name, at most [`VOLUME_NAME_BYTES_MAX`] bytes.
        name: String,
        /// Its origin's size in bytes.
        origin_bytes: u64,
        /// The identity of its origin.
        uuid: [u8; 16],
        /// Its mode, as numbered by the host: below 64.
        mode: u8,
        /// The domain within which it shares contents.
        domain: DedupDomain,
        /// What its origin is recognised by, in the host's own form; empty: not known. At most
        /// [`VOLUME_IDENTITY_BYTES_MAX`].
        identity: Vec<u8>,
    },
    /// A volume that the cache does not know any more.
    VolumeRemoved {
        /// Its number.
        object: ObjectId,
    },
    /// The pinned ranges of a volume; replaces the previous record.
    Pins {
        /// The volume.
        object: ObjectId,
        /// Ranges of extent numbers, in order and not adjacent; at most [`PINS_PER_VOLUME`].
        ranges: PinRanges,
    },
    /// Dirty content that could not be read back: kept as an error.
    Lost {
        /// The extent.
        key: ExtentKey,
        /// The version that is lost.
        version: u64,
    },
    /// A WEU slot. In snapshots, and in the log after a restart, for WEUs with entries that became void as they were
    /// read. If there are several records for one filling, an entry is void if one of them says so.
    Slot {
        /// The slot.
        weu: WeuId,
        /// All fillings up to this one are evicted.
        evicted: Generation,
        /// The present filling.
        generation: Generation,
        /// A bit for each void entry, from the lowest bit of the first byte on; entries beyond its end are not void.
        /// At most [`DEAD_BYTES_MAX`].
        dead: Vec<u8>,
    },
    /// Versions from here on were not used yet. In snapshots only.
    NextVersion {
        /// The version.
        version: u64,
    },
    /// A write log is in use, or none any more.
    Log(LogPosition),
}

impl Record {
    const fn tag(&self) -> u8 {
        match self {
            Self::DirtyBase { .. } => 1,
            Self::DirtyDup { .. } => 2,
            Self::Clean { .. } => 3,
            Self::Forget { .. } => 4,
            Self::Evicted { .. } => 5,
            Self::RegionOpened { .. } => 6,
            Self::RegionClosed { .. } => 7,
            Self::Volume { .. } => 8,
            Self::Lost { .. } => 9,
            Self::VolumeRemoved { .. } => 10,
            Self::Slot { .. } => 11,
            Self::NextVersion { .. } => 12,
            Self::Log(_) => 13,
            Self::Pins { .. } => 14,
        }
    }

    /// Bytes that the record takes in a batch.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        match self {
            Self::DirtyBase { fingerprint: Some(_), .. } => DIRTY_BASE_BYTES_MAX,
            Self::DirtyBase { fingerprint: None, .. } => DIRTY_BASE_BYTES,
            Self::DirtyDup { .. } => DIRTY_DUP_BYTES,
            Self::Clean { .. } | Self::Lost { .. } => VERSIONED_BYTES,
            Self::Forget { .. } => FORGET_BYTES,
            Self::Evicted { .. } => EVICTED_BYTES,
            Self::RegionOpened { .. } | Self::RegionClosed { .. } => REGION_BYTES,
            Self::Volume { name, domain, identity, .. } => {
                VOLUME_BYTES + name.len() + domain_bytes(domain).len() + identity_bytes(identity)
            }
            Self::VolumeRemoved { .. } => VOLUME_REMOVED_BYTES,
            Self::Slot { dead, .. } => SLOT_BYTES + dead.len(),
            Self::NextVersion { .. } => NEXT_VERSION_BYTES,
            Self::Log(_) => LOG_BYTES,
            Self::Pins { ranges, .. } => PINS_BYTES + ranges.len() * PIN_BYTES,
        }
    }

    /// Writes the record into `bytes`, which must be [`encoded_bytes`](Self::encoded_bytes) long.
    ///
    /// # Panics
    /// If a version is above [`VERSION_MAX`], a name or a bitmap too long, or `bytes` too short.
    pub fn encode(&self, bytes: &mut [u8]) {
        let mut writer = Writer::new(bytes);
        writer.u8(self.tag());
        match self {
            Self::DirtyBase {
                key,
                version,
                weu,
                generation,
                start,
                entry,
                offset,
                stored_bytes,
                crc,
                raw_blocks,
                class,
                fingerprint,
            } => {
                writer.u64(key.raw()).put(&version_field(*version)).u32(weu.0).u32(generation.0).u32(*start);
                writer.put(&entry.to_le_bytes()).u32(*offset).u32(*stored_bytes).u32(*crc);
                let flags = Flags { has_fingerprint: fingerprint.is_some(), raw: *raw_blocks, class: *class };
                writer.u8(flags.to_byte());
                writer.put(fingerprint.as_ref().map_or(&[][..], |f| &f.0))
            }
            Self::DirtyDup { key, version, weu, generation, entry } => {
                writer.u64(key.raw()).put(&version_field(*version)).u32(weu.0).u32(generation.0);
                writer.put(&entry.to_le_bytes())
            }
            Self::Clean { key, version } | Self::Lost { key, version } => {
                writer.u64(key.raw()).put(&version_field(*version))
            }
            Self::Forget { first, count, version } => writer.u64(first.raw()).u64(*count).put(&version_field(*version)),
            Self::Evicted { weu, generation } => writer.u32(weu.0).u32(generation.0),
            Self::RegionOpened { object, region } | Self::RegionClosed { object, region } => {
                writer.put(&object.0.to_le_bytes()).u64(*region)
            }
            Self::Volume { object, name, origin_bytes, uuid, mode, domain, identity } => {
                assert!(name.len() <= VOLUME_NAME_BYTES_MAX, "a volume name of {} bytes", name.len());
                assert!(mode & (DOMAINED | IDENTIFIED) == 0, "mode {mode}");
                assert!(identity.len() <= VOLUME_IDENTITY_BYTES_MAX, "an identity of {} bytes", identity.len());
                let domain = domain_bytes(domain);
                let domained = if domain.is_empty() { 0 } else { DOMAINED };
                let identified = if identity.is_empty() { 0 } else { IDENTIFIED };
                writer.put(&object.0.to_le_bytes()).u64(*origin_bytes).put(uuid).u8(mode | domained | identified);
                writer.u8(name.len() as u8).put(name.as_bytes()).put(domain);
                match identity.len() {
                    0 => &mut writer,
                    len => writer.u8(len as u8).put(identity),
                }
            }
            Self::VolumeRemoved { object } => writer.put(&object.0.to_le_bytes()),
            Self::Pins { object, ranges } => {
                assert!(ranges.len() <= PINS_PER_VOLUME, "{} pins", ranges.len());
                writer.put(&object.0.to_le_bytes()).u8(ranges.len() as u8);
                ranges.iter().fold(&mut writer, |writer, range| writer.u64(range.start).u64(range.end - range.start))
            }
            Self::Slot { weu, evicted, generation, dead } => {
                assert!(dead.len() <= DEAD_BYTES_MAX, "a bitmap of {} bytes", dead.len());
                writer.u32(weu.0).u32(evicted.0).u32(generation.0).put(&(dead.len() as u16).to_le_bytes()).put(dead)
            }
            Self::NextVersion { version } => writer.put(&version_field(*version)),
            Self::Log(at) => writer.put(&at.uuid).u64(at.sequence).u64(at.offset),
        };
    }

    /// Reads the record at the start of `bytes`; returns it and its length in bytes.
    ///
    /// # Errors
    /// [`FormatError`] naming what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), FormatError> {
        let mut reader = Reader::new(NAME, bytes);
        let tag = reader.u8()?;
        let record = match tag {
            1 => dirty_base(&mut reader)?,
            2 => Self::DirtyDup {
                key: key(&mut reader)?,
                version: version(&mut reader)?,
                weu: WeuId(reader.u32()?),
                generation: Generation(reader.u32()?),
                entry: number16(&mut reader)?,
            },
            3 => Self::Clean { key: key(&mut reader)?, version: version(&mut reader)? },
            4 => Self::Forget { first: key(&mut reader)?, count: reader.u64()?, version: version(&mut reader)? },
            5 => Self::Evicted { weu: WeuId(reader.u32()?), generation: Generation(reader.u32()?) },
            6 => Self::RegionOpened { object: object(&mut reader)?, region: reader.u64()? },
            7 => Self::RegionClosed { object: object(&mut reader)?, region: reader.u64()? },
            8 => volume(&mut reader, bytes)?,
            9 => Self::Lost { key: key(&mut reader)?, version: version(&mut reader)? },
            10 => Self::VolumeRemoved { object: object(&mut reader)? },
            11 => slot(&mut reader, bytes)?,
            12 => Self::NextVersion { version: version(&mut reader)? },
            13 => Self::Log(LogPosition { uuid: reader.array()?, sequence: reader.u64()?, offset: reader.u64()? }),
            14 => pins(&mut reader)?,
            _ => return Err(reader.refuse("tag", tag.into())),
        };
        let len = record.encoded_bytes();
        Ok((record, len))
    }
}

fn version_field(version: u64) -> [u8; 7] {
    assert!(version <= VERSION_MAX, "version {version} has more than 56 bits");
    let [a, b, c, d, e, f, g, _] = version.to_le_bytes();
    [a, b, c, d, e, f, g]
}

fn version(reader: &mut Reader<'_>) -> Result<u64, FormatError> {
    let [a, b, c, d, e, f, g] = reader.array()?;
    Ok(u64::from_le_bytes([a, b, c, d, e, f, g, 0]))
}

fn key(reader: &mut Reader<'_>) -> Result<ExtentKey, FormatError> {
    reader.u64().map(ExtentKey::from_raw)
}

fn number16(reader: &mut Reader<'_>) -> Result<u16, FormatError> {
    reader.array().map(u16::from_le_bytes)
}

fn object(reader: &mut Reader<'_>) -> Result<ObjectId, FormatError> {
    number16(reader).map(ObjectId)
}

fn dirty_base(reader: &mut Reader<'_>) -> Result<Record, FormatError> {
    let (key, version) = (key(reader)?, version(reader)?);
    let (weu, generation, start) = (WeuId(reader.u32()?), Generation(reader.u32()?), reader.u32()?);
    let (entry, offset, stored_bytes, crc) = (number16(reader)?, reader.u32()?, reader.u32()?, reader.u32()?);
    let Flags { has_fingerprint, raw: raw_blocks, class } = Flags::read(reader)?;
    let fingerprint = if has_fingerprint { Some(Fingerprint(reader.array()?)) } else { None };
    Ok(Record::DirtyBase {
        key,
        version,
        weu,
        generation,
        start,
        entry,
        offset,
        stored_bytes,
        crc,
        raw_blocks,
        class,
        fingerprint,
    })
}

/// Bytes written for a domain: none for the shared one.
const fn domain_bytes(domain: &DedupDomain) -> &[u8] {
    if domain.is_shared() { &[] } else { domain.bytes() }
}

/// Bytes written for an identity, with its length: none for an empty one.
const fn identity_bytes(identity: &[u8]) -> usize {
    if identity.is_empty() { 0 } else { 1 + identity.len() }
}

fn volume(reader: &mut Reader<'_>, bytes: &[u8]) -> Result<Record, FormatError> {
    let (object, origin_bytes) = (object(reader)?, reader.u64()?);
    let (uuid, mode, len) = (reader.array()?, reader.u8()?, reader.u8()?);
    let name = variable(bytes, VOLUME_BYTES, len.into())?;
    let name =
        std::str::from_utf8(name).map_err(|_| reader.refuse("name, which is not UTF-8, of length", len.into()))?;
    let domain = match mode & DOMAINED {
        0 => DedupDomain::SHARED,
        _ => {
            let bytes = variable(bytes, VOLUME_BYTES + name.len(), DedupDomain::BYTES)?;
            let domain = bytes.try_into().map_or(DedupDomain::SHARED, DedupDomain::from_bytes);
            if domain.is_shared() {
                return Err(reader.refuse("domain", 0));
            }
            domain
        }
    };
    let identity = match mode & IDENTIFIED {
        0 => Vec::new(),
        _ => {
            let at = VOLUME_BYTES + name.len() + domain_bytes(&domain).len();
            let len = usize::from(variable(bytes, at, 1)?[0]);
            if !(1..=VOLUME_IDENTITY_BYTES_MAX).contains(&len) {
                return Err(reader.refuse("length of the identity", len as u64));
            }
            variable(bytes, at + 1, len)?.to_vec()
        }
    };
    let (name, mode) = (name.to_owned(), mode & !(DOMAINED | IDENTIFIED));
    Ok(Record::Volume { object, name, origin_bytes, uuid, mode, domain, identity })
}

fn slot(reader: &mut Reader<'_>, bytes: &[u8]) -> Result<Record, FormatError> {
    let (weu, evicted, generation) = (WeuId(reader.u32()?), Generation(reader.u32()?), Generation(reader.u32()?));
    let len = number16(reader)?;
    if usize::from(len) > DEAD_BYTES_MAX {
        return Err(reader.refuse("length of the bitmap", len.into()));
    }
    let dead = variable(bytes, SLOT_BYTES, len.into())?.to_vec();
    Ok(Record::Slot { weu, evicted, generation, dead })
}

fn pins(reader: &mut Reader<'_>) -> Result<Record, FormatError> {
    let (object, count) = (object(reader)?, reader.u8()?);
    if usize::from(count) > PINS_PER_VOLUME {
        return Err(reader.refuse("number of pins", count.into()));
    }
    let mut ranges = PinRanges::with_capacity(count.into());
    for _ in 0..count {
        let (first, extents) = (reader.u64()?, reader.u64()?);
        let end = first.checked_add(extents).filter(|end| *end <= ExtentIndex::MAX.0 && extents > 0);
        let end = end.ok_or_else(|| reader.refuse("number of pinned extents", extents))?;
        if ranges.last().is_some_and(|before: &Range<u64>| before.end >= first) {
            return Err(reader.refuse("first pinned extent", first));
        }
        ranges.push(first..end);
    }
    Ok(Record::Pins { object, ranges })
}

/// The variable part of a record, which begins at `at`.
fn variable(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], FormatError> {
    let short = FormatError::Short { structure: NAME, have: bytes.len(), need: at + len };
    bytes.get(at..at + len).ok_or(short)
}

#[cfg(test)]
mod tests;
