//! Packed extents: the prefix vouches for the payload, and a payload that is not what its encoding says is refused.
//! Input: one byte, the encoding; two bytes that choose a place; then the payload.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_engine::format::stored::{Place, payload_range, prefix};
use nitro_port::codec::{Compression, Compressor, Encoding, decode};
use nitro_units::{Generation, WeuId};

const EXTENT_BYTES: [usize; 3] = [512, 4096, 8192];

/// Bytes as they might stand on flash, taken for a stored extent.
fn as_they_are(place: &Place, bytes: &[u8]) {
    if let Some((_, range)) = payload_range(place, bytes) {
        assert!(range.start <= range.end && range.end <= bytes.len());
    }
}

/// A payload with a prefix that fits it.
fn with_prefix(place: &Place, encoding: Encoding, payload: &[u8], flip: u8) {
    let mut stored = prefix(place, encoding, payload).to_vec();
    stored.extend(payload);
    assert_eq!(payload_range(place, &stored), Some((encoding, 8..stored.len())));
    let other = Place { generation: Generation(place.generation.0 ^ 1), ..*place };
    assert_eq!(payload_range(&other, &stored), None, "another filling's bytes pass");
    if !payload.is_empty() {
        let at = 8 + usize::from(flip) % payload.len();
        stored[at] ^= 1 << (flip % 8);
        assert_eq!(payload_range(place, &stored), None, "a flipped bit passes");
    }
    for extent_bytes in EXTENT_BYTES {
        if let Some(extent) = decode(encoding, Bytes::copy_from_slice(payload), extent_bytes) {
            assert_eq!(extent.len(), extent_bytes);
        }
    }
}

/// The payload as an extent: what is compressed comes back.
fn round_trip(extent: &Bytes) {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (encoding, payload) = Compressor::new(compression).compress(extent);
        assert!(payload.len() <= extent.len());
        assert_eq!(decode(encoding, payload, extent.len()).as_ref(), Some(extent));
    }
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let [encoding, a, b, payload @ ..] = data else { return Corpus::Reject };
    let Some(encoding) = Encoding::from_number(1 + encoding % 2) else { return Corpus::Reject };
    let place = Place {
        epoch: 7,
        start: 1,
        weu: WeuId((*a).into()),
        generation: Generation(u32::from(*b)),
        offset: u32::from(*a) * 16,
    };
    as_they_are(&place, data);
    with_prefix(&place, encoding, payload, a ^ b);
    if !payload.is_empty() {
        round_trip(&Bytes::copy_from_slice(payload));
    }
    Corpus::Keep
});
