//! `nitro-lab reproduce dss`: *Solid-State Drive Caching with Differentiated Storage Services* (Intel IT, 2012), simulated in
//! virtual time.

mod figures;
mod image;
mod judges;
mod layout;
mod load;
mod order;
mod performance;
mod policy;
mod recorded;
mod run;
mod sizes;
mod systems;
mod trace;
mod volume;

use crate::parallel::threads_or_cores;
use crate::report::{JUDGED, Report, make, publish};
use crate::settings::DssPaper;
use figures::Figures;
use load::Scale;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_sim::cost::{PriceError, Prices};
use policy::Counted;
use std::sync::Arc;
use std::time::Instant;
use systems::{Bed, DEPTH};

/// Bytes of the file set.
const DATA_BYTES: u64 = 16 << 30;
const DATA_BYTES_QUICK: u64 = 2 << 30;
/// The runs that are averaged, as in the paper.
const SEEDS: u64 = 3;

/// Runs all simulations and writes the report.
///
/// # Errors
/// The folder cannot be written to, or a simulation fails.
pub fn run(args: &DssPaper) -> Result<(), Error> {
    make(&args.folder)?;
    publish(&report(args)?, &args.folder, "dss", args.format)
}

fn table(parsed: Result<Prices, PriceError>) -> Result<Prices, Error> {
    parsed.map_err(|error| Error::new("the built-in table of prices", error))
}

/// Runs all simulations.
pub(crate) fn report(args: &DssPaper) -> Result<Report, Error> {
    let begun = Instant::now();
    let (prices, today) = (table(Prices::built_in())?, table(Prices::today())?);
    let threads = threads_or_cores(args.threads);
    let scale = Scale { data_bytes: if args.quick { DATA_BYTES_QUICK } else { DATA_BYTES } };
    let bed =
        Bed { prices: &prices, classes: &args.classes, data_bytes: scale.data_bytes, write_bytes: 0, depth: DEPTH };
    let traces: Vec<_> = (args.seed..args.seed + SEEDS).map(|seed| Arc::new(load::trace(scale, seed))).collect();
    let mut runs = Vec::new();
    for trace in &traces {
        runs.push(run::all(trace, &bed, threads)?);
    }
    let figures = Figures::of(&load::PHASES.map(str::to_owned), &runs);
    let counted = Counted::of(runs.iter().flatten());
    let text = performance_text(scale);
    let title = "Tables 3, Figures 4 and 5: performance";
    let mut sections = vec![
        performance::section("dss-performance", title, text, &figures, &prices, performance::GENERATED),
        performance::costs("dss-cost", &figures, &prices, &today, performance::GENERATED[3]),
        policy::section(&counted),
        order::section(&traces[..1], &bed, threads)?,
    ];
    if let Some(folder) = &args.recordings {
        sections.extend(recorded::sections(folder, &bed, threads)?);
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: args.command(),
        title: "Differentiated Storage Services' evaluation, reproduced",
        about: format!(
            "The paper: *Solid-State Drive Caching with Differentiated Storage Services* (Intel IT, 2012). Its test suite runs \
             on a modelled file system, and the requests of its volume run through the server's cache manager and the \
             caches that it is compared with, in virtual time, on modelled disks and a modelled SSD. {JUDGED}"
        ),
        scales: None,
        generator: None,
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: Vec::new(),
    })
}

fn performance_text(scale: Scale) -> String {
    format!(
        "{} of files ({} files with SPECsfs2008's sizes) are created, {} PostMark transactions read, append to, create and \
         delete files, a search reads all directories and inodes, and a scanner reads all files; the paper had about 1 TB and \
         60,000 transactions. The file system is modelled on ext4 (bitmaps and inode tables of sixteen groups together, \
         directories with their files, ordered journal); its client has a page cache of a 64th of the data, reads an inode's \
         block alone, as NTFS reads its records, and makes requests of up to 64 KiB. Each request has the class of what it \
         touches. The cache is a tenth of the data, write-back with up to 90 % dirty (destage from 20 % or 30 seconds on), and \
         only writes allocate. The disks are those of the table of prices (four, striped), made smaller so that the data take \
         the same part of them as 1 TB. One read is in progress at a time, and up to 32 writes; each takes 0.2 ms besides the \
         devices (iSCSI, client). A hit takes the time of one read of an idle SSD (Nitro's), and writes to the SSD take none: \
         the policies, not the SSDs, are compared. {SEEDS} runs with different seeds are averaged. **Assumed** are: layout, \
         page cache, size of requests, requests in progress, the round trip, and PostMark's shares.",
        Size(scale.data_bytes),
        scale.files(),
        scale.transactions(),
    )
}

impl DssPaper {
    /// The command that reproduces the report.
    fn command(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let seed = if self.seed == 1 { String::new() } else { format!(" --seed {}", self.seed) };
        let recordings = if self.recordings.is_some() { " --recordings DIR" } else { "" };
        format!("nitro-lab reproduce dss{quick}{seed}{recordings}")
    }
}
