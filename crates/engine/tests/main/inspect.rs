//! Looking at cache devices, whole and damaged, beside the engine started on them.

mod damage;
mod fixture;
pub mod image;
mod make;
mod salvage;
mod verdict;

use damage::{DEED_BYTES, Target};
use image::Ram;
use nitro_testkit::{Rng, seeds};
use verdict::{Trusted, check, judge};

#[test]
fn a_killed_cache_is_sound() {
    let image = make::image();
    let report = check(&Ram::new(image.clone())).unwrap();
    assert_eq!((report.problems, report.notes), (vec![], vec![]));
    let counts = report.counts;
    assert!(counts.weus == 2 && counts.unsealed_weus == 1 && counts.dirty_extents == 34, "{counts:?}");
    judge(image, Trusted::Journal);
}

#[test]
fn what_a_crash_leaves_is_no_damage() {
    let mut unfinished = 0;
    make::crashed(300, |seed, image| {
        let report = check(&Ram::new(image.clone())).unwrap();
        assert_eq!(report.problems, [], "seed {seed}");
        unfinished += usize::from(!report.notes.is_empty());
        judge(image, Trusted::Checksums);
    });
    assert!(unfinished > 20, "only {unfinished} crashes left a trace");
}

#[test]
fn no_damage_yields_wrong_bytes_or_a_panic() {
    let target = Target::new(make::image());
    for seed in seeds(2000) {
        let mut rng = Rng::new(seed);
        let deeds = 1 + rng.below(5);
        let script: Vec<u8> = (0..deeds as usize * DEED_BYTES).map(|_| rng.next() as u8).collect();
        let (image, trusted) = target.damaged(&script);
        if let Err(panic) = std::panic::catch_unwind(|| judge(image, trusted)) {
            eprintln!("seed {seed}, {trusted:?}, {script:?}");
            std::panic::resume_unwind(panic);
        }
    }
}
