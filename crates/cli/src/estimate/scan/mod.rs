//! Estimates of deduplication and compression for an image, without a cache or a trace.

mod regions;
mod tally;
mod worker;

pub(super) use regions::Regions;
pub(super) use tally::{Tally, Totals};

use std::thread;
use std::time::Duration;

/// The interval of progress reports.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Reads the regions of an image with `threads` threads and counts their extents in `tallies`. `tell` is called at
/// intervals with the number of bytes handed out.
///
/// # Errors
/// The image cannot be read.
pub(crate) fn scan(regions: &Regions, tallies: &[Tally], threads: usize, tell: impl Fn(u64)) -> std::io::Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| worker::scan(regions, tallies))).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(TOLD_EVERY);
            tell(regions.position());
        }
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
