//! `nitro-lab reproduce azor`: *Azor: Using Two-level Block Selection to Improve SSD-based I/O Caches* (Klonatos et al., NAS
//! 2011), simulated in virtual time.

mod bed;
mod counters;
mod dram;
mod metadata;
mod oltp;
mod parameters;
mod tables;
mod warehouse;
mod write_policies;

use crate::parallel::threads_or_cores;
use crate::report::{JUDGED, Report, make, publish};
use crate::settings::AzorPaper;
use bed::{CHUNK_BYTES, DISK_BYTES, EXTENT_BYTES, Load, SPINDLES};
use dram::Dram;
use nitro_console::error::Error;
use nitro_trace::Reader;
use nitro_trace::synth::{FileServer, TpccLike, TpchLike};
use parameters::{SFS, Sizes, TPCC, TPCH};
use std::time::Instant;

/// The share of the file set that is accessed (Azor's talk).
const ACCESSED: f64 = 0.3;
/// How often TPC-H's queries run; the last time is measured.
const ROUNDS: u32 = 4;
/// The number of seeds over which figures are averaged.
const SEEDS: u64 = 3;
/// The least response time of a request, in nanoseconds: the simulator's default.
const CPU_NS: u64 = 10_000;
/// Sizes of caches are multiples of this.
const CACHE_UNIT_BYTES: u64 = 1 << 20;

/// The sizes of the loads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// The paper's sizes are divided by these.
    tpch: u64,
    sfs: u64,
    tpcc: u64,
    /// Operations of the file server, and transactions, that fill the caches, and as many that are measured.
    operations: u64,
    transactions: u64,
    threads: usize,
    seed: u64,
}

impl Scale {
    fn of(args: &AzorPaper) -> Self {
        let of = |quick: u64, full: u64| ((if args.quick { quick } else { full }) as f64 / args.scale) as u64;
        let more = |quick: u64, full: u64| ((if args.quick { quick } else { full }) as f64 * args.scale) as u64;
        Self {
            tpch: of(128, 16).max(1),
            sfs: of(2048, 256).max(1),
            tpcc: of(512, 64).max(1),
            operations: more(60_000, 480_000).max(1),
            transactions: more(8_000, 64_000).max(1),
            threads: threads_or_cores(args.threads),
            seed: args.seed,
        }
    }

    /// A size of the paper in GB, scaled down, in bytes.
    fn bytes(&self, gb: f64, divisor: u64) -> u64 {
        let bytes = (gb * f64::from(1 << 30)) as u64 / divisor;
        (bytes / CACHE_UNIT_BYTES).max(1) * CACHE_UNIT_BYTES
    }

    /// Bytes of a disk, scaled down.
    const fn disk_bytes(divisor: u64) -> u64 {
        (DISK_BYTES / divisor).next_multiple_of(CHUNK_BYTES)
    }

    fn dram(&self, sizes: Sizes, divisor: u64) -> Dram {
        Dram { bytes: self.bytes(sizes.dram, divisor), keeps_metadata: false }
    }
}

fn boxed<R: Reader + 'static>(reader: R) -> Box<dyn Reader> {
    Box::new(reader)
}

/// Runs all simulations and writes the report.
///
/// # Errors
/// The folder cannot be written to, or a simulation fails.
pub fn run(args: &AzorPaper) -> Result<(), Error> {
    make(&args.folder)?;
    publish(&report(args)?, &args.folder, "azor", args.format)
}

