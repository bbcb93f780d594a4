//! Runs a trace through a cache, one request after the other.

mod dirty;
mod through;

use crate::Error;
use crate::by_class::ByClass;
use crate::front::{Front, InRam};
use crate::model::{self, Foretold, Hit, Model};
use crate::outcome::{Counts, Measures, Outcome, Snapshot, ratio};
use crate::patterns::Patterns;
use crate::policies::belady_hits;
use crate::settings::{Settings, Variant, Warmup};
use crate::timing;
use crate::workload::{Piece, Pieces, Stored};
use crate::write_back::{Leaving, WriteBack};
use nitro_cache::builtin;
use nitro_cache::partial::Waiting;
use nitro_cache::pattern::Access;
use nitro_model::Nanos;
use nitro_trace::Op;
use nitro_units::{ClassId, ExtentKey};

/// The number of pieces that are prefetched together, so that reads of memory overlap.
const WARM: usize = 16;

/// Runs `pieces` through the cache that `settings` describe. `progress` is called at intervals with the number of
/// pieces done; it returns whether to continue.
///
/// # Errors
/// Settings that are out of bounds or contradict each other, and errors of `pieces`.
pub fn simulate(
    pieces: &mut dyn Pieces,
    settings: &Settings,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    if settings.variant == Variant::Belady {
        return simulate_belady(pieces, settings, progress);
    }
    settings.check()?;
    run(pieces, settings, model::build(settings)?, progress)
}

/// The optimum needs the future, so the whole trace is read before the simulation.
fn simulate_belady(
    pieces: &mut dyn Pieces,
    settings: &Settings,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    settings.check()?;
    let all = Stored::keep(pieces)?;
    let (mut names, mut batch, mut again) = (Vec::new(), Vec::new(), all.replay());
    while again.next_batch(&mut batch)? {
        names.extend(batch.iter().filter(|piece| model::is_request(piece, settings)).map(|piece| piece.key.raw()));
    }
    let hits = belady_hits(&names, model::capacity(settings));
    run(&mut all.replay(), settings, Box::new(Foretold::new(hits, settings)), progress)
}

fn run(
    pieces: &mut dyn Pieces,
    settings: &Settings,
    model: Box<dyn Model>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    if let Some(timing) = &settings.timing {
        return timing::simulate(pieces, settings, timing, model, progress);
    }
    let mut run = Run::new(settings, model, pieces.has_flushes());
    let mut batch = Vec::new();
    let mut done = 0;
    while pieces.next_batch(&mut batch)? {
        run.take(&batch)?;
        done += batch.len() as u64;
        if !progress(done) {
            return Err(Error::Stopped);
        }
    }
    run.finish(pieces)
}

/// Called with the action of the cache for each piece.
pub(crate) trait Watch {
    /// An extent that is read was cached.
    fn hit(&mut self, _piece: &Piece, _hit: Hit) {}

    /// An extent that is read was found by its content.
    fn content_hit(&mut self, _piece: &Piece, _hit: Hit) {}

    /// An extent that is read was not cached.
    fn missed(&mut self, _piece: &Piece) {}

    /// An extent was written. `_duplicate`: its content was cached already.
    fn written(&mut self, _piece: &Piece, _duplicate: bool) {}

    /// An extent was read from the origin to complete a write.
    fn fetched(&mut self, _piece: &Piece) {}

    /// A written extent goes around the cache.
    fn around(&mut self, _piece: &Piece) {}

    /// An extent is read ahead from the origin.
    fn read_ahead(&mut self, _piece: &Piece) {}

    /// Neighbouring dirty extents are written to the origin before they are trimmed.
    fn drained(&mut self, _run: &[Leaving]) {}
}

/// Ignores all calls.
impl Watch for () {}

/// Divides the trace into the warm-up and periods.
pub(crate) struct Windows {
    warmup: Warmup,
    period_ns: u64,
    /// Whether the warm-up has ended.
    measuring: bool,
    /// The end of the current period.
    period_end_ns: u64,
    warmup_requests: u64,
    begin: Snapshot,
    period_begin: Snapshot,
    periods: Vec<Measures>,
}

impl Windows {
    pub(crate) fn new(settings: &Settings) -> Self {
        let measuring = settings.warmup == Warmup::None;
        let period_end_ns = if settings.period_ns == 0 { u64::MAX } else { settings.period_ns };
        Self {
            warmup: settings.warmup,
            period_ns: settings.period_ns,
            measuring,
            period_end_ns,
            warmup_requests: 0,
            begin: Snapshot::default(),
            period_begin: Snapshot::default(),
            periods: Vec::new(),
        }
    }

