//! Any bytes from an initiator, before or after its login: the target ends, does not panic, and stays within its limits of memory.
//! Input: two bytes, by how many the initiator sends at a time, the lowest bit: whether it logs in first; then what it sends.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::{gauge, iscsi};

/// Above the input: the streams hold bytes, the receive and send buffers, data of commands.
const MEMORY_BYTES_MAX: usize = 2 << 20;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((piece_bytes, bytes)) = data.split_first_chunk() else { return Corpus::Reject };
    let piece_bytes = usize::from(u16::from_le_bytes(*piece_bytes));
    let mut all = if piece_bytes % 2 == 1 { iscsi::login() } else { Vec::new() };
    all.extend(bytes);
    let len = all.len();
    let (_, peak) = gauge::peak_bytes(|| iscsi::converse(all, piece_bytes, |_| {}));
    assert!(peak < len + MEMORY_BYTES_MAX, "{peak} bytes of memory");
    Corpus::Keep
});
