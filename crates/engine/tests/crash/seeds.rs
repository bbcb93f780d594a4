//! Seeds, one after the other, on as many threads as there are processors.

use nitro_testkit::seeds;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A seed takes a second of processor time, and a busy one minutes. One that takes so much is caught in an endless loop.
const ENDLESS: Duration = Duration::from_secs(600);
/// The kernel's unit of processor time in `/proc` (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// A thread that runs a seed.
struct Runner {
    /// Its folder in `/proc`.
    folder: PathBuf,
    /// The processor time that it had taken before.
    before: Duration,
}

impl Runner {
    /// The calling thread.
    fn this() -> Self {
        let folder = Path::new("/proc").join(std::fs::read_link("/proc/thread-self").unwrap());
        Self { before: taken(&folder), folder }
    }

    fn is_endless(&self) -> bool {
        taken(&self.folder).saturating_sub(self.before) > ENDLESS
    }
}

/// The processor time of a thread so far; other programs may take the rest (proc(5), fields utime and stime of `stat`).
fn taken(folder: &Path) -> Duration {
    let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u32>().ok());
    TICK * ticks.sum::<u32>()
}

/// Runs `scenario` for the [`seeds`] of a test that has `count` of them. A failing one prints the line that replays it.
/// Returns how many were run.
pub fn for_seeds(test: &str, count: u64, scenario: impl Fn(u64) + Sync) -> u64 {
    let Range { start, end } = seeds(count);
    let (next, failed, running) = (AtomicU64::new(start), Mutex::new(None), Mutex::new(BTreeMap::new()));
    let replay = |seed| format!("replay: NITRO_SEED={seed} cargo test -p nitro-engine --test crash {test}");
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            running.lock().unwrap().insert(seed, Runner::this());
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(seed))) {
                next.store(end, Ordering::Relaxed);
                eprintln!("{}", replay(seed));
                failed.lock().unwrap().get_or_insert(panic);
            }
            running.lock().unwrap().remove(&seed);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(|w| w.is_finished()) {
            std::thread::sleep(Duration::from_millis(50));
            let endless = running.lock().unwrap().iter().find(|(_, runner)| runner.is_endless()).map(|(s, _)| *s);
            if let Some(seed) = endless {
                // Nothing can be done to a thread that does not end. The test's framework would not show what `eprintln!`
                // prints.
                let _ = writeln!(std::io::stderr(), "an endless loop; {}", replay(seed));
                std::process::abort();
            }
        }
    });
    if let Some(panic) = failed.into_inner().unwrap() {
        resume_unwind(panic);
    }
    end - start
}
