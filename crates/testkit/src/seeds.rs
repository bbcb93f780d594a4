//! The seeds of a test, and how to repeat one of them.

use std::ops::Range;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

/// The seeds of a test: the one in `NITRO_SEED`, else the first `NITRO_SEEDS`, else the first `count`.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("NITRO_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NITRO_SEEDS").unwrap_or(count),
    }
}

/// Runs `scenario` once for each seed of [`seeds`]`(count)`. Prints the seed of a failure.
pub fn for_seeds(count: u64, scenario: impl Fn(u64) + RefUnwindSafe) {
    for seed in seeds(count) {
        if let Err(panic) = catch_unwind(|| scenario(seed)) {
            eprintln!("failing seed: replay with NITRO_SEED={seed} and this test's name");
            resume_unwind(panic);
        }
    }
}

/// Prints an event to standard error if `NITRO_TRACE` is set.
pub fn trace(what: impl FnOnce() -> String) {
    static WANTED: LazyLock<bool> = LazyLock::new(|| std::env::var_os("NITRO_TRACE").is_some());
    if *WANTED {
        eprintln!("{}", what());
    }
}

/// A guard that prints how to repeat the seed when the test panics.
#[derive(Debug)]
pub struct Replay {
    seed: u64,
    package: &'static str,
    test: &'static str,
}

impl Replay {
    /// A guard for a seed of a test in the test binary `main` of a package.
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