/// Runs all simulations.
pub(crate) fn report(args: &AzorPaper) -> Result<Report, Error> {
    let begun = Instant::now();
    let scale = Scale::of(args);
    let warehouse = |(file_per_table, skew): (bool, f64), seed| TpchLike {
        database_bytes: scale.bytes(TPCH.data, scale.tpch),
        volume_bytes: u64::from(SPINDLES) * Scale::disk_bytes(scale.tpch),
        file_per_table,
        skew,
        rounds: ROUNDS,
        seed,
    };
    let files = |seed| FileServer {
        file_set_bytes: scale.bytes(SFS.data, scale.sfs),
        accessed: ACCESSED,
        operations: 2 * scale.operations,
        seed,
    };
    let database = |seed| TpccLike {
        database_bytes: scale.bytes(TPCC.data, scale.tpcc),
        transactions: 2 * scale.transactions,
        seed,
    };
    let queries = warehouse(warehouse::MAIN.place(), scale.seed).queries();
    let of_queries = u64::from(ROUNDS - 1) * queries / u64::from(ROUNDS);
    let open_tpch = |seed| warehouse(warehouse::MAIN.place(), seed).reader().map(boxed);
    let open_varied = warehouse::VARIED.map(|varied| move |seed| warehouse(varied.place(), seed).reader().map(boxed));
    let open_sfs = |seed| files(seed).reader().map(boxed);
    let open_tpcc = |seed| database(seed).reader().map(boxed);
    let tpch = Load {
        name: "TPC-H",
        open: &open_tpch,
        disk_bytes: Scale::disk_bytes(scale.tpch),
        warmup: of_queries,
        measured: queries - of_queries,
        depth: TPCH.depth,
        cpu_ns: CPU_NS,
        dram: scale.dram(TPCH, scale.tpch),
        seeds: SEEDS,
    };
    let sfs = Load {
        name: "SPECsfs",
        open: &open_sfs,
        disk_bytes: Scale::disk_bytes(scale.sfs),
        warmup: scale.operations,
        measured: scale.operations,
        depth: SFS.depth,
        cpu_ns: CPU_NS,
        dram: scale.dram(SFS, scale.sfs),
        seeds: SEEDS,
    };
    let tpcc = Load {
        name: "TPC-C",
        open: &open_tpcc,
        disk_bytes: Scale::disk_bytes(scale.tpcc),
        warmup: scale.transactions,
        measured: scale.transactions,
        depth: TPCC.depth,
        cpu_ns: CPU_NS,
        dram: scale.dram(TPCC, scale.tpcc),
        seeds: SEEDS,
    };
    let varied: Vec<Load<'_>> = warehouse::VARIED
        .iter()
        .zip(&open_varied)
        .map(|(varied, open)| Load { open, cpu_ns: varied.cpu_ns, seeds: 1, ..tpch })
        .collect();
    let cache = |sizes: Sizes, at: usize, divisor| scale.bytes(sizes.caches[at], divisor);
    let of_tpch = [0, 1, 2].map(|at| cache(TPCH, at, scale.tpch));
    let (of_sfs, of_tpcc) = (cache(SFS, 0, scale.sfs), cache(TPCC, 0, scale.tpcc));
    let sections = vec![
        parameters::section(&scale),
        write_policies::section(&sfs, of_sfs, &scale)?,
        metadata::section(&sfs, of_sfs, &scale)?,
        warehouse::section(&tpch, &varied, of_tpch, &scale)?,
        oltp::section(&tpcc, of_tpcc, args.traces.as_deref(), &scale)?,
        counters::section(&[(tpch, of_tpch[1]), (sfs, of_sfs), (tpcc, of_tpcc)], &scale)?,
    ];
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: command(args),
        title: "Azor's evaluation, reproduced",
        about: format!(
            "The paper: *Azor: Using Two-level Block Selection to Improve SSD-based I/O Caches* (NAS 2011), from the slides of \
             its talk. Simulated in virtual time with Nitro's caches of single extents of {EXTENT_BYTES} bytes, and with the \
             counters and the decision of the server's two-level policy. {JUDGED}"
        ),
        scales: None,
        generator: None,
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: Vec::new(),
    })
}

/// The command that reproduces the report.
fn command(args: &AzorPaper) -> String {
    let mut command = "nitro-lab reproduce azor".to_owned();
    if args.quick {
        command += " --quick";
    }
    if args.scale != 1.0 {
        command += &format!(" --scale {}", args.scale);
    }
    if args.seed != 1 {
        command += &format!(" --seed {}", args.seed);
    }
    if let Some(traces) = &args.traces {
        command += &format!(" --traces {}", traces.display());
    }
    command
}
