//! `nitro-lab reproduce cos`: the COS half of Table 2, and Figures 9 and 10 of Nitro's paper. They are measured on the
//! deduplicating store and the engine themselves, with a disk and an SSD that are modelled in virtual time.

mod aged;
pub(crate) mod bed;
mod lengths;
mod planned;
mod restore;
mod table2;

use crate::parallel::{in_parallel, threads_or_cores};
use crate::report::Section;
use crate::report::{JUDGED, Report, make, publish, say};
use crate::settings::StorePaper;
use aged::Aged;
use bed::{Bed, INNER_RATIO};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::StoreOptions;
use nitro_testkit::VirtualTime;
use restore::Restored;
use std::time::Instant;

/// The share of a generation's chunks that the next one changes, if there are a hundred generations; the last one then
/// still has a fifth of the first one's chunks.
pub(crate) const CHANGED_SHARE: f64 = 0.018;
/// The number of the paper's snapshots, and of those retained (12 weeks).
pub(crate) const GENERATIONS: usize = 100;
const RETAINED: usize = 84;

/// The lengths of the runs of chunks that change together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// 1, 2, 4 … chunks, with equal frequency.
    Mixed,
    /// This number of chunks.
    Equal(usize),
}

impl Runs {
    /// The binary logarithm of the longest of mixed runs.
    const MAX_LOG: u64 = 6;
}

/// The amount of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) volume_bytes: u64,
    pub(crate) generations: usize,
    pub(crate) retained: usize,
    pub(crate) changed_share: f64,
    /// Random reads of each size.
    pub(crate) reads: usize,
    /// Snapshots of each group that are restored.
    pub(crate) restores: usize,
    /// The lengths of the runs of chunks that change together.
    pub(crate) runs: Runs,
    /// The sizes of caches, in percent of the volume.
    pub(crate) cache_percents: &'static [u64],
    /// Whether a part of the volume's runs are copies of others.
    pub(crate) copies: bool,
    /// The store, apart from its size.
    pub(crate) options: StoreOptions,
}

impl Scale {
    fn of(args: &StorePaper) -> Self {
        let of = |quick, full| if args.quick { quick } else { full };
        // With fewer generations, each changes more.
        let generations = of(GENERATIONS / 4, GENERATIONS);
        let bytes = (f64::from(of(96, 256) as u32) * args.scale) as u64;
        // A cache has at least eight units of 512 KiB: 2 % of 200 MiB, 5 % of 80 MiB.
        let least = of(80, 208) as u64;
        Self {
            volume_bytes: bytes.max(least) << 20,
            generations,
            retained: generations * RETAINED / GENERATIONS,
            changed_share: CHANGED_SHARE * (GENERATIONS / generations) as f64,
            reads: of(40, 100),
            restores: of(1, 2),
            runs: Runs::Mixed,
            cache_percents: if args.quick { &[5] } else { &[2, 5] },
            copies: true,
            options: StoreOptions::default(),
        }
    }

    /// Whether a collection follows a generation: once a week, starting when the first generation is deleted, and at
    /// the end.
    const fn collects_after(&self, generation: usize) -> bool {
        generation > self.retained && (generation.is_multiple_of(7) || generation == self.generations)
    }

    /// The last generation before the first collection.
    fn last_uncollected(&self) -> usize {
        (1..=self.generations).take_while(|generation| !self.collects_after(*generation)).count()
    }

    /// Room for all generations, compressed, and for collection, in bytes.
    pub(crate) const fn disk_bytes(&self) -> u64 {
        self.volume_bytes * 5 / 2 + (64 << 20)
    }

    /// The size of a cache with room for half of the volume, compressed, in bytes.
    const fn half_cache_bytes(&self) -> u64 {
        self.volume_bytes * 27 / 100
    }
}

/// Runs all measurements and writes the report.
pub fn run(args: &StorePaper) -> Result<(), Error> {
    make(&args.folder)?;
    publish(&report(args)?, &args.folder, "cos", args.format)
}

