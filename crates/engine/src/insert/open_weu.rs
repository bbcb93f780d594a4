//! A WEU being filled in RAM.

use crate::format::crc32c;
use crate::format::duplicate::Duplicate;
use crate::format::stored::{Place, prefix};
use crate::format::weu::{Entry, Head, encode_table};
use crate::journal::Identity;
use bytes::Bytes;
use nitro_cache::weu::Stored;
use nitro_cache::weu::layout::{ENTRIES_MAX, ENTRY_BYTES, HEAD_BYTES, PREFIX_BYTES, RECORD_BYTES, UNIT_BYTES};
use nitro_port::buf::BufMut;
use nitro_port::codec::Encoding;
use nitro_units::{ClassId, ExtentKey, Fingerprint, Generation, WeuId};
use smallvec::SmallVec;
use std::ops::Range;

/// A gap of at most this fraction of a WEU is also written, so that one write is sufficient; a larger gap is not
/// written.
const GAP_WRITTEN: usize = 64;

/// The parts to write, with their offsets in the WEU, in the order in which to write them.
pub(crate) type Parts = SmallVec<[(u32, Bytes); 2]>;

/// The bytes of a written WEU by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) payload_bytes: u64,
    pub(crate) header_bytes: u64,
    pub(crate) padding_bytes: u64,
}

/// An extent to be added to a WEU.
pub(crate) struct Entering {
    pub(crate) key: ExtentKey,
    /// The plain fingerprint, as on flash.
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) class: ClassId,
    pub(crate) version: u64,
}

/// The bytes and entries of one WEU.
pub(crate) struct OpenWeu {
    pub(crate) weu: WeuId,
    pub(crate) generation: Generation,
    dirty: bool,
    buf: BufMut,
    /// Where the packed extents end.
    packed_end: usize,
    /// Where the extents stored as they are begin.
    raw_start: usize,
    entries: Vec<Entry>,
    /// Records of duplicates, which are in the buffer behind the entry table.
    duplicates: u32,
    /// The highest of their versions.
    duplicates_version: u64,
    payload_bytes: u64,
    /// The parts that are on the SSD already: packed extents up to the first offset, those stored as they are from the
    /// second offset on.
    saved: (usize, usize),
    /// Bytes that were written before the WEU is full.
    saved_bytes: u64,
}

impl OpenWeu {
    /// An empty WEU; `dirty`: for dirty content.
    pub(crate) fn new(weu: WeuId, generation: Generation, weu_bytes: u32, dirty: bool) -> Self {
        let buf = BufMut::with_len(weu_bytes as usize);
        let (packed_end, raw_start) = (HEAD_BYTES as usize, weu_bytes as usize);
        let saved = (0, raw_start);
        Self {
            weu,
            generation,
            dirty,
            buf,
            packed_end,
            raw_start,
            entries: Vec::new(),
            duplicates: 0,
            duplicates_version: 0,
            payload_bytes: 0,
            saved,
            saved_bytes: 0,
        }
    }

    /// Stores an extent at the position that the manager gave it.
    pub(crate) fn put(
        &mut self,
        place: &Place,
        entering: Entering,
        stored: Stored,
        encoding: Encoding,
        payload: &[u8],
    ) -> &Entry {
        let (stored_bytes, checksum) = match stored {
            Stored::Zero => (0, 0),
            Stored::Packed(_) => self.pack(place, encoding, payload),
            Stored::Raw { bytes, crc } => {
                self.raw_start = place.offset as usize;
                self.buf[self.raw_start..self.raw_start + payload.len()].copy_from_slice(payload);
                (bytes, place.mix(crc))
            }
        };
        self.payload_bytes += payload.len() as u64;
        let raw = matches!(stored, Stored::Raw { .. });
        let Entering { key, fingerprint, class, version } = entering;
        let entry = Entry { key, fingerprint, offset: place.offset, stored_bytes, checksum, raw, class, version };
        let number = self.entries.len();
        self.entries.push(entry);
        &self.entries[number]
    }

