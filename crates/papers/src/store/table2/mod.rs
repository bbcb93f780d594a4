//! Table 2 for capacity-optimized storage: the traces of three file systems in front of the store itself, without an
//! SSD and with each variant, warm and cold.

mod image;
mod player;
mod report;

use super::bed::{Object, SSD_PAGE_BYTES, TestCache, TestVolume, WEU_BYTES, Work, beside, failed, flash, whole_units};
use crate::kind::Kind;
use crate::nitro::{DEPTH, DIRTY_PERCENT, Fiu, LOAD_SHARE, SATURATED, SSD_TIMES, Varied, WARM_NS, Work as TraceWork};
use crate::report::Section;
use futures_util::future::join3;
use image::{Image, Measured};
use nitro_cache::Settings;
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_engine::metrics::VolumeCounters;
use nitro_engine::{Cache, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_testkit::VirtualTime;
use nitro_trace::Reader;
use nitro_units::ObjectId;
use parking_lot::Mutex;
use player::{Player, Tally, Target};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The size of the cache in percent of the file system.
const CACHE_PERCENT: f64 = 2.0;
/// The size of a file system is a multiple of this, as in the traces.
const VOLUME_UNIT_BYTES: u64 = 256 << 10;
/// RAM for clean extents, and for dirty extents, on their way to the SSD; the server's 64 MiB would be more than such a
/// cache.
const QUEUE_BYTES: u64 = 4 << 20;
const SEED: u64 = 1;

/// The highest rate in open loop is searched in halves among these parts of the rate in closed loop, or among half as many in
/// a quick run.
const RATE_STEPS: u32 = 15;

/// How the last five days are replayed.
#[derive(Debug, Clone, Copy)]
enum Load {
    /// As fast as the system can, with many requests in progress.
    Closed,
    /// At this number of requests a second.
    Open(f64),
}

/// A scaled trace.
#[derive(Debug, Clone, Copy)]
struct Trace {
    fiu: Fiu,
    scale: f64,
}

impl Trace {
    fn open_from(&self, from_ns: u64) -> Result<Box<dyn Reader>, Error> {
        let work = TraceWork::Fiu {
            fiu: self.fiu,
            scale: self.scale,
            seed: SEED,
            from_ns,
            steady: true,
            records: false,
            varied: Varied::NONE,
        };
        work.open().map_err(|e| failed(&e))
    }

    fn open(&self) -> Result<Box<dyn Reader>, Error> {
        self.open_from(0)
    }

    fn volume_bytes(&self) -> u64 {
        let bytes = self.fiu.like(self.scale, SEED).volume_bytes * self.scale;
        (bytes as u64).next_multiple_of(VOLUME_UNIT_BYTES)
    }

    fn cache_bytes(&self) -> u64 {
        whole_units((self.volume_bytes() as f64 * CACHE_PERCENT / 100.0) as u64)
    }
}

/// The results over the last five days of a trace.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    /// The highest rate of reads and writes per second that was sustained, of those that were tried.
    highest: f64,
    /// Reads and writes per second.
    iops: f64,
    /// The mean response time of a read.
    response_ms: f64,
    /// The median, and the 90th, 99th and 99.9th percentiles.
    percentiles_ms: [f64; 4],
    /// Whether requests ended as they arrived.
    sustained: bool,
    /// The share of the extents read that the cache served, and the part of these that was found only by recipes.
    hits: f64,
    recipe_hits: f64,
    /// Requests of the disks for each read, including those for writes and destage.
    requests: f64,
    /// Regions that the store read for each read.
    regions: f64,
    /// Bytes per second that were read from the SSD, and written to it by the host.
    ssd: [f64; 2],
}

