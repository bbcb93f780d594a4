//! A trace in virtual time. The cache processes each request when it arrives, in order of arrival, so that hits are the
//! same as without timing; the devices then determine when each request ends.

use super::origin::{OperationId, Origin};
use super::settings::{Load, Origin as Kind, Timing};
use super::window::{Busy, Window};
use crate::Error;
use crate::model::{Hit, Model};
use crate::outcome::{Measures, Outcome};
use crate::replay::{Run, Watch};
use crate::settings::Settings;
use crate::workload::{Piece, Pieces, runs};
use crate::write_back::Leaving;
use hashbrown::HashMap;
use nitro_cache::destage::{Contention, TICK};
use nitro_model::Nanos;
use nitro_trace::Op;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

/// The number of pieces between two progress reports.
const TOLD_EVERY: u64 = 1 << 12;

/// The longest virtual time of a simulation, so that times and their sums fit into 64 bits of nanoseconds.
const TIME_MAX: Duration = Duration::from_nanos(1 << 62);

/// An event of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A disk request ended.
    Disk(u32),
    /// A part of a request ended.
    Part(u64),
    /// Destage may be due.
    Tick,
}

/// A request in progress.
#[derive(Debug)]
struct Request {
    begun: Duration,
    parts: u32,
    read: bool,
    /// Whether it is counted in the window in which it ends.
    measured: bool,
}

/// The effects of the end of an origin operation.
#[derive(Debug, Default)]
struct Awaited {
    requests: Vec<u64>,
    /// Bytes of NVRAM that become free.
    nvram_bytes: u64,
    /// Whether it is a write of destage.
    destages: bool,
    /// The extents that it reads.
    keys: Vec<u64>,
}

/// The actions of the cache for one request.
#[derive(Debug, Default)]
pub(crate) struct Told {
    hits: Vec<(u64, Hit)>,
    by_content: Vec<(Piece, Hit)>,
    misses: Vec<Piece>,
    written: Vec<(Piece, bool)>,
    fetched: Vec<Piece>,
    around: Vec<Piece>,
    ahead: Vec<Piece>,
    drained: Vec<Vec<Leaving>>,
}

impl Told {
    fn clear(&mut self) {
        self.hits.clear();
        self.by_content.clear();
        self.misses.clear();
        self.around.clear();
        self.written.clear();
        self.fetched.clear();
        self.ahead.clear();
        self.drained.clear();
    }
}

impl Watch for Told {
    fn hit(&mut self, piece: &Piece, hit: Hit) {
        self.hits.push((piece.key.raw(), hit));
    }

    fn content_hit(&mut self, piece: &Piece, hit: Hit) {
        self.by_content.push((*piece, hit));
    }

    fn missed(&mut self, piece: &Piece) {
        self.misses.push(*piece);
    }

    fn written(&mut self, piece: &Piece, duplicate: bool) {
        self.written.push((*piece, duplicate));
    }

    fn fetched(&mut self, piece: &Piece) {
        self.fetched.push(*piece);
    }

    fn around(&mut self, piece: &Piece) {
        self.around.push(*piece);
    }

    fn read_ahead(&mut self, piece: &Piece) {
        self.ahead.push(*piece);
    }

    fn drained(&mut self, run: &[Leaving]) {
        self.drained.push(run.to_vec());
    }
}

/// The current round of destage: after its last write, the origin is flushed and the next round begins.
#[derive(Debug, Default)]
struct Destage {
    round: Vec<Leaving>,
    /// Writes that have not been started.
    waiting: VecDeque<Vec<Leaving>>,
    under_way: usize,
    has_tick: bool,
}

/// A simulation in progress.
struct Timed<'a> {
    timing: Timing,
    run: Run<'a>,
    origin: Origin,
    told: Told,
    now: Duration,
    /// Open loop: the time by which requests arrive later than the trace says.
    late: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    sequence: u64,
    requests: HashMap<u64, Request>,
    next_request: u64,
    awaited: HashMap<OperationId, Awaited>,
    /// The extents that are being read from the origin, with their operations.
    reading: HashMap<u64, OperationId>,
    nvram_bytes: u64,
    destage: Destage,
    /// Writes that wait for destage.
    blocked: VecDeque<u64>,
    extent_bytes: u32,
    whole: Window,
    period: Window,
}

