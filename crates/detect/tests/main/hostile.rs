//! Bytes that nobody meant well.

use crate::support::run;
use nitro_detect::Detector;
use nitro_testkit::Rng;
use proptest::prelude::*;
use std::fs::File;
use std::io::Read as _;
use std::sync::OnceLock;
use tempfile::TempDir;

const RAM: u64 = 256 << 10;

/// How file systems are made.
const MADE: [&[&str]; 4] = [
    &["mke2fs", "-q", "-F", "-t", "ext4"],
    &["mkfs.xfs", "-q", "-f"],
    &["mkfs.btrfs", "-q", "-n", "4096"],
    &["mkntfs", "-q", "-F", "-f"],
];

/// Their first bytes, in which they describe themselves.
fn images() -> &'static [Vec<u8>] {
    static IMAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    IMAGES.get_or_init(|| {
        let made = |made: &&[&str]| {
            let place = TempDir::new().unwrap();
            let path = place.path().join("image");
            File::create(&path).unwrap().set_len(320 << 20).unwrap();
            run(made[0], &[&made[1..], &[path.to_str().unwrap()]].concat());
            let mut bytes = vec![0; 1 << 20];
            File::open(&path).unwrap().read_exact(&mut bytes).unwrap();
            bytes
        };
        MADE.iter().map(made).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever is in the blocks, nothing panics, and RAM stays within its bound.
    #[test]
    fn forged_file_systems_harm_nobody(seed in any::<u64>(), changes in 0u64..400, kind in 0..MADE.len(), sixteen in any::<bool>()) {
        let mut bytes = images()[kind].clone();
        let mut random = Rng::new(seed | 1);
        let reach = if sixteen { 16 << 10 } else { bytes.len() as u64 };
        for _ in 0..changes {
            // That of btrfs begins at 64 KiB.
            let at = random.below(reach) as usize + if kind == 2 && sixteen { 64 << 10 } else { 0 };
            bytes[at] = random.below(256) as u8;
        }
        let mut detector = Detector::new(RAM);
        if seed % 2 == 0 {
            detector.scan(1 << 40);
        }
        for _ in 0..2 {
            for (number, extent) in bytes.chunks(4096 << random.below(3)).enumerate() {
                detector.look((number * extent.len()) as u64, extent);
            }
        }
        detector.look(u64::MAX / 1024 * 1024, &bytes[..4096]);
        prop_assert!(detector.counters().ram_bytes <= RAM);
        let _ = detector.worth_reading();
        // A scan ends: it reads no more than there is.
        detector.scan(bytes.len() as u64);
        let mut read = 0;
        while let Some(range) = detector.next_to_scan() {
            read += range.end - range.start;
            detector.look(range.start, &bytes[range.start as usize..range.end as usize]);
            prop_assert!(detector.counters().ram_bytes <= RAM);
        }
        prop_assert!(read <= bytes.len() as u64);
    }
}