impl Outcome {
    fn new(mut tally: Tally, before: &Figures, after: &Figures) -> Self {
        let seconds = tally.time.as_secs_f64();
        let reads = tally.reads();
        tally.read_times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let at = |permille: u64| {
            let place = (reads * permille).div_ceil(1000).saturating_sub(1);
            tally.read_times.get(place as usize).map_or(0.0, |time| ms(*time))
        };
        let each = |after: u64, before: u64| (after - before) as f64 / reads.max(1) as f64;
        let counted = |figure: fn(&VolumeCounters) -> u64| match (&before.counters, &after.counters) {
            (Some(before), Some(after)) => (figure(after) - figure(before)) as f64,
            _ => 0.0,
        };
        let of_recipes = counted(|c| c.recipe_hit_extents);
        let extents = counted(|c| c.read_hit_extents + c.read_miss_extents).max(1.0);
        Self {
            highest: 0.0,
            iops: (reads + tally.writes) as f64 / seconds,
            response_ms: ms(tally.read_times.iter().sum()) / reads.max(1) as f64,
            percentiles_ms: [500, 900, 990, 999].map(at),
            sustained: tally.sustained,
            hits: (counted(|c| c.read_hit_extents) + of_recipes) / extents,
            recipe_hits: of_recipes / extents,
            requests: each(after.work.requests, before.work.requests),
            regions: each(after.work.store.region_reads, before.work.store.region_reads),
            ssd: [0, 1].map(|way| (after.ssd[way] - before.ssd[way]) as f64 / seconds),
        }
    }
}

/// Counters at a moment.
struct Figures {
    work: Work,
    counters: Option<VolumeCounters>,
    /// Bytes that were read from the SSD, and written to it.
    ssd: [u64; 2],
}

impl Figures {
    fn new(measured: &Measured, target: &Target, clock: &VirtualTime) -> Self {
        let work = Work::new(clock, &measured.disk, &measured.store);
        let (counters, ssd) = match target {
            Target::Store(_) => (None, [0; 2]),
            Target::Cached(volume) => {
                let ssd = volume.cache().flash().counters();
                (Some(volume.counters()), [ssd.host_reads, ssd.host_writes].map(|pages| pages * SSD_PAGE_BYTES))
            }
        };
        Self { work, counters, ssd }
    }
}

/// The outcomes of one trace, in the order of [`systems`].
struct Outcomes {
    trace: Trace,
    warm: Vec<Outcome>,
    cold: Vec<Outcome>,
}

/// No SSD, and each variant.
fn systems() -> impl Iterator<Item = Option<Kind>> {
    std::iter::once(None).chain(Kind::ALL.map(Some))
}

/// A trace with a warm or a cold cache: independent of all others.
#[derive(Clone, Copy)]
pub(super) struct Part {
    trace: Trace,
    warm: bool,
    rate_steps: u32,
}

/// The progress of all parts.
pub(super) struct Replayed(Mutex<(Progress, u64)>);

impl Replayed {
    pub(super) fn new() -> Self {
        let all = 2 * systems().count() as u64 * Fiu::ALL.len() as u64;
        Self(Mutex::new((Progress::counting(all, "traces replayed"), 0)))
    }

    fn one(&self) {
        let (progress, done) = &mut *self.0.lock();
        *done += 1;
        progress.show(*done);
    }

    pub(super) fn end(&self) {
        self.0.lock().0.end();
    }
}

/// All parts.
pub(super) fn parts(quick: bool) -> Vec<Part> {
    let (scales, rate_steps) = if quick { ([0.006, 0.004, 0.002], RATE_STEPS / 2) } else { ([0.05; 3], RATE_STEPS) };
    let traces = Fiu::ALL.into_iter().zip(scales).map(|(fiu, scale)| Trace { fiu, scale });
    traces.flat_map(|trace| [true, false].map(|warm| Part { trace, warm, rate_steps })).collect()
}

impl Part {
    /// Measures all systems, in the order of [`systems`].
    pub(super) async fn measure(self, replayed: &Replayed, clock: &VirtualTime) -> Result<Measurement, Error> {
        let image = Image::new(self.trace, if self.warm { 0 } else { WARM_NS }, clock).await?;
        let mut outcomes = Vec::new();
        for system in systems() {
            outcomes.push(Box::pin(at_high_load(&image, self, system, clock)).await?);
            replayed.one();
        }
        Ok(Measurement { part: self, outcomes })
    }
}

/// The outcomes of a part, in the order of [`systems`].
pub(super) struct Measurement {
    part: Part,
    outcomes: Vec<Outcome>,
}