/// Runs `pieces` in virtual time.
pub(crate) fn simulate(
    pieces: &mut dyn Pieces,
    settings: &Settings,
    timing: &Timing,
    model: Box<dyn Model>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    let mut timed = Timed {
        timing: *timing,
        run: Run::new(settings, model, pieces.has_flushes()),
        origin: Origin::new(timing, settings.extent_bytes),
        told: Told::default(),
        now: Duration::ZERO,
        late: Duration::ZERO,
        events: BinaryHeap::new(),
        sequence: 0,
        requests: HashMap::new(),
        next_request: 0,
        awaited: HashMap::new(),
        reading: HashMap::new(),
        nvram_bytes: 0,
        destage: Destage::default(),
        blocked: VecDeque::new(),
        extent_bytes: settings.extent_bytes,
        whole: Window::new(Duration::ZERO, Busy::default())?,
        period: Window::new(Duration::ZERO, Busy::default())?,
    };
    let (mut batch, mut request, mut done, mut told) = (Vec::new(), Vec::new(), 0, 0);
    while pieces.next_batch(&mut batch)? {
        for piece in &batch {
            request.push(*piece);
            if piece.is_last() {
                timed.take(&request)?;
                request.clear();
            }
        }
        done += batch.len() as u64;
        if done >= told {
            told = done + TOLD_EVERY;
            if !progress(done) {
                return Err(Error::Stopped);
            }
        }
    }
    timed.finish(pieces)
}

/// The virtual time of a request that arrives `time_ns` after the first one, with the trace at `speed`.
fn arrival(time_ns: u64, speed: f64) -> Result<Duration, Error> {
    let at = Duration::try_from_secs_f64(time_ns as f64 / 1e9 / speed).ok().filter(|at| *at <= TIME_MAX);
    at.ok_or_else(|| {
        let seconds = time_ns / 1_000_000_000;
        Error::setting(format!(
            "a request arrives {seconds} s after the first one; with a speed of {speed}, that is longer than the {} years that \
             can be simulated with times: simulate a fixed number of requests at a time instead, or without times",
            TIME_MAX.as_secs() / (365 * 86_400)
        ))
    })
}

