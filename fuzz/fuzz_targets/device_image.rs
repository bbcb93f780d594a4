//! Cache devices: a frozen image that the engine made (clean and dirty extents, duplicates, a journal that went to its
//! other half, a write-evict unit without a header), damaged as the input says, is started and read whole, checked and
//! salvaged. Nobody panics, nothing wrong is given, and all agree on what is lost. Input: deeds of nine bytes, a number
//! and two operands (see `damage.rs` beside the engine's tests): bits flipped, sectors zeroed, exchanged, overwritten,
//! the journal cut off, checksums made anew.
#![no_main]
#![expect(clippy::unwrap_used, reason = "a target fails by panicking")]

#[path = "../../crates/engine/tests/main/inspect/damage.rs"]
mod damage;
#[expect(dead_code, reason = "the engine's tests make images, too")]
#[path = "../../crates/engine/tests/main/inspect/image.rs"]
mod image;
#[path = "../../crates/engine/tests/main/inspect/verdict.rs"]
mod verdict;

use damage::{DEED_BYTES, Target};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const IMAGE: &[u8] = include_bytes!("../../crates/engine/tests/fixtures/v1.img.zst");
/// More deeds leave little to look at.
const DEEDS_MAX: usize = 16;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let image = zstd::bulk::decompress(IMAGE, image::image_bytes()).unwrap();
    Target::new(image)
});

fuzz_target!(|script: &[u8]| {
    let (image, trusted) = TARGET.damaged(&script[..script.len().min(DEEDS_MAX * DEED_BYTES)]);
    verdict::judge(image, trusted);
});
