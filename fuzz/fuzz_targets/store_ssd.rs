//! What stands on a store's SSD: superblocks, pages of short fingerprints, and units with right checksums are refused, or go into the cache manager and come out of
//! it, in memory for what they may hold. Input: one byte that says what, then its bytes.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::gauge;

/// A cache manager of a few units, and buffers around it.
const SLACK_BYTES: usize = 4 << 20;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((which, bytes)) = input.split_first() else { return Corpus::Reject };
    let (_, peak) = gauge::peak_bytes(|| nitro_cos::fuzzing::parse_ssd(*which, bytes));
    assert!(peak <= SLACK_BYTES + 64 * bytes.len(), "{peak} bytes to parse {}", bytes.len());
    Corpus::Keep
});
