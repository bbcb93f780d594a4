//! What deduplication and compression would give for an image, before there is a cache or a trace of it.

mod regions;
mod scan;
mod tally;

pub use regions::Regions;
pub use tally::{Tally, Totals};

use std::thread;
use std::time::Duration;

/// How often it is told how far it is.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Has threads read an image's regions until there are no more, and count their extents. `tell` is told now and then how many bytes
/// have been handed out.
///
/// # Errors
/// The image cannot be read.
pub fn scan(regions: &Regions, tallies: &[Tally], threads: usize, tell: impl Fn(u64)) -> std::io::Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| scan::scan(regions, tallies))).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(TOLD_EVERY);
            tell(regions.position());
        }
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