    /// Its entries so far.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds a record of a duplicate, after the last entry.
    pub(super) fn record(&mut self, duplicate: &Duplicate) {
        let at = self.duplicates_at(self.packed_end) + (self.duplicates * RECORD_BYTES) as usize;
        duplicate.encode(&mut self.buf[at..at + RECORD_BYTES as usize]);
        self.duplicates += 1;
        self.duplicates_version = self.duplicates_version.max(duplicate.record.version);
    }

    /// Where the records of duplicates begin, behind an entry table at `table`.
    const fn duplicates_at(&self, table: usize) -> usize {
        table + self.entries.len() * ENTRY_BYTES as usize
    }

    /// Returns stored bytes and checksum.
    fn pack(&mut self, place: &Place, encoding: Encoding, payload: &[u8]) -> (u32, u32) {
        let at = place.offset as usize;
        let payload_at = at + PREFIX_BYTES as usize;
        let end = payload_at + payload.len();
        let prefix = prefix(place, encoding, payload);
        self.packed_end = end.next_multiple_of(UNIT_BYTES as usize);
        self.buf[at..payload_at].copy_from_slice(&prefix);
        self.buf[payload_at..end].copy_from_slice(payload);
        self.buf[end..self.packed_end].fill(0);
        let [a, b, c, d, ..] = prefix;
        ((end - at) as u32, u32::from_le_bytes([a, b, c, d]))
    }

    /// Completes the header. Bytes that the returned parts do not cover are not changed on the device.
    pub(super) fn seal(mut self, identity: Identity, block_bytes: u32) -> (Parts, Written) {
        let (_, end) = self.write_header(self.packed_end, identity);
        let parts = self.cut(end, block_bytes as usize);
        let written = self.written(&parts);
        (parts, written)
    }

    /// Writes head and table; the table begins at `table`. Returns the end of what follows it.
    fn write_header(&mut self, table: usize, identity: Identity) -> (Head, usize) {
        let Identity { epoch, start } = identity;
        let at = self.duplicates_at(table);
        let table_crc = encode_table(&self.entries, &mut self.buf[table..at]);
        let end = at + (self.duplicates * RECORD_BYTES) as usize;
        let head = Head {
            dirty: self.dirty,
            weu: self.weu,
            generation: self.generation,
            entries: self.entries.len() as u32,
            table_offset: table as u32,
            table_crc,
            epoch,
            start,
            version: self.entries.iter().map(|entry| entry.version).fold(self.duplicates_version, u64::max),
            duplicates: self.duplicates,
            duplicates_crc: crc32c(&self.buf[at..end]),
        };
        head.encode(&mut self.buf);
        (head, end)
    }

    fn written(&self, parts: &Parts) -> Written {
        let packed = self.entries.iter().filter(|e| e.stored_bytes > 0 && !e.raw).count();
        let table_bytes = self.duplicates_at(0) + (self.duplicates * RECORD_BYTES) as usize;
        let header_bytes = (HEAD_BYTES as usize + table_bytes + packed * PREFIX_BYTES as usize) as u64;
        let written: u64 = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let padding_bytes = (written + self.saved_bytes).saturating_sub(header_bytes + self.payload_bytes);
        Written { payload_bytes: self.payload_bytes, header_bytes, padding_bytes }
    }

    /// The extents added since the last call, in whole blocks. The next extent begins a new block, so that nothing is
    /// written twice, and durable bytes are not overwritten.
    pub(crate) fn take_unsaved(&mut self, block_bytes: u32) -> Parts {
        let unsaved = self.unsaved(block_bytes);
        self.saved_bytes += unsaved.iter().map(|range| range.len() as u64).sum::<u64>();
        unsaved.into_iter().map(|range| (range.start as u32, BufMut::copy_of(&self.buf[range]).freeze())).collect()
    }