/// The section, from the outcomes of all parts in their order.
pub(super) fn section(all: Vec<Measurement>) -> Section {
    let mut traces: Vec<Outcomes> = Vec::new();
    for Measurement { part: Part { trace, warm, .. }, outcomes } in all {
        if traces.last().is_none_or(|last| last.trace.fiu != trace.fiu) {
            traces.push(Outcomes { trace, warm: Vec::new(), cold: Vec::new() });
        }
        if let Some(last) = traces.last_mut() {
            *if warm { &mut last.warm } else { &mut last.cold } = outcomes;
        }
    }
    report::section(&traces)
}

/// Replays a trace on one system, at a share of the highest rate that the system sustains.
async fn at_high_load(
    image: &Image,
    Part { trace, warm, rate_steps }: Part,
    system: Option<Kind>,
    clock: &VirtualTime,
) -> Result<Outcome, Error> {
    let most = Box::pin(run(image, trace, system, warm, Load::Closed, clock)).await?.iops;
    // `low` steps are sustained, unless it is 0; more than `high` are not.
    let (mut low, mut high, mut last) = (0, rate_steps, Outcome::default());
    while low < high {
        let step = (low + high).div_ceil(2);
        let highest = most * f64::from(step) / f64::from(rate_steps);
        let load = Load::Open(highest * LOAD_SHARE);
        let outcome = Outcome { highest, ..Box::pin(run(image, trace, system, warm, load, clock)).await? };
        (low, high) = if outcome.sustained { (step, high) } else { (low, step - 1) };
        if outcome.sustained || low == 0 {
            last = outcome;
        }
    }
    Ok(last)
}

/// Replays a trace to its end on one system.
async fn run(
    image: &Image,
    trace: Trace,
    system: Option<Kind>,
    warm: bool,
    load: Load,
    clock: &VirtualTime,
) -> Result<Outcome, Error> {
    let measured = image.open(clock).await?;
    let player = Player::new(&trace, if warm { 0 } else { WARM_NS }, clock)?;
    let Some(kind) = system else {
        let target = Target::Store(measured.object().await?);
        return measure(&player, &measured, &target, load, clock).await;
    };
    let volume = cached(kind, trace.cache_bytes(), measured.object().await?, clock).await?;
    let working = async {
        join3(volume.cache().insertion_worker(), volume.cache().journal_worker(), volume.destage_worker()).await;
    };
    let mut worker = pin!(working);
    let target = Target::Cached(Arc::clone(&volume));
    beside(&mut worker, measure(&player, &measured, &target, load, clock)).await?
}

/// Replays the part before the last five days, if the player starts there, and measures the last five days.
async fn measure(
    player: &Player,
    measured: &Measured,
    target: &Target,
    load: Load,
    clock: &VirtualTime,
) -> Result<Outcome, Error> {
    player.play(target, WARM_NS, DEPTH).await?;
    let before = Figures::new(measured, target, clock);
    let tally = match load {
        Load::Closed => player.play(target, u64::MAX, SATURATED).await?,
        Load::Open(rate) => player.play_at(target, rate).await?,
    };
    Ok(Outcome::new(tally, &before, &Figures::new(measured, target, clock)))
}

/// A cache on a modelled SSD in front of the file system, in write-back.
async fn cached(kind: Kind, bytes: u64, object: Object, clock: &VirtualTime) -> Result<Arc<TestVolume>, Error> {
    let mut manager = Settings { dedup: kind.dedup, weu_bytes: WEU_BYTES as u32, ..Settings::paper(bytes) };
    manager.streams.readahead_bytes = 0;
    manager.streams.threshold_bytes = 0;
    let settings = EngineSettings {
        compression: kind.compression(),
        ram_cache_bytes: 0,
        insert_queue_bytes: QUEUE_BYTES,
        dirty_queue_bytes: QUEUE_BYTES,
        dirty_max_percent: DIRTY_PERCENT,
        ..EngineSettings::new(manager)
    };
    let all_bytes = bytes + TestCache::overhead_bytes(&settings);
    let flash = flash(all_bytes * u64::from(SSD_TIMES), clock)?;
    let cache = Cache::format(flash, clock.clone(), settings, [1; 16], 0x5EED).await.map_err(|e| failed(&e))?;
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteBack };
    Ok(Volume::new(cache, object, options))
}
