//! Bytes that nobody meant well.

use crate::support::{Random, run};
use nitro_detect::Detector;
use proptest::prelude::*;
use std::fs;
use std::sync::OnceLock;
use tempfile::TempDir;

const RAM: u64 = 64 << 10;

/// A small file system's first bytes.
fn image() -> &'static [u8] {
    static IMAGE: OnceLock<Vec<u8>> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let place = TempDir::new().unwrap();
        let path = place.path().join("image");
        run("mke2fs", &["-q", "-F", "-t", "ext4", path.to_str().unwrap(), "16M"]);
        fs::read(&path).unwrap()[..1 << 20].to_vec()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is in the blocks, nothing panics, and RAM stays within its bound.
    #[test]
    fn forged_file_systems_harm_nobody(seed in any::<u64>(), changes in 1u64..400, sixteen in any::<bool>()) {
        let mut bytes = image().to_vec();
        let mut random = Random(seed | 1);
        let reach = if sixteen { 16 << 10 } else { bytes.len() as u64 };
        for _ in 0..changes {
            let at = random.below(reach) as usize;
            bytes[at] = random.below(256) as u8;
        }
        let mut detector = Detector::new(RAM);
        for _ in 0..2 {
            for (number, extent) in bytes.chunks(4096 << random.below(3)).enumerate() {
                detector.look((number * extent.len()) as u64, extent);
            }
        }
        detector.look(u64::MAX / 1024 * 1024, &bytes[..4096]);
        prop_assert!(detector.counters().ram_bytes <= RAM);
        let _ = detector.worth_reading();
    }
}