    /// The ranges of these extents in the buffer. They count as saved from now on.
    fn unsaved(&mut self, block_bytes: u32) -> SmallVec<[Range<usize>; 2]> {
        let end = self.packed_end.next_multiple_of(block_bytes as usize);
        let mut unsaved = SmallVec::new();
        let first = self.saved.0.max((HEAD_BYTES as usize).next_multiple_of(block_bytes as usize));
        if self.packed_end > first {
            self.buf[self.packed_end..end].fill(0);
            unsaved.push(first..end);
            (self.saved.0, self.packed_end) = (end, end);
        }
        if self.raw_start < self.saved.1 {
            unsaved.push(self.raw_start..self.saved.1);
            self.saved.1 = self.raw_start;
        }
        unsaved
    }

    /// As [`seal`](Self::seal), for a WEU of which parts have been saved: returns the remaining parts, the head last.
    pub(crate) fn seal_rest(self, identity: Identity, block_bytes: u32) -> (Parts, Written) {
        let (_, parts, written) = self.complete(identity, block_bytes);
        (parts, written)
    }

    fn complete(mut self, identity: Identity, block_bytes: u32) -> (Head, Parts, Written) {
        let block = block_bytes as usize;
        let unsaved = self.unsaved(block_bytes);
        let table = self.packed_end.next_multiple_of(block);
        let (head, end) = self.write_header(table, identity);
        let padded = end.next_multiple_of(block);
        self.buf[end..padded].fill(0);
        self.buf[HEAD_BYTES as usize..(HEAD_BYTES as usize).next_multiple_of(block)].fill(0);
        let buf = std::mem::replace(&mut self.buf, BufMut::with_len(0)).freeze();
        let mut parts: Parts = unsaved.into_iter().map(|range| (range.start as u32, buf.slice(range))).collect();
        parts.push((table as u32, buf.slice(table..padded)));
        parts.push((0, buf.slice(..(HEAD_BYTES as usize).next_multiple_of(block))));
        let written = self.written(&parts);
        (head, parts, written)
    }

    /// The header, with `entries`, of this WEU, which is empty here, and whose extents are on the SSD already. `None`:
    /// these cannot be entries of one WEU.
    pub(crate) fn header_again(
        mut self,
        entries: Vec<Entry>,
        identity: Identity,
        block_bytes: u32,
    ) -> Option<(Head, Parts)> {
        let weu_bytes = self.buf.len() as u32;
        let packed = entries.iter().filter(|entry| !entry.raw).map(|entry| entry.offset + entry.stored_bytes);
        let end = packed.max().unwrap_or(HEAD_BYTES).max(HEAD_BYTES);
        let raw = entries.iter().filter(|entry| entry.raw).map(|entry| entry.offset).min().unwrap_or(weu_bytes);
        self.packed_end = (end as usize).next_multiple_of(block_bytes as usize);
        let table_end = self.packed_end + entries.len() * ENTRY_BYTES as usize;
        if table_end > raw as usize || entries.len() > ENTRIES_MAX as usize {
            return None;
        }
        self.saved = (self.packed_end, self.raw_start);
        self.entries = entries;
        let (head, parts, _) = self.complete(identity, block_bytes);
        Some((head, parts))
    }

    /// The parts to write if the entry table ends at `end`. The part with the head is the last one.
    fn cut(&mut self, end: usize, block_bytes: usize) -> Parts {
        let mut buf = std::mem::replace(&mut self.buf, BufMut::with_len(0));
        let (len, raw_start) = (buf.len(), self.raw_start);
        let front = end.next_multiple_of(block_bytes).min(raw_start);
        if raw_start < len && raw_start - front <= len / GAP_WRITTEN {
            buf[end..raw_start].fill(0);
            return Parts::from_iter([(0, buf.freeze())]);
        }
        buf[end..front].fill(0);
        let bytes = buf.freeze();
        let back = (raw_start < len).then(|| (raw_start as u32, bytes.slice(raw_start..)));
        back.into_iter().chain([(0, bytes.slice(..front))]).collect()
    }
}
