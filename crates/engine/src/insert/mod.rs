//! Insertion, off the critical path: a bounded queue, and workers that fingerprint, compress, pack and write. Several workers of
//! a cache fingerprint and compress at the same time; they pack in the order of arrival ([`order`]).

mod duplicate;
mod know;
mod lanes;
mod open_weu;
mod order;
mod patch;
mod queue;
mod record;
mod tags;
mod worker;

pub(crate) use duplicate::Compared;
pub(crate) use lanes::Lanes;
pub(crate) use open_weu::{Entering, OpenWeu, Parts};
pub(crate) use order::Order;
pub(crate) use patch::{Merge, Patch};
pub(crate) use queue::{Content, InsertQueue, Job};
pub(crate) use tags::UnitTables;
pub(crate) use worker::{Writes, payload};

use crate::format::crc32c;
use crate::format::stored::Place;
use crate::format::weu::Entry;
use nitro_cache::weu::layout::PREFIX_BYTES;
use nitro_cache::weu::{Position, Stored};
use nitro_port::codec::Encoding;

/// How a payload is to be stored.
pub(crate) fn stored_as(encoding: Encoding, payload: &[u8]) -> Stored {
    let bytes = payload.len() as u32;
    match encoding {
        Encoding::Raw if bytes == 0 => Stored::Zero,
        Encoding::Raw => Stored::Raw { bytes, crc: crc32c(payload) },
        Encoding::Lz4 | Encoding::Zstd => Stored::Packed(bytes),
    }
}

/// How the extent of a header's entry is stored, and where.
pub(crate) fn stored_at(entry: &Entry, place: &Place) -> (Position, Stored) {
    let position = Position::new(entry.offset, entry.stored_bytes);
    let stored = match entry.stored_bytes {
        0 => Stored::Zero,
        bytes if entry.raw => Stored::Raw { bytes, crc: place.mix(entry.checksum) },
        bytes => Stored::Packed(bytes.saturating_sub(PREFIX_BYTES)),
    };
    (position, stored)
}