    /// Whether the warm-up has ended.
    pub(crate) const fn is_measuring(&self) -> bool {
        self.measuring
    }

    /// Whether the request with this time and number begins a window.
    pub(crate) fn is_due(&self, time_ns: u64, number: u64) -> bool {
        match self.warmup {
            _ if self.measuring => time_ns >= self.period_end_ns,
            Warmup::None => true,
            Warmup::Time(end) => time_ns >= end,
            Warmup::Requests(count) => number >= count,
        }
    }

    /// Begins a window; returns the measurements of the period that ended, for the caller to complete.
    pub(crate) fn turn(&mut self, now: Snapshot, page_bytes: u32) -> Option<&mut Measures> {
        let over = self.measuring;
        if over {
            self.periods.push(Measures::between(&self.period_begin, &now, page_bytes));
        } else {
            self.measuring = true;
            self.warmup_requests = now.counts.requests;
            self.begin = now;
        }
        self.period_begin = now;
        if let Some(passed) = now.time_ns.saturating_sub(self.begin.time_ns).checked_div(self.period_ns) {
            self.period_end_ns = self.begin.time_ns.saturating_add((passed + 1).saturating_mul(self.period_ns));
        }
        if over { self.periods.last_mut() } else { None }
    }

    pub(crate) fn finish(mut self, mut now: Snapshot, page_bytes: u32) -> (Measures, Vec<Measures>, u64) {
        if !self.measuring {
            // The trace ended in the warm-up: nothing was measured.
            self.warmup_requests = now.counts.requests;
            self.begin = now;
            now.time_ns = now.time_ns.max(self.begin.time_ns);
        } else if !self.periods.is_empty() {
            self.periods.push(Measures::between(&self.period_begin, &now, page_bytes));
        }
        (Measures::between(&self.begin, &now, page_bytes), self.periods, self.warmup_requests)
    }
}

/// A simulation in progress.
pub(crate) struct Run<'a> {
    settings: &'a Settings,
    pub(crate) model: Box<dyn Model>,
    pub(crate) windows: Windows,
    /// The write-back state, if the mode is write-back.
    pub(crate) write_back: Option<WriteBack>,
    front: Option<Front>,
    patterns: Option<Patterns>,
    pub(crate) counts: Counts,
    by_class: ByClass,
    /// The class of the current request, apart from its pattern.
    class: ClassId,
    /// The pieces of a request whose end is in the next batch.
    rest: Vec<Piece>,
    misses: Vec<Piece>,
    /// The extents that the current request read from the SSD.
    found: Vec<ExtentKey>,
    /// The extents of sequential streams that it read a second time.
    again: Vec<Piece>,
    /// Parts of extents that are not cached, in write-through.
    parts: Waiting<through::Parts>,
    /// The number of requests after which extents are inserted.
    lag: u32,
    /// The number of requests since extents were inserted.
    lagging: u32,
    last_ns: u64,
    /// The current second, for the age of dirty extents.
    pub(crate) seconds: u32,
}

impl<'a> Run<'a> {
    /// `has_flushes`: whether the trace has flushes.
    pub(crate) fn new(settings: &'a Settings, model: Box<dyn Model>, has_flushes: bool) -> Self {
        let write_back = settings.write_back.filter(|_| settings.variant != Variant::None);
        let write_back = write_back.map(|marks| WriteBack::new(settings, marks, has_flushes));
        let may_wait = write_back.as_ref().is_some_and(|write_back| !write_back.is_durable_at_once());
        Self {
            settings,
            model,
            windows: Windows::new(settings),
            lag: if may_wait { settings.insertion_lag } else { 0 },
            lagging: 0,
            write_back,
            front: Front::new(settings),
            patterns: settings.patterns.then(Patterns::default),
            counts: Counts::default(),
            by_class: ByClass::default(),
            class: ClassId::UNCLASSIFIED,
            rest: Vec::new(),
            misses: Vec::new(),
            found: Vec::new(),
            again: Vec::new(),
            parts: through::waiting(settings),
            last_ns: 0,
            seconds: 0,
        }
    }

    /// Simulates a request without timing.
    fn request_at_once(&mut self, request: &[Piece]) -> Result<(), Error> {
        self.turn_if_due(&request[0]);
        if self.write_back.is_some() {
            self.seconds = u32::try_from(request[0].time_ns / 1_000_000_000).unwrap_or(u32::MAX);
        }
        self.request(request, &mut ())?;
        // Destage waits for the next second, at which nothing waits for insertion.
        if self.lagging == 0 {
            self.destage();
        }
        Ok(())
    }

