//! Estimates of deduplication and compression for an image, without a cache or a trace.

mod regions;
mod tally;
mod worker;

pub use regions::Regions;
pub use tally::{Tally, Totals};

use nitro_console::error::Error;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Opens an image, of which `sample_percent` percent are to be read.
///
/// # Errors
/// It cannot be opened, is a directory, or is empty.
pub fn open(what: &str, path: &Path, sample_percent: f64) -> Result<Regions, Error> {
    let fail = |e| Error::new(what, e).or("check the path and its permissions");
    let found = std::fs::metadata(path).map_err(fail)?;
    if found.is_dir() {
        return Err(Error::new(what, "it is a directory").or("name an image file or a block device"));
    }
    let regions = Regions::new(File::open(path).map_err(fail)?, sample_percent).map_err(fail)?;
    if regions.size_bytes() == 0 {
        return Err(Error::new(what, "it is empty").or("name an image with data in it"));
    }
    Ok(regions)
}

/// The interval of progress reports.
const TOLD_EVERY: Duration = Duration::from_millis(200);

/// Reads the regions of an image with `threads` threads and counts their extents in `tallies`. `tell` is called at
/// intervals with the number of bytes handed out.
///
/// # Errors
/// The image cannot be read.
pub fn scan(regions: &Regions, tallies: &[Tally], threads: usize, tell: impl Fn(u64)) -> std::io::Result<()> {
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
