//! `nitro-lab reproduce silt`: *SILT: A Memory-Efficient, High-Performance Key-Value Store* (Lim et al., SOSP 2011),
//! measured on the SILT of `nitro-index`.

mod background;
mod landscape;
mod memory;
mod queries;
mod served;

use crate::load::Entries;
use crate::report::{JUDGED, Report, make, publish, say};
use crate::settings::{IndexPaper, SiltPaper};
use nitro_console::error::Error;
use nitro_index::silt::Plan;
use nitro_index::{Options, Shape};
use served::Served;
use std::time::{Duration, Instant};

/// Keys and values of the paper's evaluation ("20-byte key, 1000-byte value").
const SHAPE: Shape = Shape { key_bytes: 20, value_bytes: 1000 };
/// The number of entries without `--entries`: two gigabytes.
const ENTRIES: u64 = 2_000_000;
const ENTRIES_QUICK: u64 = 100_000;
/// The paper's RAM for each entry, in bytes.
const RAM_BYTES_PER_ENTRY: f64 = 0.7;
/// Operations in progress while the index is under load: enough to keep the SSD busy.
const DEPTH: usize = 64;

/// The amount of work.
#[derive(Debug, Clone, Copy)]
struct Scale {
    entries: u64,
    /// The duration of each load (look-ups alone; look-ups and insertions), and the window of its rates.
    serving: Duration,
    window: Duration,
    /// The duration of the measurement at each depth.
    depth: Duration,
    /// The number of entries of the indexes in RAM that are measured separately.
    alone_entries: u64,
}

impl Scale {
    fn of(args: &IndexPaper) -> Self {
        let of = |quick: u64, full: u64| Duration::from_millis(if args.quick { quick } else { full });
        Self {
            entries: args.entries.unwrap_or(if args.quick { ENTRIES_QUICK } else { ENTRIES }),
            serving: of(1_500, 25_000),
            window: of(200, 1_000),
            depth: of(100, 3_000),
            alone_entries: if args.quick { 200_000 } else { 2_000_000 },
        }
    }

    /// The maximum number of entries inserted during the loads.
    const fn more(&self) -> u64 {
        self.entries / 10
    }

    /// The sizes of the index, with the paper's RAM or with the minimum for this number of entries.
    fn plan(&self, args: &IndexPaper) -> Result<Plan, Error> {
        let entries = self.entries + self.more();
        let ram_bytes = args.ram.map_or((entries as f64 * RAM_BYTES_PER_ENTRY) as u64, |ram| ram.0);
        let with = |ram_bytes| Plan::new(&Options { shape: SHAPE, entries, ram_bytes });
        let plan = match with(ram_bytes) {
            Err(nitro_index::Error::Setting { nearest, .. }) if args.ram.is_none() => with(nearest),
            plan => plan,
        };
        plan.map_err(|e| Error::with_sources("--ram", &e))
    }
}

const fn entries() -> Entries {
    Entries(SHAPE)
}

/// Runs all measurements and writes the report.
pub fn run(args: &SiltPaper) -> Result<(), Error> {
    make(&args.common.folder)?;
    publish(&report(args)?, &args.common.folder, "silt", args.common.format)
}

/// Runs all measurements.
pub(crate) fn report(args: &SiltPaper) -> Result<Report, Error> {
    let begun = Instant::now();
    let common = &args.common;
    let scale = Scale::of(common);
    let plan = scale.plan(common)?;
    let served = Served::measure(common, &scale, plan)?;
    say("indexes in RAM");
    let alone = queries::alone(scale.alone_entries);
    let landscape = landscape::section(&served, &alone, &scale)?;
    let sections = vec![
        landscape,
        memory::section(&served, &alone),
        background::section(&served, &scale),
        queries::section(&served, &alone),
        memory::writes(&served),
    ];
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: common.command("silt"),
        title: "SILT's evaluation, reproduced",
        about: format!(
            "The paper: *SILT: A Memory-Efficient, High-Performance Key-Value Store* (SOSP 2011). Measured on Nitro's \
             own SILT (crate nitro-index) on this machine, with {} entries of {} + {} bytes; the paper had 50 million \
             entries and more. {JUDGED}",
            scale.entries, SHAPE.key_bytes, SHAPE.value_bytes
        ),
        scales: None,
        generator: None,
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: Vec::new(),
    })
}
