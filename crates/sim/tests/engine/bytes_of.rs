//! Bytes that have the contents which a trace tells by fingerprint.

use bytes::Bytes;
use nitro_port::buf::BufMut;
use nitro_port::codec::{Compression, Compressor, Encoding};
use nitro_trace::Request;
use nitro_trace::content::{Compressibility, fill};
use nitro_units::Fingerprint;

/// The unit of fingerprints in these traces.
pub const BLOCK_BYTES: usize = 4096;

fn block(print: &Fingerprint, to: &mut [u8]) {
    fill(print, Compressibility::default().ratio(print), to);
}

/// What a request reads or writes.
pub fn data(request: &Request) -> Bytes {
    assert_eq!(request.block_bytes as usize, BLOCK_BYTES);
    assert_eq!(request.len as usize, request.fingerprints.len() * BLOCK_BYTES);
    let mut data = BufMut::with_len(request.len as usize);
    for (print, to) in request.fingerprints.iter().zip(data.chunks_exact_mut(BLOCK_BYTES)) {
        block(print, to);
    }
    data.freeze()
}

/// What the engine stores of a request's bytes, in bytes.
pub fn compressed_bytes(request: &Request) -> u32 {
    let data = data(request);
    match Compressor::new(Compression::Lz4).compress(&data) {
        (Encoding::Raw, _) => data.len() as u32,
        (_, payload) => payload.len() as u32,
    }
}

/// The content of a block that the trace does not tell: like that of no other.
pub fn unspecified(number: u64) -> Bytes {
    let mut print = [0xEE; 20];
    print[..8].copy_from_slice(&number.to_le_bytes());
    let mut data = BufMut::with_len(BLOCK_BYTES);
    block(&Fingerprint(print), &mut data);
    data.freeze()
}
