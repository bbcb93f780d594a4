//! `nitro estimate` on an image of known content.

use crate::support::{Place, noise};
use serde_json::Value;
use std::io::{Seek, SeekFrom, Write};

/// 4 MiB of noise of which each half is the same, 1 MiB of text, 1 MiB of zeroes, and a hole of 10 MiB.
fn image(place: &Place) {
    let half = noise(7, 2 << 20);
    let mut file = std::fs::File::create(place.path("vm.img")).unwrap();
    file.write_all(&half).unwrap();
    file.write_all(&half).unwrap();
    let text: Vec<u8> = (0u32..).flat_map(|n| format!("{n:08} lines and lines\n").into_bytes()).take(1 << 20).collect();
    file.write_all(&text).unwrap();
    file.write_all(&vec![0; 1 << 20]).unwrap();
    file.seek(SeekFrom::Current((10 << 20) - 1)).unwrap();
    file.write_all(&[0]).unwrap();
}

#[test]
fn known_duplicates_are_found() {
    let place = Place::new();
    image(&place);
    let report: Value = serde_json::from_str(&place.stdout("estimate vm.img --extent-size 4K,8K -o json")).unwrap();
    assert_eq!(report["image_bytes"], 16 << 20);
    assert!(report["hole_bytes"].as_u64().unwrap() >= 8 << 20, "{report}");
    for (size, extents) in [(0, 1280.0), (1, 640.0)] {
        let by_size = &report["extent_sizes"][size];
        let others = by_size["extents"].as_f64().unwrap() - by_size["zero_extents"].as_f64().unwrap();
        assert_eq!(others, extents, "{report}");
        // 4 MiB of noise and 1 MiB of text; different are 3 MiB.
        assert!((by_size["dedup_ratio"].as_f64().unwrap() - 5.0 / 3.0).abs() < 1e-9, "{report}");
        assert!(by_size["lz4_ratio"].as_f64().unwrap() > 1.2 && by_size["dedup_exact"] == true, "{report}");
    }
}

#[test]
fn tables_csv_and_samples() {
    let place = Place::new();
    image(&place);
    assert!(place.stdout("estimate vm.img").contains("dedup × LZ4"));
    let csv = place.stdout("estimate vm.img -o csv --sample 50 --threads 2");
    assert!(csv.starts_with("extent_bytes,extents,zero_extents,") && csv.lines().count() == 5, "{csv}");
    assert!(place.failure("estimate gone.img", 1).contains("check the path"));
    assert!(place.failure("estimate vm.img --extent-size 5000", 1).contains("the nearest valid value is 4096"));
    assert!(place.failure("estimate vm.img --sample 0", 2).contains("percent"));
}
