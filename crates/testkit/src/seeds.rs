//! The seeds of a test, and how to repeat one of them.

use std::ops::Range;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;

/// The seeds of a test: the one in `NITRO_SEED`; else the first ones. Their number is `count`, or what `NITRO_SEEDS` says:
/// `2000`, or `x20` for twenty times `count`, as seeds of one test take a hundred times as long as those of another.
///
/// # Panics
/// If a variable holds neither.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let text = |name| std::env::var(name).unwrap_or_default();
    if let Some(seed) = number("NITRO_SEED", &text("NITRO_SEED")) {
        return seed..seed + 1;
    }
    0..many(count, &text("NITRO_SEEDS"))
}

fn many(count: u64, text: &str) -> u64 {
    match text.strip_prefix('x') {
        Some(times) => count * number("NITRO_SEEDS", times).unwrap_or(1),
        None => number("NITRO_SEEDS", text).unwrap_or(count),
    }
}

fn number(name: &str, text: &str) -> Option<u64> {
    let number = text.parse().ok();
    assert!(number.is_some() || text.is_empty(), "{name} is not a number: {text}");
    number
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_seeds_is_absolute_or_a_multiple() {
        assert_eq!(["", "7", "x7", "x1"].map(|text| many(30, text)), [30, 7, 210, 30]);
        for text in ["7x", "x-1", "many"] {
            assert!(catch_unwind(|| many(30, text)).is_err(), "{text}");
        }
    }
}
