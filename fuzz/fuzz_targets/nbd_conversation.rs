//! Any bytes from a client: the server ends, does not panic, and stays within its limits of memory.
//! Input: two bytes, by how many the client sends at a time; then what it sends.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::{gauge, nbd};

/// Above what the limits allow in flight, the streams hold bytes, and the receive and send buffers.
const MEMORY_BYTES_MAX: usize = 1 << 20;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((piece_bytes, bytes)) = data.split_first_chunk() else { return Corpus::Reject };
    let piece_bytes = u16::from_le_bytes(*piece_bytes).into();
    let (_, peak) = gauge::peak_bytes(|| nbd::converse(bytes.to_vec(), piece_bytes, |_| {}));
    assert!(peak < bytes.len() + MEMORY_BYTES_MAX, "{peak} bytes of memory");
    Corpus::Keep
});