impl Timed<'_> {
    /// Waits until a request may start, and starts it.
    fn take(&mut self, request: &[Piece]) -> Result<(), Error> {
        match self.timing.load {
            Load::Open(speed) => {
                let at = arrival(request[0].time_ns, speed)?;
                if self.run.begins_measuring(&request[0]) {
                    // What the warm-up left to be done is not part of the measurement.
                    while !self.requests.is_empty() && self.step() {}
                    self.late = self.now.saturating_sub(at);
                }
                let at = at + self.late;
                while self.events.peek().is_some_and(|Reverse((next, ..))| *next <= at) {
                    self.step();
                }
                self.now = self.now.max(at);
            }
            Load::Closed(depth) => while self.requests.len() >= depth as usize && self.step() {},
        }
        self.begin(request)
    }

    fn begin(&mut self, pieces: &[Piece]) -> Result<(), Error> {
        self.turn_window(&pieces[0])?;
        self.told.clear();
        self.run.model.set_now(Nanos::from(self.now));
        self.run.seconds = self.seconds();
        self.run.request(pieces, &mut self.told)?;
        let op = pieces[0].op();
        if !matches!(op, Op::Read | Op::Write) {
            for run in std::mem::take(&mut self.told.drained) {
                self.write_dirty(&run, false, Awaited::default());
            }
            self.take_disk_events();
            return Ok(());
        }
        let id = self.next_request;
        self.next_request += 1;
        let measured = self.run.windows.is_measuring();
        self.requests.insert(id, Request { begun: self.now, parts: 1, read: op == Op::Read, measured });
        let told = std::mem::take(&mut self.told);
        if op == Op::Read {
            self.read(id, &told)
        } else {
            self.write(id, pieces, &told)
        }
        self.told = told;
        self.part_at(self.now + Duration::from_nanos(self.timing.cpu.request_ns), id);
        self.take_disk_events();
        Ok(())
    }

    /// The times for which devices have been busy so far.
    fn busy(&self) -> Busy {
        Busy { disks: self.origin.busy(), ssd: self.run.model.ssd_busy().into() }
    }

    /// The current second, for the age of dirty extents.
    fn seconds(&self) -> u32 {
        u32::try_from(self.now.as_secs()).unwrap_or(u32::MAX)
    }

    fn turn_window(&mut self, first: &Piece) -> Result<(), Error> {
        let was_measuring = self.run.windows.is_measuring();
        let (busy, disks) = (self.busy(), self.timing.disks.spindles);
        let Some(over) = self.run.turn_if_due(first) else { return Ok(()) };
        if let Some(measures) = over {
            measures.pace = Some(self.period.pace(busy, disks));
        }
        if !was_measuring {
            self.whole = Window::new(self.now, busy)?;
        }
        self.period = Window::new(self.now, busy)?;
        Ok(())
    }

    fn read(&mut self, id: u64, told: &Told) {
        for (key, hit) in &told.hits {
            self.add_hit(id, hit);
            if let Some(awaited) = self.reading.get(key).and_then(|operation| self.awaited.get_mut(operation)) {
                awaited.requests.push(id);
                self.add_part(id);
            }
        }
        for (piece, hit) in &told.by_content {
            let recipe = self.origin.read_recipe(self.now, &[*piece]);
            self.add_hit(id, hit);
            if let Some(operation) = recipe {
                self.wait(id, operation, Awaited::default());
            }
        }
        for run in runs(&told.misses) {
            self.read_origin(Some(id), run);
        }
        for run in runs(&told.ahead) {
            self.read_origin(None, run);
        }
    }

    /// Reads extents from the origin that are not being read already.
    fn read_origin(&mut self, id: Option<u64>, run: &[Piece]) {
        let operation = self.origin.read(self.now, run);
        let keys: Vec<u64> = run.iter().map(|piece| piece.key.raw()).collect();
        self.reading.extend(keys.iter().map(|key| (*key, operation)));
        let awaited = Awaited { keys, ..Awaited::default() };
        match id {
            Some(id) => self.wait(id, operation, awaited),
            None => drop(self.awaited.insert(operation, awaited)),
        }
    }

    fn write(&mut self, id: u64, pieces: &[Piece], told: &Told) {
        for run in runs(&told.fetched) {
            self.read_origin(None, run);
        }
        let for_cache = pieces.len() - told.around.len();
        // The origin writes what the cache did not take: the whole request, unless only its class kept parts of it out.
        if self.run.write_back.is_none() || told.written.len() < for_cache {
            let known = told.written.iter().filter(|(_, known)| *known).count();
            self.write_origin(id, pieces, known);
        } else {
            for run in runs(&told.around) {
                self.write_origin(id, run, 0);
            }
            if for_cache > 0 && self.is_full_of_dirty() {
                self.add_part(id);
                self.blocked.push_back(id);
                self.destage();
            }
        }
        self.set_tick();
    }

    /// Writes the pieces of a request to the origin; the request waits for it unless they fit into NVRAM. `known`: the number
    /// of those whose content the cache knew.
    fn write_origin(&mut self, id: u64, pieces: &[Piece], known: usize) {
        let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        let buffered = self.nvram_bytes + bytes <= self.timing.nvram_bytes;
        let operation = self.origin.write(self.now, pieces, known, buffered);
        if buffered {
            self.nvram_bytes += bytes;
            self.awaited.insert(operation, Awaited { nvram_bytes: bytes, ..Awaited::default() });
        } else {
            self.wait(id, operation, Awaited::default());
        }
    }

    fn is_full_of_dirty(&mut self) -> bool {
        let model = &mut *self.run.model;
        self.run.write_back.as_ref().is_some_and(|write_back| write_back.is_full(model))
    }

    /// What destage competes with, as in the server.
    fn contention(&mut self) -> Contention {
        // Reads are not disturbed by writes to an origin that writes sequentially.
        let disturbs_reads = !self.reading.is_empty() && matches!(self.timing.origin, Kind::Tps);
        let lacks_room = disturbs_reads && (!self.blocked.is_empty() || self.is_full_of_dirty());
        Contention { disturbs_reads, lacks_room }
    }

    /// Begins a round of destage if one is due and none is in progress.
    fn begin_round(&mut self) {
        let seconds = self.seconds();
        let Some(write_back) = self.run.write_back.as_mut().filter(|_| self.destage.round.is_empty()) else { return };
        self.destage.round = write_back.round(&mut *self.run.model, seconds);
        self.destage.waiting = write_back.runs(&self.destage.round).into();
        self.run.counts.destaged_extents += self.destage.round.len() as u64;
        self.run.counts.destage_writes += self.destage.waiting.len() as u64;
    }

    /// Starts the destage writes that are due, with lower priority than reads unless writers wait for destage.
    fn destage(&mut self) {
        self.begin_round();
        while !self.destage.waiting.is_empty()
            && self.destage.under_way < self.contention().writes_at_once()
            && let Some(run) = self.destage.waiting.pop_front()
        {
            self.write_dirty(&run, self.blocked.is_empty(), Awaited { destages: true, ..Awaited::default() });
            self.destage.under_way += 1;
        }
        self.set_tick();
        self.take_disk_events();
    }

    /// Writes neighbouring dirty extents to the origin.
    fn write_dirty(&mut self, run: &[Leaving], background: bool, awaited: Awaited) {
        let pieces: Vec<_> = run.iter().map(|leaving| leaving.piece).collect();
        let known = run.iter().filter(|leaving| leaving.known).count();
        let operation = self.origin.write(self.now, &pieces, known, background);
        self.awaited.insert(operation, awaited);
    }

    /// Schedules a check of dirty data, unless destage is in progress.
    fn set_tick(&mut self) {
        let is_dirty = self.run.write_back.as_ref().is_some_and(|write_back| !write_back.is_clean());
        if is_dirty && self.destage.round.is_empty() && !self.destage.has_tick {
            self.destage.has_tick = true;
            self.push(self.now + TICK, Event::Tick);
        }
    }

    /// Ends one write of destage.
    fn destaged(&mut self) {
        self.destage.under_way -= 1;
        if self.destage.under_way == 0 && self.destage.waiting.is_empty() {
            let round = std::mem::take(&mut self.destage.round);
            if let Some(write_back) = &mut self.run.write_back {
                write_back.done(&mut *self.run.model, &round);
            }
            if !self.is_full_of_dirty() {
                std::mem::take(&mut self.blocked).into_iter().for_each(|id| self.part_done(id));
            }
        }
        self.destage();
    }

    fn add_hit(&mut self, id: u64, hit: &Hit) {
        let eighth = u64::from(self.extent_bytes.div_ceil(8192));
        let decompress = if hit.compressed { self.timing.cpu.decompress_ns * eighth } else { 0 };
        self.add_part(id);
        self.part_at(Duration::from(hit.done).max(self.now) + Duration::from_nanos(decompress), id);
    }

    fn add_part(&mut self, id: u64) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.parts += 1;
        }
    }

    fn wait(&mut self, id: u64, operation: OperationId, awaited: Awaited) {
        self.add_part(id);
        self.awaited.entry(operation).or_insert(awaited).requests.push(id);
    }

    fn part_at(&mut self, at: Duration, id: u64) {
        self.push(at, Event::Part(id));
    }

    fn push(&mut self, at: Duration, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn take_disk_events(&mut self) {
        while let Some((at, disk)) = self.origin.events.pop() {
            self.push(at, Event::Disk(disk));
        }
    }

    /// Processes the next event; `false` if nothing is in progress.
    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, event))) = self.events.pop() else { return false };
        self.now = self.now.max(at);
        match event {
            Event::Disk(disk) => {
                let done = self.origin.disk_done(self.now, disk);
                self.take_disk_events();
                if let Some(awaited) = done.and_then(|operation| self.awaited.remove(&operation)) {
                    self.nvram_bytes -= awaited.nvram_bytes;
                    for key in &awaited.keys {
                        if self.reading.get(key).copied() == done {
                            self.reading.remove(key);
                        }
                    }
                    awaited.requests.iter().for_each(|id| self.part_done(*id));
                    if awaited.destages {
                        self.destaged();
                    }
                }
            }
            Event::Part(id) => self.part_done(id),
            Event::Tick => {
                self.destage.has_tick = false;
                self.destage();
            }
        }
        true
    }

    fn part_done(&mut self, id: u64) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.parts -= 1;
        if request.parts == 0
            && let Some(request) = self.requests.remove(&id)
            && request.measured
        {
            self.whole.note(request.read, request.begun, self.now);
            self.period.note(request.read, request.begun, self.now);
        }
    }

    fn finish(mut self, pieces: &dyn Pieces) -> Result<Outcome, Error> {
        while !self.requests.is_empty() && self.step() {}
        let (busy, disks) = (self.busy(), self.timing.disks.spindles);
        let mut outcome = self.run.finish(pieces)?;
        outcome.measured.pace = Some(self.whole.pace(busy, disks));
        if let Some(Measures { pace: pace @ None, .. }) = outcome.periods.last_mut() {
            *pace = Some(self.period.pace(busy, disks));
        }
        Ok(outcome)
    }
}
