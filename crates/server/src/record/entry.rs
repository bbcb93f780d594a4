//! A request that waits to be recorded, and the record made from it.

use bytes::{Bytes, BytesMut};
use nitro_frontend::Pieces;
use nitro_port::codec::{Compression, Compressor, FingerprintHash};
use nitro_trace::{Op, Request};
use nitro_units::ClassId;

/// The unit of fingerprints: small enough to simulate extents of every size.
pub(super) const BLOCK_BYTES: u32 = 4096;

pub(super) struct Entry {
    pub(super) time_ns: u64,
    pub(super) op: Op,
    pub(super) object: u32,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) class: ClassId,
    pub(super) content: Content,
}

/// The data of a read or write.
pub(super) struct Content {
    pub(super) data: Pieces,
    /// The unit of compression.
    pub(super) extent_bytes: u32,
}

impl Content {
    /// Bytes of memory that it keeps.
    pub(super) fn bytes(&self) -> u64 {
        self.data.iter().map(|piece| piece.len() as u64).sum()
    }

    /// The data in one buffer.
    fn whole(&self) -> Bytes {
        match &self.data[..] {
            [only] => only.clone(),
            pieces => {
                let mut whole = BytesMut::with_capacity(self.bytes() as usize);
                pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        }
    }
}

impl Entry {
    /// The record: fingerprints if the request consists of whole blocks, and the size of each extent, or part of an
    /// extent, after compression with LZ4.
    pub(super) fn request(&self, compressor: &mut Compressor) -> Request {
        let mut request = Request {
            time_ns: self.time_ns,
            op: self.op,
            object: self.object,
            offset: self.offset,
            len: self.len.into(),
            class: self.class,
            ..Request::default()
        };
        let data = self.content.whole();
        if data.is_empty() {
            return request;
        }
        let block = u64::from(BLOCK_BYTES);
        if self.offset.is_multiple_of(block) && (data.len() as u64).is_multiple_of(block) {
            request.block_bytes = BLOCK_BYTES;
            let blocks = data.chunks_exact(BLOCK_BYTES as usize);
            request.fingerprints = blocks.map(|block| FingerprintHash::Blake3.of(block)).collect();
        }
        let mut compressed_bytes = 0;
        let mut rest = data;
        let mut at = self.offset;
        while !rest.is_empty() {
            let extent = u64::from(self.content.extent_bytes);
            let len = (extent - at % extent).min(rest.len() as u64);
            compressed_bytes += compressor.compress(&rest.split_to(len as usize)).1.len();
            at += len;
        }
        request.compressed_bytes = Some(compressed_bytes as u32);
        request
    }

    /// The compressor for [`request`](Self::request).
    pub(super) fn compressor() -> Compressor {
        Compressor::new(Compression::Lz4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(offset: u64, pieces: &[Vec<u8>]) -> Entry {
        let data = pieces.iter().map(|piece| Bytes::from(piece.clone())).collect();
        let len = pieces.iter().map(Vec::len).sum::<usize>() as u32;
        let content = Content { data, extent_bytes: 8192 };
        Entry { time_ns: 1, op: Op::Write, object: 2, offset, len, class: ClassId::UNCLASSIFIED, content }
    }

    #[test]
    fn whole_blocks_have_fingerprints_and_others_have_none() {
        let mut compressor = Entry::compressor();
        let request = entry(4096, &[vec![1; 4096], vec![2; 8192]]).request(&mut compressor);
        let expected: Vec<_> = [1, 2, 2].map(|byte| FingerprintHash::Blake3.of(&[byte; 4096])).into();
        assert_eq!((request.block_bytes, &request.fingerprints), (4096, &expected));
        // Pieces do not show: the same bytes in others give the same.
        let pieces = [vec![1; 4000], [vec![1; 96], vec![2; 8192]].concat()];
        assert_eq!(entry(4096, &pieces).request(&mut compressor), request);
        assert!(request.compressed_bytes.is_some_and(|bytes| bytes < 1000), "{request:?}");
        for (offset, len) in [(512, 4096), (4096, 4095), (0, 512)] {
            let request = entry(offset, &[vec![1; len]]).request(&mut compressor);
            assert!(request.fingerprints.is_empty() && request.block_bytes == 0);
            assert!(request.compressed_bytes.is_some());
        }
        assert_eq!(entry(0, &[]).request(&mut compressor).compressed_bytes, None);
    }
}
