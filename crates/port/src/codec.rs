//! Compression and fingerprinting of extents.

use crate::buf::BufMut;
use bytes::Bytes;
use nitro_units::Fingerprint;
use sha1::Digest;
use std::cell::RefCell;

/// How extents are compressed before they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression (the paper's NC).
    None,
    /// LZ4: fast enough to be on the read path (the paper's default).
    #[default]
    Lz4,
    /// Zstandard, level 1: denser, about three times slower to read.
    Zstd,
}

/// How the bytes of one stored extent are encoded; its number is stored on flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// As they are.
    Raw = 0,
    /// One LZ4 block.
    Lz4 = 1,
    /// One Zstandard frame.
    Zstd = 2,
}

impl Encoding {
    /// The encoding of a number on flash.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Raw),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The most bytes of a compressed extent. An extent is stored compressed only if that saves at least a sixteenth; below,
/// decompression would cost more than the bytes are worth.
#[must_use]
pub const fn compressed_bytes_max(extent_bytes: usize) -> usize {
    extent_bytes - extent_bytes / 16
}

const ZSTD_LEVEL: i32 = 1;

/// Compresses one extent at a time; not shared between threads.
pub struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// As long as the longest extent so far.
    out: Vec<u8>,
}

impl Compressor {
    /// A compressor. Where Zstandard cannot be set up, extents are stored raw.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        let zstd = (compression == Compression::Zstd).then(|| zstd::bulk::Compressor::new(ZSTD_LEVEL).ok()).flatten();
        Self { compression, zstd, out: Vec::new() }
    }

    /// Sets the compression.
    pub fn use_codec(&mut self, compression: Compression) {
        if self.compression != compression {
            let out = std::mem::take(&mut self.out);
            *self = Self { out, ..Self::new(compression) };
        }
    }

    /// Compresses an extent into memory of the size of the result; returns the extent itself if it does not shrink by a
    /// sixteenth.
    pub fn compress(&mut self, extent: &Bytes) -> (Encoding, Bytes) {
        let len_max = compressed_bytes_max(extent.len());
        if self.out.len() < len_max {
            self.out.resize(len_max, 0);
        }
        let out = &mut self.out[..len_max];
        let (encoding, compressed) = match (self.compression, &mut self.zstd) {
            (Compression::Lz4, _) => (Encoding::Lz4, lz4::block::compress_to_buffer(extent, None, false, out).ok()),
            (Compression::Zstd, Some(zstd)) => (Encoding::Zstd, zstd.compress_to_buffer(extent, out).ok()),
            _ => (Encoding::Raw, None),
        };
        match compressed {
            Some(len) if len > 0 => (encoding, Bytes::copy_from_slice(&self.out[..len])),
            _ => (Encoding::Raw, extent.clone()),
        }
    }
}

thread_local! {
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decodes a stored extent of `extent_bytes`. `None`: the payload does not match the encoding. Raw payloads are not
/// copied.
#[must_use]
pub fn decode(encoding: Encoding, payload: Bytes, extent_bytes: usize) -> Option<Bytes> {
    if encoding == Encoding::Raw {
        return (payload.len() == extent_bytes).then_some(payload);
    }
    let mut out = BufMut::with_len(extent_bytes);
    let len = match encoding {
        Encoding::Lz4 => lz4::block::decompress_to_buffer(&payload, Some(extent_bytes as i32), &mut out).ok()?,
        _ => ZSTD.with(|zstd| {
            let mut zstd = zstd.borrow_mut();
            if zstd.is_none() {
                *zstd = zstd::bulk::Decompressor::new().ok();
            }
            zstd.as_mut()?.decompress_to_buffer(&payload, &mut out[..]).ok()
        })?,
    };
    (len == extent_bytes).then(|| out.freeze())
}

/// The hash function of fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FingerprintHash {
    /// BLAKE3, cut to 160 bits.
    #[default]
    Blake3,
    /// SHA-1, as in the paper.
    Sha1,
}

impl FingerprintHash {
    /// The fingerprint of an extent.
    #[must_use]
    pub fn of(self, extent: &[u8]) -> Fingerprint {
        match self {
            Self::Blake3 => {
                let mut fingerprint = [0; 20];
                fingerprint.copy_from_slice(&blake3::hash(extent).as_bytes()[..20]);
                Fingerprint(fingerprint)
            }
            Self::Sha1 => Fingerprint(sha1::Sha1::digest(extent).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(seed: u64, compressible: bool) -> Bytes {
        let mut state = seed | 1;
        let mut out = BufMut::with_len(8192);
        for chunk in out.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let word = if compressible { state & 0x0F0F_0003 } else { state };
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out.freeze()
    }

    #[test]
    fn what_shrinks_is_compressed_and_comes_back() {
        for (compression, encoding) in [(Compression::Lz4, Encoding::Lz4), (Compression::Zstd, Encoding::Zstd)] {
            let data = extent(7, true);
            let (found, payload) = Compressor::new(compression).compress(&data);
            assert!(found == encoding && payload.len() < data.len() * 15 / 16);
            assert_eq!(decode(found, payload.clone(), 8192), Some(data));
            assert_eq!(decode(found, payload.slice(1..), 8192), None);
        }
    }

    #[test]
    fn what_does_not_shrink_is_stored_raw_without_a_copy() {
        let data = extent(9, false);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let (encoding, payload) = Compressor::new(compression).compress(&data);
            assert_eq!((encoding, payload.as_ptr()), (Encoding::Raw, data.as_ptr()));
        }
        assert_eq!(decode(Encoding::Raw, data.slice(..100), 8192), None);
    }

    #[test]
    fn fingerprints_are_the_published_hashes() {
        assert_eq!(FingerprintHash::Sha1.of(b"abc").0[..4], [0xA9, 0x99, 0x3E, 0x36]);
        assert_eq!(FingerprintHash::Blake3.of(b"").0[..4], [0xAF, 0x13, 0x49, 0xB9]);
    }

    proptest! {
        #[test]
        fn decoding_arbitrary_bytes_never_panics(payload in prop::collection::vec(any::<u8>(), 0..9000), encoding in 0u8..3) {
            let _ = decode(Encoding::from_number(encoding).unwrap(), payload.into(), 8192);
        }
    }
}
