//! A write-evict unit that is being filled in RAM.

use crate::format::ssd::{Entry, PREFIX_BYTES, UnitTable};
use crate::ssd::Piece;
use nitro_cache::Location;
use nitro_cache::weu::Stored;
use nitro_cache::weu::layout::{HEAD_BYTES, UNIT_BYTES};
use nitro_port::buf::BufMut;
use nitro_units::{Generation, WeuId};

/// A unit with the pieces that were put into it so far.
pub(crate) struct OpenUnit {
    pub(crate) weu: WeuId,
    pub(crate) generation: Generation,
    bytes: BufMut,
    /// The end of the packed pieces, in bytes.
    packed_end: usize,
    entries: Vec<Entry>,
}

impl OpenUnit {
    pub(crate) fn new(weu: WeuId, generation: Generation, unit_bytes: u32) -> Self {
        let bytes = BufMut::zeroed(unit_bytes as usize);
        Self { weu, generation, bytes, packed_end: HEAD_BYTES as usize, entries: Vec::new() }
    }

    /// Puts a piece at the location that the manager assigned.
    pub(crate) fn put(&mut self, location: &Location, piece: &Piece, stored: Stored, (check, data): (u32, &[u8])) {
        let at = location.offset as usize;
        let raw = matches!(stored, Stored::Raw { .. });
        let stored_bytes = if raw {
            self.bytes[at..at + data.len()].copy_from_slice(data);
            data.len()
        } else {
            let end = at + PREFIX_BYTES + data.len();
            self.bytes[at..at + 4].copy_from_slice(&(data.len() as u32).to_le_bytes());
            self.bytes[at + 4..at + PREFIX_BYTES].copy_from_slice(&check.to_le_bytes());
            self.bytes[at + PREFIX_BYTES..end].copy_from_slice(data);
            self.packed_end = end.next_multiple_of(UNIT_BYTES as usize);
            end - at
        };
        let class = piece.class.number();
        let (key, offset, stored_bytes) = (piece.key.raw(), location.offset, stored_bytes as u32);
        self.entries.push(Entry { key, offset, stored_bytes, check, class, raw });
    }

    /// A copy of the bytes at a location.
    pub(crate) fn read(&self, location: &Location) -> Option<BufMut> {
        let span = location.span();
        self.bytes.get(span.start as usize..span.end as usize).map(BufMut::copy_of)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The whole unit, with header and table.
    pub(crate) fn finish(mut self, version: u64, filling: u64) -> bytes::Bytes {
        let entries = std::mem::take(&mut self.entries);
        let table = UnitTable { unit: self.weu.0, generation: self.generation.0, version, entries };
        table.encode(&mut self.bytes, self.packed_end, filling);
        self.bytes.freeze()
    }
}
