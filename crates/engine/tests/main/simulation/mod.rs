//! A deterministic world: a seeded random generator, an executor that polls ready tasks in seeded order, a clock that
//! moves when nothing else can, and devices that take a seeded while.

mod device;
mod executor;

pub use device::Jittery;
pub use executor::{SimClock, Simulation};

/// SplitMix64: small, seeded, good enough to choose by.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Runs `scenario` for each seed; a failing one is named, and `NITRO_SEED=<seed>` runs it alone. `NITRO_SEEDS=<count>`
/// runs more of them.
pub fn for_seeds(count: u64, scenario: impl Fn(u64) + std::panic::RefUnwindSafe) {
    if let Ok(seed) = std::env::var("NITRO_SEED") {
        return scenario(seed.parse().expect("NITRO_SEED is a number"));
    }
    let count = std::env::var("NITRO_SEEDS").map_or(count, |n| n.parse().expect("NITRO_SEEDS is a number"));
    for seed in 0..count {
        if let Err(panic) = std::panic::catch_unwind(|| scenario(seed)) {
            eprintln!("failing seed: replay with NITRO_SEED={seed} and this test's name");
            std::panic::resume_unwind(panic);
        }
    }
}
