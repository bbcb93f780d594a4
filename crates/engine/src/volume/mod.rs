//! A volume: an origin seen through a cache.
//!
//! `read` finds extents in RAM, on the SSD or in the origin; `write` changes the origin and its cached extents;
//! `flights` orders reads and writes; `readahead` reads ahead of sequential readers.

mod around;
mod contents;
mod context;
mod destage;
mod explain;
mod flights;
mod mode;
mod origin;
mod partial;
mod points;
mod read;
mod readahead;
mod recipe;
mod regions;
pub(crate) mod registry;
mod remainder;
mod room;
mod rounds;
mod slowing;
mod stretches;
pub(crate) mod transitions;
mod write;
mod write_back;

pub(crate) use context::GIVEN_UP_BYTES_MAX;
use context::Waits;
pub use context::{Change, Rest};
pub use explain::{Explained, StoredAt};
pub(crate) use flights::{Flights, Token};
pub use mode::WriteMode;
pub use points::{PointSettings, PointStatus};
pub(crate) use readahead::AT_ONCE_MAX as READAHEADS_MAX;
pub(crate) use regions::{REGION_BYTES, Regions, WHOLE};
pub(crate) use registry::Registry;
pub use registry::VolumeEntry;
pub(crate) use remainder::{AT_ONCE_MAX as REMAINDERS_MAX, Parts};
pub use room::DestageFailure;
use room::DestageState;
use slowing::Looks;
pub use slowing::{Slowed, SlowedBy};

use crate::cache::Cache;
use crate::error::Error;
use crate::format::journal::FORGET_BYTES;
use crate::metrics::{ClassCounters, ClassesMetrics};
use crate::metrics::{VolumeCounters, VolumeLatencies, VolumeLatencySnapshot, VolumeMetrics};
use bytes::Bytes;
use destage::Destage;
pub(crate) use destage::ROUNDS_MAX as DESTAGE_ROUNDS_MAX;
use nitro_cache::CacheManager;
use nitro_cache::admission::{Provenance, WritePolicy};
use nitro_cache::class::Band;
use nitro_cache::destage::Rounds;
use nitro_cache::pattern::{RunDetector, StreamDetector};
use nitro_cache::reads::CostEstimator;
pub use nitro_port::buf::Pieces;
use nitro_port::buf::held_bytes;
use nitro_port::yielding::yield_now;
use nitro_port::{Allocation, Clock, Device, Origin};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, ExtentRange, ObjectId};
use parking_lot::Mutex;
use points::Points;
use readahead::Wanted;
use remainder::Remainder;
pub(crate) use rounds::round_bytes as destage_round_bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use transitions::Growing;
use transitions::{Attached, Buffering, Whole};

/// A run of a volume that is cached, or is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedRun {
    /// Length in bytes.
    pub len: u64,
    /// On the SSD, or waiting for insertion.
    pub cached: bool,
    /// Only the cache has its newest bytes.
    pub dirty: bool,
}

/// The options of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeOptions {
    /// Its number in the cache: each volume of a cache has a different one.
    pub object: ObjectId,
    /// Refuse all changes.
    pub read_only: bool,
    /// Its initial mode.
    pub mode: WriteMode,
}

/// Extents handled under one lock of shared state, so that a long range delays no other request.
pub(crate) const EXTENTS_PER_LOCK: u64 = 64;
/// Extents handled before other tasks of the thread get their turn.
pub(crate) const EXTENTS_PER_TURN: u64 = 1024;
/// Runs in one answer of [`Volume::cached_runs`].
const CACHED_RUNS_MAX: usize = 8192;
/// Writes to one extent are counted under its number modulo this many.
const WRITE_EPOCHS: usize = 1024;

