//! Frames of a transfer between stores: with right checksums or as they are, they are refused or are messages that come back, in memory
//! for one of these. Input: one byte, of which the lowest bit says whether checksums are made right, then the frames.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::gauge;

/// A frame, decoded, and buffers around it.
const SLACK_BYTES: usize = 4 << 20;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((which, bytes)) = input.split_first() else { return Corpus::Reject };
    let (_, peak) = gauge::peak_bytes(|| nitro_cos::fuzzing::transfer(bytes, which & 1 == 1));
    assert!(peak <= SLACK_BYTES + 8 * bytes.len(), "{peak} bytes to parse {}", bytes.len());
    Corpus::Keep
});
