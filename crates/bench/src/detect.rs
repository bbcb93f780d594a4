//! The cost of examining the blocks of a volume for file-system structures.

use crate::load::{EXTENT, Failure, thread_cpu_time};
use nitro_detect::Detector;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes of a read of the image; reads are not timed.
const READ_BYTES: usize = 4 << 20;
const BLOCK_BYTES: f64 = 4096.0;
const RAM_BYTES: u64 = 16 << 20;

/// Passes an image to a detector, extent by extent, twice: when nothing is known, and when everything is. Zeroes are
/// skipped, as in the engine. Prints the CPU time for each 4 KiB.
pub fn run(image: &Path) -> Result<(), Failure> {
    let mut detector = Detector::new(RAM_BYTES);
    for pass in ["first", "second"] {
        let (mut file, mut piece) = (File::open(image)?, vec![0; READ_BYTES]);
        let (mut at, mut looked_at, mut seconds) = (0u64, 0u64, 0.0);
        loop {
            let read = file.read(&mut piece)?;
            if read == 0 {
                break;
            }
            let extents = piece[..read].chunks_exact(EXTENT).zip((at..).step_by(EXTENT));
            let extents: Vec<_> = extents.filter(|(extent, _)| extent.iter().any(|byte| *byte != 0)).collect();
            let begun = thread_cpu_time();
            for (extent, at) in &extents {
                std::hint::black_box(detector.look(*at, extent));
            }
            seconds += (thread_cpu_time() - begun).as_secs_f64();
            looked_at += (extents.len() * EXTENT) as u64;
            at += read as u64;
        }
        let counters = detector.counters();
        println!(
            "detect-{pass} us_per_4k={:.4} mib={} inodes={} ranges={} ram_bytes={}",
            seconds * 1e6 / (looked_at as f64 / BLOCK_BYTES),
            looked_at >> 20,
            counters.inodes,
            counters.ranges,
            counters.ram_bytes
        );
    }
    Ok(())
}