    fn take(&mut self, batch: &[Piece]) -> Result<(), Error> {
        for group in batch.chunks(WARM) {
            self.model.warm(group);
            let mut at = 0;
            for (end, _) in group.iter().enumerate().filter(|(_, piece)| piece.is_last()) {
                let request = &group[at..=end];
                at = end + 1;
                if self.rest.is_empty() {
                    self.request_at_once(request)?;
                } else {
                    let mut whole = std::mem::take(&mut self.rest);
                    whole.extend_from_slice(request);
                    self.request_at_once(&whole)?;
                    whole.clear();
                    self.rest = whole;
                }
            }
            self.rest.extend_from_slice(&group[at..]);
        }
        Ok(())
    }

    /// Begins a window if it begins with this request; returns the measurements of the period that ended, if there is
    /// one.
    #[inline]
    pub(crate) fn turn_if_due(&mut self, first: &Piece) -> Option<Option<&mut Measures>> {
        if !self.windows.is_due(first.time_ns, self.counts.requests) {
            return None;
        }
        let now = self.snapshot(first.time_ns);
        Some(self.windows.turn(now, self.model.page_bytes()))
    }

    /// Whether the measurement begins with this request, after a warm-up.
    pub(crate) fn begins_measuring(&self, first: &Piece) -> bool {
        !self.windows.is_measuring() && self.windows.is_due(first.time_ns, self.counts.requests)
    }

    #[inline]
    pub(crate) fn request(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        self.class = request[0].class();
        let extent_bytes = self.settings.extent_bytes;
        match self.patterns.as_mut().and_then(|patterns| patterns.classified(request, extent_bytes)) {
            None => self.request_as(request, watch),
            Some(classified) => {
                let result = self.request_as(&classified, watch);
                if let Some(patterns) = &mut self.patterns {
                    patterns.done(classified);
                }
                result
            }
        }
    }

    #[inline]
    fn request_as(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        let first = &request[0];
        self.last_ns = first.time_ns;
        if first.op() == Op::Flush {
            return self.flush(watch);
        }
        self.counts.requests += 1;
        self.counts.extents += request.len() as u64;
        self.lagging += 1;
        match first.op() {
            Op::Read => self.read(request, watch)?,
            Op::Write => self.write(request, watch)?,
            _ => self.trim(request, watch)?,
        }
        self.model.request_arrived();
        if let Some(front) = self.front.as_mut().filter(|_| first.op() != Op::Read) {
            front.forget(request);
        }
        self.note_evictions();
        let inserts = match first.op() {
            Op::Read => !self.misses.is_empty(),
            Op::Trim => true,
            _ => false,
        };
        if inserts || self.lagging >= self.lag { self.insert_waiting(watch) } else { Ok(()) }
    }

    fn read(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        let access = self.front.as_mut().map_or(Access::RANDOM, |front| front.note_read(request));
        let misses = self.look_up(request, access.sequential, watch)?;
        self.note_read_by_class(request, misses);
        self.counts.reads += 1;
        self.counts.read_hits += u64::from(misses == 0);
        self.counts.read_extents += request.len() as u64;
        self.counts.read_extent_hits += request.len() as u64 - misses;
        let Some(front) = &mut self.front else {
            return self.insert_missed();
        };
        front.keep(&self.found, &*self.model);
        self.again.iter().try_for_each(|piece| self.model.insert(piece).map(drop))?;
        if access.sequential {
            self.counts.bypassed_extents += self.misses.len() as u64;
            front.hold_back(&self.misses);
        } else {
            self.insert_missed()?;
        }
        let Some(front) = &mut self.front else { return Ok(()) };
        for key in front.read_ahead(request[0].key.object(), access.readahead, &*self.model) {
            self.counts.readahead_extents += 1;
            watch.read_ahead(&Piece::whole(request[0].time_ns, key, self.settings.extent_bytes));
        }
        Ok(())
    }

    /// Inserts what a read missed, if reads allocate.
    fn insert_missed(&mut self) -> Result<(), Error> {
        if self.settings.only_writes_allocate {
            return Ok(());
        }
        self.misses.iter().try_for_each(|piece| self.model.insert(piece).map(drop))
    }

