//! Any bytes from a server: the client does not panic, gets answers of the lengths that it asked for, and takes little memory.
//! Input: a byte, 0 for a server of which everything is in the input, else one that has shaken hands; a byte, by how many it speaks at a
//! time; then what it says.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::{gauge, nbd_client};

/// What the client's requests may take, and its buffers.
const MEMORY_BYTES_MAX: usize = 2 << 20;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(([kind, piece_bytes], says)) = data.split_first_chunk() else { return Corpus::Reject };
    let start = match kind {
        0 => Vec::new(),
        flags => nbd_client::handshake(u16::from(*flags) | 1),
    };
    let bytes = [start.as_slice(), says].concat();
    let (_, peak) = gauge::peak_bytes(|| nbd_client::hear(bytes.clone(), usize::from(*piece_bytes)));
    assert!(peak < 2 * bytes.len() + MEMORY_BYTES_MAX, "{peak} bytes of memory");
    Corpus::Keep
});
