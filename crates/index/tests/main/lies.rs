//! Pages that say wrong things, at random; the fuzz target `flash_index` goes on from here.

use crate::model::replay;
use crate::resealed::{CHANGE_BYTES, Kind, image, judge};
use nitro_testkit::{Rng, seeds};

#[test]
fn pages_that_lie_make_nobody_panic() {
    for kind in [Kind::BufferHash, Kind::Silt] {
        let image = image(kind);
        for seed in seeds(150) {
            let _seed = replay(seed);
            let mut rng = Rng::new(seed);
            let script: Vec<u8> = (0..CHANGE_BYTES * (1 + rng.below(12) as usize)).map(|_| rng.next() as u8).collect();
            judge(kind, &image, &script);
        }
    }
}