/// A volume: any number of requests at a time, from all threads.
pub struct Volume<F, O, C: Clock> {
    pub(crate) cache: Arc<Cache<F, C>>,
    pub(crate) origin: O,
    options: VolumeOptions,
    size_bytes: AtomicU64,
    /// The origin uses the same fingerprints as the cache.
    has_recipes: bool,
    flights: Arc<Flights>,
    streams: Mutex<StreamDetector>,
    /// The runs of its requests, if content is classified by patterns.
    runs: Option<Mutex<RunDetector>>,
    /// Ranges to read ahead.
    readahead: Wanted<ExtentRange>,
    /// Extents of which a part was written, and that are to be read.
    remainders: Arc<Wanted<Remainder>>,
    write_epochs: Box<[AtomicU32]>,
    writes_back: AtomicBool,
    attached: Attached,
    /// While it is detached.
    whole: Whole<F, C>,
    buffering: Buffering,
    may_be_dirty: AtomicBool,
    /// The class of requests without a class.
    class: AtomicU8,
    /// Which written content is cached, by its place among [`WritePolicy::ALL`].
    write_policy: AtomicU8,
    /// Caching of read misses is paused.
    fill_paused: AtomicBool,
    /// Number of writes of the origin that have returned, without those of destage: what they bring is dirty until a flush.
    origin_writes: AtomicU64,
    origin_durable: AtomicU64,
    /// Reads of the origin in progress.
    origin_reading: AtomicUsize,
    /// What its reads cost.
    costs: Mutex<CostEstimator>,
    waits: Arc<Waits>,
    poisoned: Mutex<Option<Arc<str>>>,
    destage: Destage,
    rounds: Rounds,
    destage_state: DestageState,
    looks: Looks,
    points: Points,
    /// Its counters.
    pub metrics: VolumeMetrics,
    classes: ClassesMetrics,
    latencies: VolumeLatencies,
    /// Reads for which the RAM cache was asked, by which some are chosen to be timed.
    ram_reads: AtomicU32,
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Puts `cache` in front of `origin`.
    ///
    /// # Panics
    /// If [`Cache::check_origin_size`] refuses the origin's size.
    pub fn new(cache: Arc<Cache<F, C>>, origin: O, options: VolumeOptions) -> Arc<Self> {
        let size_bytes = origin.geometry().size_bytes;
        assert!(cache.check_origin_size(size_bytes).is_ok(), "an origin of {size_bytes} bytes has too many extents");
        let replayed = cache.replayed.get(&options.object).cloned();
        let may_be_dirty = replayed.is_some() || cache.manager.lock().dirty_count_of(options.object) > 0;
        let flights: Arc<Flights> = replayed.unwrap_or_default();
        let has_recipes = recipe::are_shared(&cache.settings, &origin);
        if has_recipes {
            flights.dirty_contents.keep();
        }
        cache.provide_counters(options.object, size_bytes);
        if !origin.keeps_writes() {
            cache.doubts.note_forgetful(options.object);
        }
        if options.mode == WriteMode::WriteBack {
            cache.shares.set_writes_back(options.object, true);
        }
        Arc::new(Self {
            size_bytes: AtomicU64::new(size_bytes),
            has_recipes,
            writes_back: AtomicBool::new(options.mode == WriteMode::WriteBack),
            may_be_dirty: AtomicBool::new(may_be_dirty),
            attached: Attached::default(),
            whole: Mutex::default(),
            buffering: Buffering::default(),
            class: AtomicU8::new(ClassId::UNCLASSIFIED.number()),
            write_policy: AtomicU8::new(0),
            fill_paused: AtomicBool::new(false),
            // What an earlier start wrote may not be durable either.
            origin_writes: AtomicU64::new(1),
            origin_durable: AtomicU64::new(0),
            origin_reading: AtomicUsize::new(0),
            costs: Mutex::new(CostEstimator::new(origin.geometry().rotational)),
            waits: Arc::default(),
            poisoned: Mutex::default(),
            destage: Destage::default(),
            rounds: rounds::rounds_for(cache.settings.manager.extent_bytes.into(), origin.unit_bytes()),
            destage_state: DestageState::default(),
            looks: Looks::default(),
            points: Points::default(),
            streams: Mutex::new(StreamDetector::new(cache.settings.manager.streams)),
            runs: cache.settings.manager.patterns.then(Mutex::default),
            flights,
            readahead: Wanted::default(),
            remainders: Arc::default(),
            write_epochs: (0..WRITE_EPOCHS).map(|_| AtomicU32::new(0)).collect(),
            metrics: VolumeMetrics::default(),
            classes: ClassesMetrics::default(),
            latencies: VolumeLatencies::default(),
            ram_reads: AtomicU32::new(0),
            cache,
            origin,
            options,
        })
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// Whether caching of read misses is paused; hits and writes are not affected.
    pub fn fill_paused(&self) -> bool {
        self.fill_paused.load(Ordering::Relaxed)
    }

    /// Pauses or resumes caching of read misses.
    pub fn set_fill_paused(&self, paused: bool) {
        self.fill_paused.store(paused, Ordering::Relaxed);
    }

    /// Whether it refuses all changes.
    pub fn read_only(&self) -> bool {
        self.options.read_only
    }

    /// Its number in the cache.
    pub(crate) const fn object(&self) -> ObjectId {
        self.options.object
    }

    /// The class of requests without a class.
    pub fn class(&self) -> ClassId {
        ClassId::new(self.class.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Which written content is cached.
    pub fn write_policy(&self) -> WritePolicy {
        let place = usize::from(self.write_policy.load(Ordering::Relaxed));
        WritePolicy::ALL.get(place).copied().unwrap_or_default()
    }

    /// Sets which written content is cached, from now on.
    pub fn set_write_policy(&self, policy: WritePolicy) {
        self.write_policy.store(policy as u8, Ordering::Relaxed);
    }

    /// Sets the class of requests without a class.
    pub fn set_class(&self, class: ClassId) {
        self.class.store(class.number(), Ordering::Relaxed);
    }

    /// Counters of requests by class, without classes that had no requests.
    pub fn class_counters(&self) -> Vec<(ClassId, ClassCounters)> {
        self.classes.counters()
    }

    /// The origin.
    pub fn origin(&self) -> &O {
        &self.origin
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache<F, C>> {
        &self.cache
    }

    /// Counters so far.
    pub fn counters(&self) -> VolumeCounters {
        self.metrics.snapshot()
    }

    /// Latencies so far.
    pub fn latencies(&self) -> VolumeLatencySnapshot {
        self.latencies.snapshot()
    }

    /// The cached parts of a range, in order, from its start on; for a range with very many parts, only the first ones.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub async fn cached_runs(&self, offset: u64, len: u64) -> Result<Vec<CachedRun>, Error> {
        self.check_range(offset, len)?;
        let (extent_bytes, end) = (self.extent_bytes(), offset + len);
        let mut runs: Vec<CachedRun> = Vec::new();
        for turn in self.extents(offset, len).steps(EXTENTS_PER_TURN) {
            for step in turn.steps(EXTENTS_PER_LOCK) {
                // First what is on its way, then what is there: an extent goes from the one to the other.
                let coming: BTreeSet<ExtentIndex> = match self.may_be_dirty() {
                    true => self.flights.dirty(step).into_iter().collect(),
                    false => BTreeSet::new(),
                };
                let manager = self.cache.manager.lock();
                for index in step.iter() {
                    let key = self.key(index);
                    let is_coming = coming.contains(&index);
                    let (cached, dirty) =
                        (is_coming || manager.peek(key).is_some(), is_coming || manager.is_dirty(key));
                    let (from, to) = (index.offset(extent_bytes), index.next().offset(extent_bytes));
                    let len = end.min(to) - offset.max(from);
                    match runs.last_mut() {
                        Some(last) if (last.cached, last.dirty) == (cached, dirty) => last.len += len,
                        _ => runs.push(CachedRun { len, cached, dirty }),
                    }
                }
            }
            if runs.len() >= CACHED_RUNS_MAX {
                break;
            }
            yield_now().await;
        }
        Ok(runs)
    }

    /// The origin's allocation map of a range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] or [`Error::Origin`].
    pub async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, Error> {
        self.check_range(offset, len)?;
        let runs = self.origin.allocation(offset, len).await.map_err(Error::Origin)?;
        Ok(if self.may_be_dirty() { self.over_dirty(offset, runs).await } else { runs })
    }

    /// An allocation map from `offset` on, overlaid with dirty data.
    async fn over_dirty(&self, offset: u64, runs: Vec<Allocation>) -> Vec<Allocation> {
        let end = offset + runs.iter().map(|run| run.len).sum::<u64>();
        let extents = self.extents(offset, end - offset);
        // First what is on its way, then what is there: an extent goes from the one to the other.
        let mut dirty: BTreeSet<ExtentIndex> = self.flights.dirty(extents).into_iter().collect();
        let mut from = extents.start;
        loop {
            let count = EXTENTS_PER_LOCK as usize;
            let object = self.options.object;
            let batch = self.cache.manager.lock().dirty_from(object, from, u32::MAX, count);
            let within = batch.iter().map(|extent| extent.key.index()).filter(|index| *index < extents.end);
            dirty.extend(within);
            match batch.last() {
                Some(last) if last.key.index() < extents.end => from = last.key.index().next(),
                _ => break,
            }
            yield_now().await;
        }
        let (mut out, mut at): (Vec<Allocation>, u64) = (Vec::new(), offset);
        let mut push = |len: u64, hole: bool| match out.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.hole == hole => last.len += len,
            _ => out.push(Allocation { len, hole }),
        };
        for run in runs {
            let run_end = at + run.len;
            while run.hole && at < run_end {
                let index = ExtentIndex(at / self.extent_bytes());
                let next = dirty.range(index..).next();
                let next = next.map_or(run_end, |next| next.offset(self.extent_bytes()).min(run_end));
                push(next.saturating_sub(at), true);
                at = at.max(next);
                let taken = ((at / self.extent_bytes() + 1) * self.extent_bytes()).min(run_end) - at;
                push(taken, false);
                at += taken;
            }
            push(run_end - at, run.hole);
            at = run_end;
        }
        out
    }

    fn extent_bytes(&self) -> u64 {
        self.cache.settings.manager.extent_bytes.into()
    }

    fn key(&self, index: ExtentIndex) -> ExtentKey {
        ExtentKey::new(self.options.object, index)
    }

    /// The extents that a range of bytes touches.
    fn extents(&self, offset: u64, len: u64) -> ExtentRange {
        ExtentRange::touched(offset, len, self.extent_bytes())
    }

    fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size_bytes() => Ok(()),
            _ => Err(Error::OutOfRange { offset, len, size_bytes: self.size_bytes() }),
        }
    }

