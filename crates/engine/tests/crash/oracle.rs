//! What a disk could legally return, sector by sector.
//!
//! A read sees some write that no later write had replaced before the read began; where writes overlapped in time, any of
//! them, until a read has seen one of them win. A crash leaves the newest write that a flush (or FUA) covered, or any
//! newer one, acknowledged or not, whole; the first read after the crash settles which. A trimmed sector holds anything it
//! ever held, or zeroes, until it is written. A failed write was done or not.
//!
//! The models of the store and of the indexes ask less, and share `nitro_testkit::Versions`: one test does one thing at a time there, so
//! that a chunk or a key has its durable value or any later one. They know no moments of time, and this oracle no objects.

use crate::content::{Content, Sector, describe};
use bytes::Bytes;
use nitro_testkit::crashing::SECTOR_BYTES;
use nitro_testkit::trace;
use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::Range;

/// A moment, counted in events.
type Time = u64;
/// Not yet.
const NEVER: Time = Time::MAX;
/// What is kept of the requests, to explain a failure.
const LOG_MAX: usize = 4000;
/// What is printed of them.
const LOG_SHOWN: usize = 40;
const FLUSHES_SHOWN: usize = 8;
const FLUSH: &str = "flush";

#[derive(Debug, Clone)]
enum Value {
    Bytes(Sector),
    /// Trimmed, or lost by a device that lied: anything that ever was here.
    Any,
}

impl Value {
    fn is(&self, bytes: &[u8], within: Range<usize>) -> bool {
        matches!(self, Self::Bytes(value) if value.bytes()[within] == *bytes)
    }
}

#[derive(Debug, Clone)]
struct Written {
    value: Value,
    begun: Time,
    ended: Time,
    durable: bool,
    /// It failed: it may have been done, and replaces nothing for certain.
    doubtful: bool,
    /// Acknowledged when the origin had it.
    through: bool,
    /// One of those that a crash left to choose from.
    left_by_crash: bool,
    /// A device lied: the sector may hold anything that it ever held, also after it was read.
    lied: bool,
}

impl Written {
    fn replaced_by(&self, later: &Self) -> bool {
        later.begun > self.ended && later.ended != NEVER && !later.doubtful
    }
}

/// A write that has begun.
#[derive(Debug)]
pub struct Writing {
    pub sectors: Range<u64>,
    begun: Time,
    log: u64,
}

/// A flush that has begun.
pub struct Flushing {
    begun: Time,
    log: u64,
}

/// A read that has begun.
pub struct Reading {
    begun: Time,
    log: u64,
}

struct Event {
    number: u64,
    text: String,
    sectors: Range<u64>,
    begun: Time,
    end: Option<(Time, &'static str)>,
}

/// One volume's oracle.
pub struct Oracle {
    volume: u64,
    sectors: Vec<Vec<Written>>,
    /// All contents that were ever written, by sector.
    ever: Vec<Vec<Sector>>,
    now: Time,
    reads: Vec<Time>,
    log: VecDeque<Event>,
    events: u64,
}

impl Oracle {
    pub fn new(volume: u64, sectors: u64) -> Self {
        let zero = Written {
            value: Value::Bytes(Sector::ZERO),
            begun: 0,
            ended: 0,
            durable: true,
            doubtful: false,
            through: true,
            left_by_crash: false,
            lied: false,
        };
        Self {
            volume,
            sectors: vec![vec![zero]; sectors as usize],
            ever: vec![Vec::new(); sectors as usize],
            now: 1,
            reads: Vec::new(),
            log: VecDeque::new(),
            events: 0,
        }
    }

    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> Time {
        self.now += 1;
        self.now
    }

    fn note(&mut self, text: String, sectors: Range<u64>) -> u64 {
        self.events += 1;
        trace(|| {
            format!("volume {}, {}: {text} of sectors {sectors:?}, request {}", self.volume, self.now, self.events)
        });
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(Event { number: self.events, text, sectors, begun: self.now, end: None });
        self.events
    }

    fn note_end(&mut self, number: u64, how: &'static str) {
        let now = self.now;
        trace(|| format!("volume {}, {now}: request {number} ends, {how}", self.volume));
        let oldest = self.log.front().map_or(0, |e| e.number);
        if let Some(event) = number.checked_sub(oldest).and_then(|at| self.log.get_mut(at as usize)) {
            event.end = Some((now, how));
        }
    }

