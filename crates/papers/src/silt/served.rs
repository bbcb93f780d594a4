//! An index that is filled, put under load, and looked up: the source of all sections.

use super::super::indexes::{Scratch, failed};
use super::{DEPTH, Scale, entries};
use crate::load::Behind;
use crate::load::{Outcome, mix};
use crate::report::say;
use crate::settings::IndexPaper;
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_device::{FileDevice, Reactor};
use nitro_index::silt::{Plan, Rates, Silt, StoreUsage};
use nitro_index::{Counters, FlashIndex, PAGE_BYTES};
use nitro_port::Device;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One in this number of operations is an insertion.
const PUT_EVERY: u64 = 10;
/// The depths at which the index is looked up.
const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The minimum interval of samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(10);

type Index = Silt<Arc<FileDevice>>;

/// The state of the index at one moment of a load.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) at: Duration,
    /// The number of operations that have ended.
    pub(super) done: u64,
    pub(super) usage: StoreUsage,
    pub(super) ram_bytes: u64,
}

/// The results of look-ups at one depth.
pub(super) struct AtDepth {
    pub(super) depth: usize,
    pub(super) outcome: Outcome,
    /// The device's own reads of a page.
    pub(super) device: Outcome,
}

/// All measurements of the index.
pub(super) struct Served {
    pub(super) plan: Plan,
    pub(super) entries: u64,
    /// Samples during the fill.
    pub(super) filling: Vec<Sample>,
    pub(super) filled: Outcome,
    pub(super) after_fill: Counters,
    /// The state after all due conversions and merges had ended.
    pub(super) rested: Sample,
    /// Random reads of 4 KiB per second of the device, at the depth of the loads.
    pub(super) device_reads_per_second: f64,
    /// Samples under look-ups alone, and under look-ups and insertions.
    pub(super) quiet: Vec<Sample>,
    pub(super) busy: Vec<Sample>,
    /// Pages read for each look-up of an existing entry.
    pub(super) reads_per_hit: f64,
    pub(super) depths: Vec<AtDepth>,
}

/// Takes samples while a load reports its progress.
struct Sampler<'a> {
    index: &'a Index,
    begun: Instant,
    samples: RefCell<Vec<Sample>>,
}

impl<'a> Sampler<'a> {
    fn new(index: &'a Index) -> Self {
        Self { index, begun: Instant::now(), samples: RefCell::default() }
    }

    fn sample(&self, done: u64) -> Sample {
        let at = self.begun.elapsed();
        Sample { at, done, usage: self.index.usage(), ram_bytes: self.index.counters().ram_bytes }
    }

    fn take(&self, done: u64) {
        let last = self.samples.borrow().last().map(|sample| sample.at);
        if last.is_none_or(|last| self.begun.elapsed() >= last + SAMPLE_EVERY) {
            let sample = self.sample(done);
            self.samples.borrow_mut().push(sample);
        }
    }
}

/// The index during the measurements.
struct Measuring<'a> {
    args: &'a IndexPaper,
    scale: Scale,
    device: Arc<FileDevice>,
    index: Arc<Index>,
    plan: Plan,
}

impl Served {
    pub(super) fn measure(args: &IndexPaper, scale: &Scale, plan: Plan) -> Result<Self, Error> {
        let reactor = Reactor::new().map_err(|e| failed(&e))?;
        let (_scratch, device) = Scratch::create(args, "silt", plan.flash_bytes)?;
        let made = reactor.block_on(Silt::create(Arc::clone(&device), plan, Rates::default(), 0x5EED));
        let index = Arc::new(made.map_err(|e| failed(&e))?);
        let behind = Behind::start(&index)?;
        let served = Measuring { args, scale: *scale, device, index, plan }.all(&reactor)?;
        behind.end()?;
        Ok(served)
    }
}