    /// Notes a request in the pattern of the requests. Returns the class by the pattern, if the request has none.
    fn pattern(&self, from: Provenance, offset: u64, len: u64) -> ClassId {
        let Some(runs) = &self.runs else { return ClassId::UNCLASSIFIED };
        let class = runs.lock().note(from.source, offset, len);
        if from.class.is_classified() { ClassId::UNCLASSIFIED } else { class }
    }

    fn write_epoch(&self, index: ExtentIndex) -> &AtomicU32 {
        &self.write_epochs[index.0 as usize % WRITE_EPOCHS]
    }

    /// Puts an extent into the RAM cache, unless it has been written to since its write epoch was `epoch`. If it is a
    /// part of a larger read, it is copied.
    fn keep_in_ram(&self, index: ExtentIndex, data: &Bytes, is_alone: bool, epoch: u32) {
        if self.cache.settings.ram_cache_bytes == 0 {
            return;
        }
        let data = if is_alone { data.clone() } else { Bytes::copy_from_slice(data) };
        let band = match self.cache.has_bands.load(Ordering::Relaxed) {
            true => self.cache.manager.lock().priority_of(self.key(index)),
            false => Band::default(),
        };
        let mut ram = self.cache.ram.lock();
        // A writer raises the epoch before it removes the extent from RAM, so one of the two is seen here.
        if self.write_epoch(index).load(Ordering::SeqCst) == epoch {
            let held = held_bytes(data.len());
            ram.keep(self.key(index), data, held, band);
        }
    }