    /// A write of whole sectors begins. `through`: it is acknowledged only when the origin has it. Of the sectors at its `edges` a
    /// part stays what it was: where a device lied before, that is not certain, whatever was read of it.
    pub fn begin_write(
        &mut self,
        first: u64,
        data: &Bytes,
        edges: impl Fn(u64) -> bool,
        through: bool,
        what: String,
    ) -> Writing {
        let sectors = first..first + (data.len() / SECTOR_BYTES) as u64;
        let begun = self.tick();
        for (sector, bytes) in sectors.clone().zip(data.chunks(SECTOR_BYTES)) {
            let bytes = Sector::new(bytes);
            let ever = &mut self.ever[sector as usize];
            // Nothing but a shared content is written twice.
            if !matches!(bytes, Sector::Of(Content::Shared(_), _)) || !ever.contains(&bytes) {
                ever.push(bytes.clone());
            }
            let lied = edges(sector) && self.sectors[sector as usize].iter().any(|write| write.lied);
            self.push(sector, if lied { Value::Any } else { Value::Bytes(bytes) }, begun, through);
            // Until the sector is written whole.
            self.sectors[sector as usize].iter_mut().rev().take(1).for_each(|write| write.lied = lied);
        }
        let log = self.note(what, sectors.clone());
        Writing { sectors, begun, log }
    }

    /// A trim of whole sectors begins.
    pub fn begin_trim(&mut self, sectors: Range<u64>) -> Writing {
        let begun = self.tick();
        sectors.clone().for_each(|sector| self.push(sector, Value::Any, begun, false));
        let log = self.note("trim".into(), sectors.clone());
        Writing { sectors, begun, log }
    }

    fn push(&mut self, sector: u64, value: Value, begun: Time, through: bool) {
        let write = Written {
            value,
            begun,
            ended: NEVER,
            durable: false,
            doubtful: false,
            through,
            left_by_crash: false,
            lied: false,
        };
        self.sectors[sector as usize].push(write);
    }

    /// A write or trim ends. `fua`: it is durable.
    pub fn end_write(&mut self, writing: Writing, ok: bool, fua: bool) {
        let ended = self.tick();
        for sector in writing.sectors.clone() {
            let writes = &mut self.sectors[sector as usize];
            for write in writes.iter_mut().filter(|w| w.begun == writing.begun && w.ended == NEVER) {
                (write.ended, write.doubtful, write.durable) = (ended, !ok, ok && fua);
                write.through &= ok;
            }
            self.prune(sector);
        }
        self.note_end(writing.log, if ok { "ok" } else { "failed" });
    }

    pub fn begin_flush(&mut self) -> Flushing {
        let begun = self.tick();
        let log = self.note(FLUSH.into(), 0..self.sectors());
        Flushing { begun, log }
    }

    pub fn end_flush(&mut self, flushing: Flushing, ok: bool) {
        self.tick();
        self.note_end(flushing.log, if ok { "ok" } else { "failed" });
        if ok {
            self.durable_before(flushing.begun);
        }
    }

    fn durable_before(&mut self, time: Time) {
        for sector in 0..self.sectors() {
            let writes = &mut self.sectors[sector as usize];
            // A write that was given up may reach the device after the flush.
            let covered = |w: &&mut Written| w.ended < time && !w.durable && !w.doubtful;
            let changed = writes.iter_mut().filter(covered).map(|w| w.durable = true).count() > 0;
            if changed || writes.len() > 1 {
                self.prune(sector);
            }
        }
    }

    /// Forgets what neither a crash nor a read may bring back.
    fn prune(&mut self, sector: u64) {
        let oldest_read = self.reads.iter().copied().min().unwrap_or(NEVER);
        let writes = &mut self.sectors[sector as usize];
        // A write is replaced by any that begins after its end: it is enough to know the last of them.
        let last = |counts: &dyn Fn(&Written) -> bool| {
            let replaces = |l: &&Written| l.ended != NEVER && !l.doubtful && counts(l);
            writes.iter().filter(replaces).map(|l| l.begun).max().unwrap_or(0)
        };
        let replaced = last(&|l| l.durable).min(last(&|l| l.ended < oldest_read));
        writes.retain(|w| w.ended >= replaced);
    }

