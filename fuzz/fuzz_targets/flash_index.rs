//! Indexes on flash: images of both kinds, with pages changed as the input says and sealed anew, are opened and used. Nobody
//! panics. Input: one byte that chooses the kind; then changes of fourteen bytes (see `resealed.rs` beside the tests).
#![no_main]
#![expect(clippy::unwrap_used, reason = "a target fails by panicking")]

#[path = "../../crates/index/tests/main/resealed.rs"]
mod resealed;

use libfuzzer_sys::{Corpus, fuzz_target};
use resealed::{CHANGE_BYTES, Kind, image, judge};
use std::sync::LazyLock;

static IMAGES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| [image(Kind::BufferHash), image(Kind::Silt)]);

fuzz_target!(|input: &[u8]| -> Corpus {
    let Some((which, script)) = input.split_first() else { return Corpus::Reject };
    if script.len() < CHANGE_BYTES {
        return Corpus::Reject;
    }
    let [buffer_hash, silt] = &*IMAGES;
    match which % 2 {
        0 => judge(Kind::BufferHash, buffer_hash, script),
        _ => judge(Kind::Silt, silt, script),
    }
    Corpus::Keep
});