/// Runs all measurements.
pub(crate) fn report(args: &StorePaper) -> Result<Report, Error> {
    let begun = Instant::now();
    let scale = Scale::of(args);
    let sections = measure(args, scale)?;
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: command(args),
        title: "Nitro in front of its own store: Table 2 (COS), Figures 9 and 10, reproduced",
        about: format!(
            "The paper: *Nitro: A Capacity-Optimized SSD Cache for Primary Storage* (USENIX ATC 2014), whose capacity-optimized \
             storage (COS) was a Data Domain system and whose snapshots were of a desktop VM of 38 GB. Here the COS \
             is Nitro's **own store** (`nitro cos`) with the **real engine** as its cache, on modelled 7200 rpm disks \
             and a modelled SSD, in virtual time; the volume of Figures 9 and 10 is synthetic: {}, 2:1 compressible, \
             with {INNER_RATIO} chunks for each unique one, as the paper's booting machine had (§5.2). The store is \
             on 19 disks, as many as hold data in the paper's two shelves (§5.3), and traditional primary storage \
             (TPS), a plain file, on 10 (of eleven in RAID-5); each has the share of a disk of 1.6 TB (TPS: 1 TB) \
             that the volume is of the paper's, so that arms move over the same share of a disk. {JUDGED}",
            Size(scale.volume_bytes)
        ),
        scales: None,
        generator: None,
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: Vec::new(),
    })
}

/// An experiment that is independent of the others, with virtual time of its own.
enum Job {
    Traces(table2::Part),
    Snapshots,
}

enum Done {
    Traces(table2::Measurement),
    Snapshots(Box<[Section; 2]>),
}

fn measure(args: &StorePaper, scale: Scale) -> Result<Vec<Section>, Error> {
    let wants = |id: &str| args.only.is_empty() || args.only.iter().any(|only| only == id);
    let mut jobs = Vec::new();
    // The longest first.
    if wants("figure-9") || wants("figure-10") {
        jobs.push(Job::Snapshots);
    }
    if wants("table-2") {
        jobs.extend(table2::parts(args.quick).into_iter().map(Job::Traces));
    }
    let replayed = table2::Replayed::new();
    let one = |job: Job| {
        let clock = VirtualTime::default();
        let ran = clock.try_run(async {
            match job {
                Job::Traces(part) => Box::pin(part.measure(&replayed, &clock)).await.map(Done::Traces),
                Job::Snapshots => Box::pin(snapshots(scale, &clock)).await.map(|both| Done::Snapshots(both.into())),
            }
        });
        ran.unwrap_or_else(|| Err(Error::new("reproduce cos", "a request never ended").or("please report it")))
    };
    // At full size, one experiment takes so much RAM that others would need to be asked for.
    let threads = if args.quick { threads_or_cores(args.threads) } else { args.threads.map_or(1, usize::from) };
    let done = in_parallel(threads, jobs, one);
    replayed.end();
    let (mut traces, mut sections) = (Vec::new(), Vec::new());
    for done in done? {
        match done? {
            Done::Traces(measured) => traces.push(measured),
            Done::Snapshots(both) => sections.extend(*both),
        }
    }
    if !traces.is_empty() {
        sections.insert(0, table2::section(traces));
    }
    Ok(sections)
}

/// Figures 9 and 10.
async fn snapshots(scale: Scale, clock: &VirtualTime) -> Result<[Section; 2], Error> {
    let mut bed = Bed::new(scale, clock.clone()).await?;
    bed.age(1).await?;
    say("random reads of the first generation");
    let mut aged = Aged::young(&mut bed, &scale).await?;
    bed.age(scale.last_uncollected()).await?;
    aged.uncollected(&mut bed, &scale).await?;
    bed.age(scale.generations).await?;
    say("random reads of the last generation");
    aged.old(&mut bed, &scale).await?;
    say("restores");
    let restored = Restored::measure(&mut bed, &scale).await?;
    let mut sections = [aged.section(&bed, &scale), restored.section(&scale)];
    drop(bed);
    let of_lengths = lengths::measure(scale, clock).await?;
    for (section, table) in sections.iter_mut().zip(lengths::tables(&of_lengths)) {
        section.tables.push(table);
    }
    Ok(sections)
}

fn command(args: &StorePaper) -> String {
    let quick = if args.quick { " --quick" } else { "" };
    let scale = if args.scale == 1.0 { String::new() } else { format!(" --scale {}", args.scale) };
    let only = if args.only.is_empty() { String::new() } else { format!(" --only {}", args.only.join(",")) };
    format!("nitro-lab reproduce cos{quick}{scale}{only}")
}
