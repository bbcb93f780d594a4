//! Blocks of a volume, for what looks at them for file systems: a small ext4 or XFS whose bytes were changed, in extents of any size.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_detect::{Detector, PIECE_BYTES};

const RAM_BYTES: u64 = 64 << 10;

#[derive(Debug, Arbitrary)]
struct Look<'a> {
    piece: u32,
    bytes: &'a [u8],
}

fuzz_target!(|looks: Vec<Look<'_>>| {
    let mut detector = Detector::new(RAM_BYTES);
    for look in looks {
        let offset = u64::from(look.piece) * PIECE_BYTES;
        let sighting = detector.look(offset, look.bytes);
        assert!(sighting.learned.iter().all(|(range, _)| range.start < range.end));
        assert!(detector.counters().ram_bytes <= RAM_BYTES);
    }
    let _ = detector.worth_reading();
});