    /// Drops the cached content of some extents from RAM and SSD, in steps that keep the manager's lock short and for
    /// which the journal has room; other tasks run in between.
    async fn forget_cached(&self, extents: ExtentRange, mut was: impl FnMut(ExtentIndex, nitro_cache::Location)) {
        let count = self.cache.ledger.step(FORGET_BYTES, EXTENTS_PER_LOCK);
        let len = extents.count();
        let forget = |manager: &mut CacheManager| self.invalidate(manager, extents, &mut was);
        if len <= count && self.cache.telling_at_once(len as usize * FORGET_BYTES, forget).is_some() {
            self.forget_ram(extents);
        } else {
            // Boxed: it is large, and most writes do not need it.
            Box::pin(self.forget_in_steps(extents, count, was)).await;
        }
    }

    fn invalidate(
        &self,
        manager: &mut CacheManager,
        extents: ExtentRange,
        was: &mut impl FnMut(ExtentIndex, nitro_cache::Location),
    ) {
        for index in extents.iter() {
            if let Some(location) = manager.invalidate(self.key(index)) {
                was(index, location);
            }
        }
    }

    /// The rest of [`forget_cached`](Self::forget_cached): `count` extents at a time, each as soon as there is room.
    async fn forget_in_steps(
        &self,
        extents: ExtentRange,
        count: u64,
        mut was: impl FnMut(ExtentIndex, nitro_cache::Location),
    ) {
        for turn in extents.steps(EXTENTS_PER_TURN) {
            for step in turn.steps(count) {
                let bytes = step.count() as usize * FORGET_BYTES;
                self.cache.telling(bytes, |manager| self.invalidate(manager, step, &mut was)).await;
            }
            // Only now: whoever found an extent in the index did so under an older epoch, and will not keep it in RAM.
            self.forget_ram(turn);
            if turn.end < extents.end {
                yield_now().await;
            }
        }
    }

