//! A WEU being filled in RAM.

use crate::buf::BufMut;
use crate::codec::Encoding;
use crate::format::stored::{Place, prefix};
use crate::format::weu::{Entry, Head, encode_table};
use bytes::Bytes;
use nitro_cache::weu::layout::{ENTRY_BYTES, HEAD_BYTES, PREFIX_BYTES, UNIT_BYTES};
use nitro_cache::{ExtentKey, Fingerprint, Generation, WeuId};

/// How the bytes of a written WEU divide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) payload_bytes: u64,
    pub(super) header_bytes: u64,
    pub(super) padding_bytes: u64,
}

/// The bytes and entries of one WEU.
pub(super) struct OpenWeu {
    pub(super) weu: WeuId,
    pub(super) generation: Generation,
    buf: BufMut,
    end: u32,
    entries: Vec<Entry>,
    payload_bytes: u64,
}

impl OpenWeu {
    pub(super) fn new(weu: WeuId, generation: Generation, weu_bytes: u32) -> Self {
        let buf = BufMut::with_len(weu_bytes as usize);
        Self { weu, generation, buf, end: HEAD_BYTES, entries: Vec::new(), payload_bytes: 0 }
    }

    /// Puts an extent at the place that the manager gave it.
    pub(super) fn put(
        &mut self,
        place: &Place,
        key: ExtentKey,
        fingerprint: Option<Fingerprint>,
        (encoding, payload): (Encoding, &[u8]),
        extent_bytes: u32,
    ) {
        let stored_bytes = if payload.is_empty() { 0 } else { PREFIX_BYTES + payload.len() as u32 };
        if stored_bytes > 0 {
            let at = place.offset as usize;
            let payload_at = at + PREFIX_BYTES as usize;
            let end = payload_at + payload.len();
            let padded = end.next_multiple_of(UNIT_BYTES as usize);
            self.buf[at..payload_at].copy_from_slice(&prefix(place, encoding, payload));
            self.buf[payload_at..end].copy_from_slice(payload);
            self.buf[end..padded].fill(0);
            self.end = padded as u32;
        }
        self.payload_bytes += payload.len() as u64;
        self.entries.push(Entry { key, fingerprint, offset: place.offset, stored_bytes, extent_bytes });
    }

    /// Completes the header. What is to be written are the returned bytes, from the WEU's start: its end stays as it
    /// is on the device.
    pub(super) fn seal(mut self, epoch: u64, block_bytes: u32) -> (Bytes, Written) {
        let table_bytes = self.entries.len() as u32 * ENTRY_BYTES;
        let (table, end) = (self.end as usize, (self.end + table_bytes) as usize);
        let table_crc = encode_table(&self.entries, &mut self.buf[table..end]);
        let head = Head {
            weu: self.weu,
            generation: self.generation,
            entries: self.entries.len() as u32,
            table_offset: self.end,
            table_crc,
            epoch,
        };
        head.encode(&mut self.buf);
        let len = end.next_multiple_of(block_bytes as usize).min(self.buf.len());
        self.buf[end..len].fill(0);
        self.buf.truncate(len);
        let stored = self.entries.iter().filter(|e| e.stored_bytes > 0).count() as u64;
        let header_bytes = u64::from(HEAD_BYTES + table_bytes) + stored * u64::from(PREFIX_BYTES);
        let padding_bytes = len as u64 - header_bytes - self.payload_bytes;
        (self.buf.freeze(), Written { payload_bytes: self.payload_bytes, header_bytes, padding_bytes })
    }
}