impl Measuring<'_> {
    fn all(&self, reactor: &Reactor) -> Result<Served, Error> {
        say("SILT: fill");
        let (filled, filling) = self.fill(reactor)?;
        let after_fill = self.index.counters();
        let rested = self.rest();
        let device_reads_per_second =
            self.read_device(DEPTH, if self.args.quick { 20_000 } else { 200_000 })?.per_second();
        let serving = (device_reads_per_second * self.scale.serving.as_secs_f64()) as u64;
        say("SILT: look-ups");
        let before = self.index.counters();
        let quiet = self.serve(serving, None)?;
        let after = self.index.counters();
        say("SILT: look-ups and insertions");
        // The number of insertions is limited to the room in the index.
        let busy = self.serve(serving.min(self.scale.more() * PUT_EVERY), Some(PUT_EVERY))?;
        self.rest();
        say("SILT: look-ups by depth");
        Ok(Served {
            plan: self.plan,
            entries: self.scale.entries,
            filling,
            filled,
            after_fill,
            rested,
            device_reads_per_second,
            quiet,
            busy,
            reads_per_hit: (after.hit_reads - before.hit_reads) as f64 / (after.hits - before.hits).max(1) as f64,
            depths: self.depths()?,
        })
    }

    fn fill(&self, reactor: &Reactor) -> Result<(Outcome, Vec<Sample>), Error> {
        let (entries, count) = (entries(), self.scale.entries);
        let (progress, sampler) = (Progress::counting(count, "entries inserted"), Sampler::new(&self.index));
        let insert = async move |index: &Index, n| {
            index.insert(&entries.key(n), &entries.value(n)).await?;
            Ok(true)
        };
        let filled = self.args.drive(2).run(&self.index, 0..count, insert, |n| {
            progress.show(n);
            sampler.take(n);
        })?;
        reactor.block_on(self.index.sync()).map_err(|e| failed(&e))?;
        progress.end();
        let last = sampler.sample(count);
        let mut samples = sampler.samples.into_inner();
        samples.push(last);
        Ok((filled, samples))
    }

    /// Waits until all conversions and merges have ended, for some seconds at most.
    fn rest(&self) -> Sample {
        let sampler = Sampler::new(&self.index);
        let mut last = sampler.sample(0);
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(250));
            let now = sampler.sample(0);
            if now.usage == last.usage {
                return now;
            }
            last = now;
        }
        last
    }

    /// Reads random pages.
    fn read_device(&self, depth: usize, count: u64) -> Result<Outcome, Error> {
        let pages = self.plan.flash_bytes / PAGE_BYTES as u64;
        let device = Arc::clone(&self.device);
        let read = async move |_: &Index, n| {
            let offset = mix(n ^ (depth as u64) << 40) % pages * PAGE_BYTES as u64;
            device.read(offset, PAGE_BYTES).await.map_err(nitro_index::Error::from).map(|_| true)
        };
        self.args.drive(depth).run(&self.index, 0..count, read, |_| ())
    }

    /// Runs `count` operations: look-ups of existing entries, and one insertion of a new entry in every `put_every`.
    fn serve(&self, count: u64, put_every: Option<u64>) -> Result<Vec<Sample>, Error> {
        let (entries, total) = (entries(), self.scale.entries);
        let (progress, sampler) = (Progress::counting(count, "operations"), Sampler::new(&self.index));
        let operate = async move |index: &Index, n: u64| {
            if put_every.is_some_and(|every| n.is_multiple_of(every)) {
                let new = total + n / put_every.unwrap_or(1);
                return index.insert(&entries.key(new), &entries.value(new)).await.map(|()| true);
            }
            let number = mix(n) % total;
            Ok(index.get(&entries.key(number)).await?.is_some_and(|value| value[..] == *entries.value(number)))
        };
        let outcome = self.args.drive(DEPTH).run(&self.index, 0..count, operate, |n| {
            progress.show(n);
            sampler.take(n);
        })?;
        progress.end();
        self.check(&outcome)?;
        Ok(sampler.samples.into_inner())
    }

    fn check(&self, outcome: &Outcome) -> Result<(), Error> {
        if outcome.wrong == 0 {
            return Ok(());
        }
        let why = format!("{} entries of {} were not found", outcome.wrong, self.scale.entries);
        Err(Error::new("SILT", why).or("please report this"))
    }

    fn depths(&self) -> Result<Vec<AtDepth>, Error> {
        let (entries, total) = (entries(), self.scale.entries);
        let mut rate = 5000.0;
        let progress = Progress::counting(DEPTHS.len() as u64, "depths measured");
        let mut all = Vec::new();
        for (number, depth) in (1..).zip(DEPTHS) {
            let count = (rate * self.scale.depth.as_secs_f64()) as u64;
            let get = async move |index: &Index, n: u64| {
                let number = mix(n ^ (depth as u64) << 40) % total;
                Ok(index.get(&entries.key(number)).await?.is_some_and(|value| value[..] == *entries.value(number)))
            };
            let outcome = self.args.drive(depth).run(&self.index, 0..count, get, |_| ())?;
            self.check(&outcome)?;
            let device = self.read_device(depth, count)?;
            // The next depth is faster than this one.
            rate = outcome.per_second() * 1.3;
            all.push(AtDepth { depth, outcome, device });
            progress.show(number);
        }
        progress.end();
        Ok(all)
    }
}
