//! Stores: superblocks, batches of the journal, regions, metadata of containers and blocks of recipes, with right checksums, are
//! refused or come back as they were, in memory for what they may hold. Input: one byte that says what, then its bytes.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::gauge;

/// A region's content, and buffers around it.
const SLACK_BYTES: usize = 4 << 20;

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((which, bytes)) = input.split_first() else { return Corpus::Reject };
    let (_, peak) = gauge::peak_bytes(|| nitro_cos::fuzzing::parse(*which, bytes));
    assert!(peak <= SLACK_BYTES + 64 * bytes.len(), "{peak} bytes to parse {}", bytes.len());
    Corpus::Keep
});
