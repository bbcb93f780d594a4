//! Answers of a server that is taken for etcd: any bytes are understood or refused, and take memory in proportion to their length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nitro_cluster::parse_answer;
use nitro_fuzz::gauge;

fuzz_target!(|data: &[u8]| {
    let (_, peak) = gauge::peak_bytes(|| {
        if let Ok(answer) = parse_answer(data) {
            // A part of an answer takes two bytes at least.
            assert!(answer.responses.len() <= data.len() / 2);
        }
    });
    // An empty key takes three bytes, and 64 in memory, in a vector that doubles.
    assert!(peak < 96 * data.len() + (64 << 10), "{peak} bytes of memory");
});
