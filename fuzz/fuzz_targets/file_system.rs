//! Blocks of a volume, for what looks at them for file systems: a small ext4 or XFS whose bytes were changed, in extents of any size.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nitro_detect::{Detector, PIECE_BYTES};

const RAM_BYTES: u64 = 64 << 10;
const VOLUME_BYTES: u64 = 64 << 20;

#[derive(Debug, Arbitrary)]
struct Look<'a> {
    piece: u32,
    bytes: &'a [u8],
}

fuzz_target!(|looks: Vec<Look<'_>>| {
    let mut detector = Detector::new(RAM_BYTES);
    if looks.first().is_some_and(|look| look.piece % 2 > 0) {
        detector.scan(VOLUME_BYTES);
    }
    for look in looks {
        let offset = u64::from(look.piece) * PIECE_BYTES;
        let sighting = detector.look(offset, look.bytes);
        assert!(sighting.learned.iter().all(|(range, _)| range.start < range.end));
        assert!(detector.counters().ram_bytes <= RAM_BYTES);
    }
    let _ = detector.worth_reading();
    let mut read = 0;
    while let Some(range) = detector.next_to_scan() {
        read += range.end - range.start;
    }
    assert!(read <= VOLUME_BYTES);
});
