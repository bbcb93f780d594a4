//! Seeds to try, and how to try one again.

use std::ops::Range;

/// The seeds to try: the one in `NITRO_SEED`, else as many as `NITRO_SEEDS` says, else the first `count`.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NITRO_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NITRO_SEEDS").unwrap_or(count),
    }
}

/// While it is alive, a panic prints how to run its seed again.
#[derive(Debug)]
pub struct Replay {
    seed: u64,
    package: &'static str,
    test: &'static str,
}

impl Replay {
    /// For a seed of a test in the binary `main` of a package.
    #[must_use]
    pub const fn new(seed: u64, package: &'static str, test: &'static str) -> Self {
        Self { seed, package, test }
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, package, test } = self;
            eprintln!("replay: NITRO_SEED={seed} cargo test -p {package} --test main {test}");
        }
    }
}