    /// Drops all extents of the volume from RAM.
    fn forget_all_ram(&self) {
        for epoch in &self.write_epochs {
            epoch.fetch_add(1, Ordering::SeqCst);
        }
        let object = self.options.object;
        self.cache.ram.lock().forget_object(object);
        self.cache.ahead.lock().forget_object(object);
        self.cache.parts.lock().forget_object(object);
    }

    /// Drops some extents from RAM that are not, or not with valid content, in the index; extents that wait for
    /// insertion are found before RAM is searched.
    fn forget_ram(&self, extents: ExtentRange) {
        for index in extents.iter().take(WRITE_EPOCHS) {
            self.write_epoch(index).fetch_add(1, Ordering::SeqCst);
        }
        for step in extents.steps(EXTENTS_PER_LOCK) {
            if self.cache.settings.ram_cache_bytes > 0 {
                let mut ram = self.cache.ram.lock();
                step.iter().for_each(|index| ram.forget(&self.key(index)));
            }
            let mut ahead = self.cache.ahead.lock();
            if !ahead.is_empty() {
                step.iter().for_each(|index| ahead.forget(&self.key(index)));
            }
            drop(ahead);
            let mut parts = self.cache.parts.lock();
            if !parts.is_empty() {
                step.iter().for_each(|index| drop(parts.take(&self.key(index))));
            }
        }
    }
}
