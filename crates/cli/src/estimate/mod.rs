//! `nitro estimate`: how much deduplication and compression reduce an existing image.

mod report;

use crate::args::EstimateArgs;
use nitro_cache::settings::EXTENT_BYTES;
use nitro_commands::estimate::{self as image, Regions, Tally, scan};
use nitro_console::error::Error;
use nitro_console::output;
use nitro_console::progress::Progress;
use report::Report;
use std::path::Path;
use std::thread;

/// Fingerprints may take 1 / `RAM_PART` of the available RAM.
const RAM_PART: u64 = 4;
/// RAM for fingerprints if the available RAM is not known, in bytes.
const RAM_DEFAULT_BYTES: u64 = 1 << 30;

/// Reads an image and prints the estimate.
pub(crate) fn run(args: &EstimateArgs) -> Result<(), Error> {
    let sizes = extent_sizes(args)?;
    let what = format!("image {}", args.image.display());
    let regions = open(&what, &args.image, args.sample)?;
    let ram_bytes = nitro_server::serve::available_ram_bytes().map_or(RAM_DEFAULT_BYTES, |bytes| bytes / RAM_PART);
    let tallies: Vec<Tally> = sizes.iter().map(|&size| Tally::new(size, ram_bytes / sizes.len() as u64)).collect();
    let threads = args.threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let progress = Progress::new(regions.size_bytes(), "read");
    let scanned = scan(&regions, &tallies, threads, |position| progress.show(position));
    progress.end();
    scanned.map_err(|e| Error::new(what, e).or("check the device; ddrescue can copy the readable parts first"))?;
    let report = Report::new(&regions, &tallies);
    output::print(&report.render(args.output.format)?).map(|_| ())
}

fn extent_sizes(args: &EstimateArgs) -> Result<Vec<usize>, Error> {
    let mut sizes = Vec::new();
    for size in &args.extent_size {
        let checked = EXTENT_BYTES.check(size.0).map_err(|e| {
            Error::new(format_args!("--extent-size {}", size.0), e.reason)
                .or(format_args!("the nearest valid value is {}", e.nearest))
        })?;
        sizes.push(checked as usize);
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn open(what: &str, path: &Path, sample_percent: f64) -> Result<Regions, Error> {
    if let Some(why) = nitro_server::origins::elsewhere(path) {
        return Err(Error::new(what, why).or("copy it to a file first: nbdcopy URI FILE, nitro cos export"));
    }
    image::open(what, path, sample_percent)
}
