//! A deterministic world: a seeded random generator, an executor that polls ready tasks in seeded order, a clock that
//! moves when nothing else can, and devices that take a seeded while.

mod device;
mod executor;

pub use device::Jittery;
pub use executor::{SimClock, Simulation};
pub use nitro_testkit::Rng;

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