    /// Looks up all extents of a request before any of them is inserted. Returns the number that are not cached under
    /// any key; those to be read from elsewhere are in `misses`.
    fn look_up(&mut self, request: &[Piece], sequential: bool, watch: &mut impl Watch) -> Result<u64, Error> {
        self.misses.clear();
        self.found.clear();
        self.again.clear();
        for piece in request {
            self.counts.read_bytes += u64::from(piece.len);
            if self.is_waiting(piece.key) {
                self.model.note_read_in_front();
                watch.hit(piece, Hit { done: Nanos::ZERO, compressed: false, staged: true });
                continue;
            }
            if let Some(in_ram) = self.front.as_mut().and_then(|front| front.read(piece)) {
                self.note_in_ram(piece, in_ram, watch);
                continue;
            }
            if let Some(hit) = self.model.read(piece)? {
                watch.hit(piece, hit);
                if !hit.staged {
                    self.found.push(piece.key);
                }
                continue;
            }
            self.misses.push(*piece);
        }
        self.look_up_contents(sequential, watch)
    }

    /// Looks up the extents of a request that are not cached under their keys by their contents, if the origin knows
    /// them. Returns the number of those that are not found.
    fn look_up_contents(&mut self, sequential: bool, watch: &mut impl Watch) -> Result<u64, Error> {
        let mut misses = 0;
        for piece in &self.misses {
            if self.settings.recipes
                && let Some(hit) = self.model.read_by_content(piece)?
            {
                self.counts.content_hits += 1;
                watch.content_hit(piece, hit);
                continue;
            }
            watch.missed(piece);
            self.model.note_missed(piece, sequential, &mut self.counts.missed);
            misses += 1;
        }
        Ok(misses)
    }

    /// Whether an extent waits for insertion. As in the server, one that was read is looked for before the indexes are
    /// only while others wait that were written.
    fn is_waiting(&mut self, key: ExtentKey) -> bool {
        let Some(write_back) = self.write_back.as_ref().filter(|write_back| write_back.is_waiting()) else {
            return false;
        };
        write_back.waits(key) || self.model.use_staged(key)
    }

    fn note_in_ram(&mut self, piece: &Piece, in_ram: InRam, watch: &mut impl Watch) {
        self.model.note_read_in_front();
        watch.hit(piece, Hit { done: Nanos::ZERO, compressed: false, staged: false });
        match in_ram {
            InRam::Cached => self.counts.ram_hits += 1,
            InRam::Ahead => self.counts.readahead_hits += 1,
            InRam::Again => {
                self.counts.readahead_hits += 1;
                let is_by_pattern = self.patterns.is_some() && !self.class.is_classified();
                let class = builtin::used_again(builtin::SCAN, piece.class());
                self.again.push(if is_by_pattern { piece.with_class(class) } else { *piece });
            }
        }
    }

    fn note_read_by_class(&mut self, request: &[Piece], misses: u64) {
        let counts = &mut self.by_class[self.class];
        counts.reads += 1;
        counts.hits += u64::from(misses == 0);
        counts.read_bytes += request.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
        counts.read_extents += request.len() as u64;
        counts.read_hit_extents += request.len() as u64 - misses;
    }

    fn write(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        self.counts.writes += 1;
        let by_class = &mut self.by_class[self.class];
        by_class.writes += 1;
        by_class.write_bytes += request.iter().map(|piece| u64::from(piece.len)).sum::<u64>();
        by_class.write_extents += request.len() as u64;
        if self.write_back.is_some() {
            return self.write_dirty(request, watch);
        }
        self.write_through(request, watch)
    }

    /// Counts evictions by class.
    fn note_evictions(&mut self) {
        let Some(dropped) = self.model.take_evicted() else { return };
        for class in ClassId::all() {
            let counts = &mut self.by_class[class];
            counts.evicted_extents += dropped.all[class.index()];
            counts.evicted_early += dropped.early[class.index()];
        }
    }

    fn snapshot(&self, time_ns: u64) -> Snapshot {
        Snapshot {
            time_ns,
            counts: self.counts,
            by_class: self.by_class,
            totals: self.model.totals(),
            cached_by_class: self.model.cached_by_class(),
            extent_bytes: self.settings.extent_bytes,
        }
    }

    pub(crate) fn finish(mut self, pieces: &dyn Pieces) -> Result<Outcome, Error> {
        self.model.settle()?;
        let now = self.snapshot(self.last_ns);
        let (measured, periods, warmup_requests) = self.windows.finish(now, self.model.page_bytes());
        let ram_bytes = self.model.ram_bytes();
        let staging_ram_bytes = self.model.staging_ram_bytes();
        Ok(Outcome {
            ram_bytes_per_extent: ratio(ram_bytes, measured.cached_extents, 0.0),
            measured,
            ram_bytes,
            staging_ram_bytes,
            usable_bytes: self.model.usable_bytes(),
            warmup_requests,
            ignored_requests: pieces.ignored(),
            bad_records: pieces.skipped(),
            periods,
            settings: *self.settings,
        })
    }
}
