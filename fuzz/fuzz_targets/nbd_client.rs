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
    let (first, then) = match kind {
        0 => (says.to_vec(), Vec::new()),
        flags => (nbd_client::handshake(u16::from(*flags) | 1), says.to_vec()),
    };
    let (_, peak) = gauge::peak_bytes(|| nbd_client::hear(first.clone(), then.clone(), usize::from(*piece_bytes)));
    assert!(peak < 4 * says.len() + MEMORY_BYTES_MAX, "{peak} bytes of memory");
    Corpus::Keep
});