    pub fn begin_read(&mut self, sectors: Range<u64>) -> Reading {
        let begun = self.tick();
        self.reads.push(begun);
        let log = self.note("read".into(), sectors);
        Reading { begun, log }
    }

    /// A read of bytes from `offset` on ends; `None`: with an error.
    ///
    /// # Panics
    /// If no disk could have returned that.
    pub fn end_read(&mut self, reading: Reading, offset: u64, data: Option<&[u8]>) {
        let now = self.tick();
        let at = self.reads.iter().position(|r| *r == reading.begun).unwrap();
        self.reads.swap_remove(at);
        self.note_end(reading.log, if data.is_some() { "ok" } else { "failed" });
        let mut rest = data.unwrap_or(&[]);
        let mut offset = offset as usize;
        while !rest.is_empty() {
            let within = offset % SECTOR_BYTES..(offset % SECTOR_BYTES + rest.len()).min(SECTOR_BYTES);
            let (bytes, after) = rest.split_at(within.len());
            if let Err(why) = self.observe((offset / SECTOR_BYTES) as u64, within.clone(), bytes, (reading.begun, now))
            {
                panic!("{why}");
            }
            (rest, offset) = (after, offset + within.len());
        }
    }

    fn observe(&mut self, sector: u64, within: Range<usize>, bytes: &[u8], time: (Time, Time)) -> Result<(), String> {
        let (from, now) = time;
        let writes = &self.sectors[sector as usize];
        let live = |w: &Written| !writes.iter().any(|l| w.replaced_by(l) && l.ended < from);
        let live: Vec<bool> = writes.iter().map(live).collect();
        let seen: Vec<bool> = writes.iter().zip(&live).map(|(w, l)| *l && w.value.is(bytes, within.clone())).collect();
        if !seen.contains(&true) {
            let any = writes.iter().zip(&live).any(|(w, l)| *l && matches!(w.value, Value::Any));
            return if any && self.was_ever(sector, within, bytes) { Ok(()) } else { Err(self.explain(sector, bytes)) };
        }
        if within.len() == SECTOR_BYTES {
            self.settle(sector, &live, &seen, (from, now));
        }
        Ok(())
    }

    /// Whether every byte of a part of a sector was there at some time. Not all at the same time: parts of a sector may
    /// have been written over something old that a lying device had brought back.
    fn was_ever(&self, sector: u64, within: Range<usize>, bytes: &[u8]) -> bool {
        let ever: Vec<_> = self.ever[sector as usize].iter().map(Sector::bytes).collect();
        let was = |(at, byte): (usize, &u8)| *byte == 0 || ever.iter().any(|old| old[at] == *byte);
        within.zip(bytes).all(was)
    }

    /// A read has seen which of several possible writes a sector holds.
    fn settle(&mut self, sector: u64, live: &[bool], seen: &[bool], (from, now): (Time, Time)) {
        let writes = &mut self.sectors[sector as usize];
        let only_left = writes.iter().zip(seen).all(|(w, s)| !*s || w.left_by_crash && w.durable);
        if only_left {
            // The crash left one of these, and has now been seen to have left this one.
            let mut seen = seen.iter();
            return writes.retain(|w| *seen.next().unwrap_or(&true) || !(w.left_by_crash && w.durable));
        }
        let quiet = writes.iter().all(|w| w.ended < from);
        let trimmed = writes.iter().zip(live).any(|(w, l)| *l && matches!(w.value, Value::Any));
        let possible = live.iter().filter(|l| **l).count();
        if !quiet || trimmed || possible == seen.iter().filter(|s| **s).count() {
            return;
        }
        // What was seen came last.
        let all_durable = writes.iter().zip(live).all(|(w, l)| !*l || w.durable);
        for (write, _) in writes.iter_mut().zip(seen).filter(|(_, s)| **s) {
            (write.begun, write.ended) = (now, now);
            (write.durable, write.doubtful) = (all_durable, false);
        }
    }

