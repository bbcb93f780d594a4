//! `nitro-lab reproduce data-domain`: *Can't We All Get Along? Redesigning Protection Storage for Modern Workloads* (Allu
//! et al., USENIX ATC 2018), measured on the deduplicating store in virtual time.

mod bed;
mod collisions;
mod disk;
mod fingerprints;
mod index;
mod iops;
mod mixed;
mod noted;
mod reads;
mod restores;
mod shares;

use crate::report::{JUDGED, Report, Section, make, publish, say};
use crate::settings::DataDomainPaper;
use crate::store::{CHANGED_SHARE, GENERATIONS, Runs, Scale};
use bed::{Image, RANDOM, SEQUENTIAL, SPINDLES};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::StoreOptions;
use nitro_testkit::VirtualTime;
use std::time::Instant;

fn failed(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::with_sources("reproduce data-domain", error).or("please report it")
}

/// Images that are accessed at random beside streams.
const MIXED_IMAGES: usize = 8;

/// The amount of work.
#[derive(Debug, Clone, Copy)]
struct Work {
    volume_bytes: u64,
    /// Images of it that are accessed at random: the paper's system had up to 32. With more bytes than 1.5 GiB, recipes
    /// would have another level.
    images: usize,
    /// The volume for restores.
    restored_bytes: u64,
    generations: usize,
    /// Random reads whose requests are counted one by one.
    reads: usize,
    /// Requests of each measurement of IOPS.
    operations: u64,
    /// Seconds of virtual time of each measurement of mixed workloads, and the generations that are restored.
    mixed_seconds: u64,
    mixed_generations: usize,
    /// Short fingerprints that are drawn.
    fingerprints: u64,
}

impl Work {
    const fn of(quick: bool) -> Self {
        if quick {
            Self {
                volume_bytes: 48 << 20,
                images: 32,
                restored_bytes: 48 << 20,
                generations: 12,
                reads: 200,
                operations: 1_000,
                mixed_seconds: 10,
                mixed_generations: 8,
                fingerprints: 10_000_000,
            }
        } else {
            Self {
                volume_bytes: 96 << 20,
                images: 16,
                restored_bytes: 128 << 20,
                generations: GENERATIONS,
                reads: 1_000,
                operations: 6_000,
                mixed_seconds: 30,
                mixed_generations: 16,
                fingerprints: 100_000_000,
            }
        }
    }

    /// Generations as those of Nitro's Figure 10.
    fn scale(&self, volume_bytes: u64, options: StoreOptions) -> Scale {
        Scale {
            volume_bytes,
            // A restore has the locality that the paper counts on: one look-up of the index for a MiB.
            copies: false,
            options,
            generations: self.generations,
            // All are kept: those of different ages are restored.
            retained: self.generations,
            changed_share: CHANGED_SHARE,
            reads: self.reads,
            restores: 1,
            runs: Runs::Mixed,
            cache_percents: &[],
        }
    }
}

/// Runs all measurements and writes the report.
///
/// # Errors
/// The folder cannot be written to, or a measurement fails.
pub fn run(args: &DataDomainPaper) -> Result<(), Error> {
    make(&args.folder)?;
    publish(&report(args)?, &args.folder, "data-domain", args.format)
}

/// Runs all measurements.
pub(crate) fn report(args: &DataDomainPaper) -> Result<Report, Error> {
    let begun = Instant::now();
    let work = Work::of(args.quick);
    let clock = VirtualTime::default();
    let sections = clock
        .try_run(measure(work, clock.clone()))
        .unwrap_or_else(|| Err(Error::new("reproduce data-domain", "a request never ended").or("please report it")))?;
    let quick = if args.quick { " --quick" } else { "" };
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        command: format!("nitro-lab reproduce data-domain{quick}"),
        title: "Data Domain's SSD caches and changes for random access, reproduced",
        about: format!(
            "The paper: *Can't We All Get Along? Redesigning Protection Storage for Modern Workloads* (Allu et al., USENIX \
             ATC 2018). Its store is Nitro's own (`nitro cos`), used as the paper's was: recipes have no places, so that \
             each recipe block and each chunk is looked up by its fingerprint in an index of two levels on the disk, and \
             then in the metadata of its container; RAM holds the fingerprints of one container, two regions and two \
             recipe blocks. In it are {} generations of a volume of {} ({} for restores), each with {:.1} % of the chunks changed; \
             all are kept. What is accessed at random is {} images of that volume, each shifted against the others, so that \
             their data are stored once, but not their recipes: those are as much larger than RAM as in a large store. The disks are {SPINDLES} modelled ones of 7200 rpm, over all of which the parts of the store are spread, with one modelled SSD \
             of 18,700 reads a second; time is virtual, without the processor's. {JUDGED}",
            work.generations,
            Size(work.volume_bytes),
            Size(work.restored_bytes),
            CHANGED_SHARE * 100.0,
            work.images,
        ),
        scales: None,
        generator: None,
        seconds: begun.elapsed().as_secs_f64(),
        sections,
        failures: Vec::new(),
    })
}

async fn measure(work: Work, clock: VirtualTime) -> Result<Vec<Section>, Error> {
    say("writing generations");
    let image = Image::new(work.scale(work.volume_bytes, RANDOM), work.images, clock.clone()).await?;
    say("requests of random reads");
    let (reads, random) = Box::pin(reads::section(&image, &work)).await?;
    say("restores");
    let sequential = Image::new(work.scale(work.restored_bytes, SEQUENTIAL), 0, clock.clone()).await?;
    let restored = Box::pin(restores::Restored::measure(&sequential)).await?;
    say("short fingerprints");
    let drawn = collisions::Drawn::draw(work.fingerprints);
    let index = fingerprints::section(&sequential, &restored, &drawn, random);
    drop(sequential);
    say("IOPS");
    let iops = Box::pin(iops::section(&image, &work)).await?;
    let shares = Box::pin(shares::section(&image)).await?;
    drop(image);
    say("mixed workloads");
    let scale = work.scale(work.restored_bytes, SEQUENTIAL);
    let scale = Scale { generations: work.mixed_generations, retained: work.mixed_generations, ..scale };
    let mixed = Box::pin(mixed::section(&Image::new(scale, MIXED_IMAGES, clock).await?, &work)).await?;
    Ok(vec![reads, index, iops, mixed, shares])
}