    /// The one content that a sector is certain to have now, if it is.
    pub fn known(&self, sector: u64) -> Option<Bytes> {
        let writes = &self.sectors[sector as usize];
        let mut live = writes.iter().filter(|w| !writes.iter().any(|l| w.replaced_by(l)));
        let Value::Bytes(first) = &live.next()?.value else { return None };
        live.all(|w| w.value.is(&first.bytes(), 0..SECTOR_BYTES)).then(|| Bytes::copy_from_slice(&first.bytes()))
    }

    /// The machine lost power: what was flushed, or anything newer, is durable now.
    pub fn lose_power(&mut self) {
        let now = self.crash("power lost");
        for sector in 0..self.sectors() {
            self.prune(sector);
            for write in &mut self.sectors[sector as usize] {
                (write.begun, write.ended, write.doubtful) = (0, now, false);
                (write.durable, write.left_by_crash) = (true, true);
            }
        }
    }

    /// The program was killed. What it had given to the devices is still there, and no more durable than before; the
    /// origin may have lost what was not flushed, unless it keeps it.
    pub fn outlive_program(&mut self, origin_keeps: bool) {
        let now = self.crash("program killed");
        for sector in 0..self.sectors() {
            self.prune(sector);
            let writes = &mut self.sectors[sector as usize];
            let lost =
                |w: &Written| writes.iter().any(|l| w.replaced_by(l) && (l.durable || origin_keeps && l.through));
            let live: Vec<bool> = writes.iter().map(|w| !lost(w)).collect();
            let all_durable = writes.iter().zip(&live).all(|(w, live)| !live || w.durable);
            for (write, _) in writes.iter_mut().zip(&live).filter(|(_, live)| **live) {
                (write.begun, write.ended, write.doubtful) = (now, now, false);
                (write.durable, write.left_by_crash) = (all_durable, true);
            }
        }
    }

    fn crash(&mut self, how: &str) -> Time {
        self.reads.clear();
        let now = self.tick();
        self.note(how.into(), 0..self.sectors());
        now
    }

    /// A device lied: every sector holds anything that it ever held.
    pub fn distrust(&mut self) {
        let now = self.tick();
        for writes in &mut self.sectors {
            writes.truncate(1);
            writes[0] =
                Written { value: Value::Any, begun: 0, ended: now, durable: true, lied: true, ..writes[0].clone() };
        }
    }

    fn explain(&self, sector: u64, bytes: &[u8]) -> String {
        let mut out = format!("volume {} sector {sector} reads as ", self.volume);
        let padded: Vec<u8> = bytes.iter().copied().chain(std::iter::repeat(0)).take(SECTOR_BYTES).collect();
        let _ = writeln!(out, "{} ({} bytes). Legal would be:", describe(&padded), bytes.len());
        for write in &self.sectors[sector as usize] {
            let value = match &write.value {
                Value::Bytes(bytes) => describe(&bytes.bytes()),
                Value::Any => "anything it ever held".into(),
            };
            let ended = if write.ended == NEVER { "not yet".into() } else { write.ended.to_string() };
            let of = |is: bool, word: &'static str| if is { word } else { "" };
            let (durable, doubtful) = (of(write.durable, ", durable"), of(write.doubtful, ", failed"));
            let left = of(write.left_by_crash, ", left by a crash");
            let _ = writeln!(out, "  {value}: begun {}, ended {ended}{durable}{doubtful}{left}", write.begun);
        }
        let _ = writeln!(out, "Requests on it, the last at the end:");
        let flushes = self.log.iter().rev().filter(|e| e.text == FLUSH).take(FLUSHES_SHOWN).map(|e| e.number);
        let flushes: Vec<u64> = flushes.collect();
        let shown = |e: &&Event| e.sectors.contains(&sector) && (e.text != FLUSH || flushes.contains(&e.number));
        let touching: Vec<_> = self.log.iter().filter(shown).collect();
        for event in touching.iter().skip(touching.len().saturating_sub(LOG_SHOWN)) {
            let end = event.end.map_or(String::new(), |(time, how)| format!(" to {time}, {how}"));
            let _ = writeln!(out, "  {}{end}: {} of sectors {:?}", event.begun, event.text, event.sectors);
        }
        out
    }
}
