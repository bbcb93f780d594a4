//! Clients of a volume: random requests, each told to the oracle.

use crate::content::{Content, SHARED};
use crate::oracle::Oracle;
use bytes::Bytes;
use nitro_port::Clock;
use nitro_port::buf::BufMut;
use nitro_testkit::crashing::SECTOR_BYTES;
use nitro_testkit::{Rng, VirtualTime};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const BYTES: u64 = SECTOR_BYTES as u64;
/// Requests are at least so often of a few extents only, whatever the longest may be: one in so many is longer.
const LONG_ONE_IN: u64 = 8;
/// Longer writes have a single new extent where writes are sparse.
const SPARSE_EXTENTS: u64 = 8;
/// A pause in which all that waits for idleness happens.
const PAUSE: Duration = Duration::from_secs(15);

/// How the clients of a volume behave.
#[derive(Debug, Clone)]
pub struct Habits {
    /// The longest request, in bytes.
    pub request_bytes_max: u64,
    /// Fewest and most requests of a client before it rests.
    pub steps: Range<u64>,
    /// They neither flush nor ask for FUA, nor for anything else that makes contents durable.
    pub never_flush: bool,
    /// They trim or zero the whole volume with one request, once in so many steps; 0: never.
    pub wipe_one_in: u64,
    /// They do nothing but write, as fast as they can, and wipe.
    pub busy: bool,
    /// They keep to so many bytes at the volume's start.
    pub area_bytes: u64,
    /// What they write shrinks to a small part of its size.
    pub thin: bool,
    /// Most requests are as long as can be, and of a write a single extent is new: the others are zeroes, or repeat what
    /// was written before.
    pub sparse: bool,
    /// Virtual time within which a request ends on a volume whose own devices are well.
    pub deadline: Duration,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            request_bytes_max: 256 << 10,
            steps: 20..320,
            never_flush: false,
            wipe_one_in: 0,
            busy: false,
            area_bytes: u64::MAX,
            thin: false,
            sparse: false,
            deadline: Duration::MAX,
        }
    }
}

/// What is tested: a disk that should keep its promises.
pub trait Disk: 'static {
    /// The unit in which it keeps its contents, in bytes.
    fn extent_bytes(&self) -> u64;
    /// What it trims in whole, in bytes.
    fn trim_bytes(&self) -> u64;
    /// Bytes that clients may use: it may grow.
    fn size_bytes(&self, all: u64) -> u64 {
        all
    }
    /// Returns when a request can begin at once.
    async fn ready(&self) {}
    /// Whether writes that begin now are acknowledged only when the origin has them.
    fn writes_through(&self) -> bool;
    /// Whether writes that were not, and have just been acknowledged, are durable.
    fn durable_at_once(&self) -> bool {
        false
    }
    /// Whether an error says that contents are lost.
    fn is_loss(&self, error: &str) -> bool;
    async fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, String>;
    async fn write(&self, offset: u64, data: Bytes, fua: bool) -> Result<(), String>;
    async fn flush(&self) -> Result<(), String>;
    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), String>;
    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool, fua: bool) -> Result<(), String>;
    /// Does something that only this kind of disk can do and that changes no content.
    async fn exercise(&self, rng: &mut Rng) -> Result<(), String>;
}

/// A write under way: others must keep off the sectors at its edges that it changes in part.
struct Hold {
    number: u64,
    sectors: Range<u64>,
    edges: Vec<u64>,
}

/// What the clients of one volume share.
pub struct Shared {
    pub oracle: Oracle,
    volume: u8,
    holds: Vec<Hold>,
    requests: u64,
    /// Whether requests may fail.
    pub tolerant: bool,
    /// Contents have rotted: requests may fail that need what is lost, for that reason.
    pub rotten: bool,
}

impl Shared {
    pub fn new(volume: u64, sectors: u64) -> Self {
        Self {
            oracle: Oracle::new(volume, sectors),
            volume: volume as u8,
            holds: Vec::new(),
            requests: 0,
            tolerant: false,
            rotten: false,
        }
    }

    /// All requests under way are gone.
    pub fn forget_requests(&mut self) {
        self.holds.clear();
    }

    fn hold(&mut self, sectors: Range<u64>, edges: Vec<u64>) -> Option<u64> {
        let meets =
            |h: &Hold| h.edges.iter().any(|e| sectors.contains(e)) || edges.iter().any(|e| h.sectors.contains(e));
        if self.holds.iter().any(meets) {
            return None;
        }
        self.requests += 1;
        self.holds.push(Hold { number: self.requests, sectors, edges });
        Some(self.requests)
    }

    fn release(&mut self, number: u64) {
        self.holds.retain(|h| h.number != number);
    }
}

/// What a request does to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Write,
    Zero { may_unmap: bool },
}

/// One client.
pub struct Client<D> {
    pub disk: Rc<D>,
    pub shared: Rc<RefCell<Shared>>,
    pub clock: VirtualTime,
    pub rng: Rng,
    pub habits: Habits,
}

impl<D: Disk> Client<D> {
    /// One random request, in time.
    pub async fn step(&mut self) {
        let begun = self.clock.now();
        let pause = self.request().await;
        let took = self.clock.now() - begun - pause;
        let tolerant = self.shared.borrow().tolerant;
        assert!(tolerant || took <= self.habits.deadline, "a request hangs: it took {took:?}");
    }

    /// One random request; gives the time that the client paused.
    async fn request(&mut self) -> Duration {
        let Habits { wipe_one_in, never_flush, busy, .. } = self.habits.clone();
        let mut pause = Duration::ZERO;
        match self.rng.below(100) {
            _ if wipe_one_in > 0 && self.rng.one_in(wipe_one_in) => self.wipe().await,
            _ if busy => self.change(Change::Write).await,
            81..93 if never_flush => self.change(Change::Write).await,
            0..30 => {
                let (offset, len) = self.range();
                self.read(offset, len).await;
            }
            30..72 => self.change(Change::Write).await,
            72..78 => {
                let may_unmap = self.rng.one_in(2);
                self.change(Change::Zero { may_unmap }).await;
            }
            78..81 => self.trim().await,
            81..88 => self.flush().await,
            88..93 => {
                let done = self.disk.exercise(&mut self.rng).await;
                self.check(done);
            }
            _ if self.rng.one_in(30) => pause = PAUSE,
            _ => pause = Duration::from_micros(self.rng.below(1 << self.rng.clone().below(18))),
        }
        if !pause.is_zero() {
            self.clock.sleep(pause).await;
        }
        pause
    }

    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes(self.shared.borrow().oracle.sectors() * BYTES)
    }

    /// Trims the whole volume, or zeroes it, with one request.
    async fn wipe(&mut self) {
        let size = self.size_bytes();
        match self.rng.one_in(2) {
            true => self.trim_range(0, size).await,
            false => self.change_range(Change::Zero { may_unmap: true }, 0, size).await,
        }
    }

    /// A range of bytes: often whole extents, often in the volume's hot first third, sometimes a single byte.
    fn range(&mut self) -> (u64, u64) {
        let size = self.size_bytes();
        let area = if self.rng.one_in(3) { size } else { size / 3 }.min(self.habits.area_bytes);
        let extent = self.disk.extent_bytes();
        let at = self.rng.below(area);
        let (offset, len) = match self.rng.below(20) {
            _ if self.habits.sparse && !self.rng.one_in(8) => (at / extent * extent, self.habits.request_bytes_max),
            _ if self.habits.busy && self.rng.one_in(2) => (at / extent * extent, self.habits.request_bytes_max),
            0..9 => (at / extent * extent, extent * (1 + self.rng.below(3))),
            9..14 => (at / BYTES * BYTES, BYTES * (1 + self.rng.below(40))),
            14..17 => (at, 1 + self.rng.below(700)),
            17..19 => (at, 1 + self.rng.below(3 * extent)),
            _ if self.rng.one_in(LONG_ONE_IN) => (at / extent * extent, self.habits.request_bytes_max),
            _ => (at / extent * extent, extent * (1 + self.rng.below(24))),
        };
        (offset, len.min(self.habits.request_bytes_max).min(size - offset))
    }

    /// Whether a request succeeded; it may fail only where something was made to.
    fn check<T>(&self, result: Result<T, String>) -> Option<T> {
        let allowed = |error: &str| {
            let shared = self.shared.borrow();
            shared.tolerant || shared.rotten && self.disk.is_loss(error)
        };
        result.inspect_err(|error| assert!(allowed(error), "a request failed without reason: {error}")).ok()
    }

    /// Reads a range, and has it checked.
    pub async fn read(&self, offset: u64, len: u64) -> Option<Vec<u8>> {
        let sectors = offset / BYTES..(offset + len).div_ceil(BYTES);
        let reading = self.shared.borrow_mut().oracle.begin_read(sectors);
        let data = self.disk.read(offset, len).await;
        let data = self.check(data);
        assert!(data.as_ref().is_none_or(|d| d.len() as u64 == len), "a read of another length");
        self.shared.borrow_mut().oracle.end_read(reading, offset, data.as_deref());
        data
    }

    async fn flush(&self) {
        let flushing = self.shared.borrow_mut().oracle.begin_flush();
        let done = self.disk.flush().await;
        let done = self.check(done);
        self.shared.borrow_mut().oracle.end_flush(flushing, done.is_some());
    }

    async fn change(&mut self, change: Change) {
        let (offset, len) = self.range();
        self.change_range(change, offset, len).await;
    }

    async fn change_range(&mut self, change: Change, offset: u64, len: u64) {
        let sectors = offset / BYTES..(offset + len).div_ceil(BYTES);
        let mut edges = Vec::new();
        if !offset.is_multiple_of(BYTES) {
            edges.push(sectors.start);
        }
        if !(offset + len).is_multiple_of(BYTES) && !edges.contains(&(sectors.end - 1)) {
            edges.push(sectors.end - 1);
        }
        let hold = self.shared.borrow_mut().hold(sectors, edges.clone());
        let Some(hold) = hold else { return };
        let mut old = Vec::new();
        for edge in edges {
            let Some(bytes) = self.learn(edge).await else { return self.shared.borrow_mut().release(hold) };
            old.push((edge, bytes));
        }
        self.change_held(change, offset, len, &old).await;
        self.shared.borrow_mut().release(hold);
    }

    /// What a sector that nobody else writes to holds.
    async fn learn(&self, sector: u64) -> Option<Bytes> {
        let known = self.shared.borrow().oracle.known(sector);
        match known {
            Some(bytes) => Some(bytes),
            None => self.read(sector * BYTES, BYTES).await.map(Bytes::from),
        }
    }

    async fn change_held(&mut self, change: Change, offset: u64, len: u64, old: &[(u64, Bytes)]) {
        let first = offset / BYTES;
        let data = self.bytes(change, offset, len, old);
        let start = (offset - first * BYTES) as usize;
        // What is written is a copy that nothing but the disk keeps.
        let part = || BufMut::copy_of(&data[start..start + len as usize]).freeze();
        let fua = self.rng.one_in(10) && !self.habits.never_flush;
        self.disk.ready().await;
        let through = self.disk.writes_through();
        let what = format!("{change:?}{} of {len} bytes at {offset}", if fua { " FUA" } else { "" });
        let is_edge = |sector| old.iter().any(|(edge, _)| *edge == sector);
        let writing = self.shared.borrow_mut().oracle.begin_write(first, &data, is_edge, through, what);
        let done = match change {
            Change::Write => self.disk.write(offset, part(), fua).await,
            Change::Zero { may_unmap } => self.disk.write_zeroes(offset, len, may_unmap, fua).await,
        };
        let done = self.check(done);
        let durable = fua || change == Change::Write && !through && self.disk.durable_at_once();
        self.shared.borrow_mut().oracle.end_write(writing, done.is_some(), durable);
    }

    /// Whole sectors: what is written, and around it what the sectors at the edges hold.
    fn bytes(&mut self, change: Change, offset: u64, len: u64, old: &[(u64, Bytes)]) -> Bytes {
        let sectors = offset / BYTES..(offset + len).div_ceil(BYTES);
        let content = match change {
            Change::Zero { .. } => Content::Shared(0),
            Change::Write if self.rng.one_in(3) => Content::Shared(self.rng.below(SHARED) as u32),
            Change::Write => {
                let shared = self.shared.borrow();
                let (volume, write) = (shared.volume, shared.requests as u32);
                if self.habits.thin && !self.habits.sparse {
                    Content::Thin { volume, write }
                } else {
                    Content::Unique { volume, write }
                }
            }
        };
        let (repeated, new) = self.sparsely(change, &sectors);
        let mut data = vec![0; ((sectors.end - sectors.start) * BYTES) as usize];
        for (sector, out) in sectors.zip(data.chunks_mut(SECTOR_BYTES)) {
            if new.contains(&sector) { content } else { repeated }.fill(sector, out);
            if let Some((_, old)) = old.iter().find(|(edge, _)| *edge == sector) {
                let from = offset.saturating_sub(sector * BYTES).min(BYTES) as usize;
                let to = (offset + len - sector * BYTES).min(BYTES) as usize;
                out[..from].copy_from_slice(&old[..from]);
                out[to..].copy_from_slice(&old[to..]);
            }
        }
        data.into()
    }

    /// What a write repeats, and the sectors in which it does not.
    fn sparsely(&mut self, change: Change, sectors: &Range<u64>) -> (Content, Range<u64>) {
        let (zeroes, extent) = (Content::Shared(0), self.disk.extent_bytes() / BYTES);
        if !self.habits.sparse || change != Change::Write || sectors.end - sectors.start <= SPARSE_EXTENTS * extent {
            return (zeroes, sectors.clone());
        }
        let at = sectors.start + self.rng.below(sectors.end - sectors.start - extent) / extent * extent;
        let repeated = if self.rng.one_in(3) { zeroes } else { Content::Shared(self.rng.below(SHARED) as u32) };
        (repeated, at..at + extent)
    }

    async fn trim(&mut self) {
        let (offset, len) = self.range();
        self.trim_range(offset, len).await;
    }

    async fn trim_range(&mut self, offset: u64, len: u64) {
        let block = self.disk.trim_bytes();
        let (start, end) = (offset.next_multiple_of(block), (offset + len) / block * block);
        let sectors = start / BYTES..end.max(start) / BYTES;
        let hold = self.shared.borrow_mut().hold(sectors.clone(), Vec::new());
        let Some(hold) = hold else { return };
        let trimming = self.shared.borrow_mut().oracle.begin_trim(sectors);
        let fua = self.rng.one_in(10) && !self.habits.never_flush;
        let done = self.disk.trim(offset, len, fua).await;
        let done = self.check(done);
        let mut shared = self.shared.borrow_mut();
        shared.oracle.end_write(trimming, done.is_some(), fua);
        shared.release(hold);
    }

    /// Reads everything, in pieces.
    pub async fn read_all(&mut self) {
        let size = self.size_bytes();
        let mut offset = 0;
        while offset < size {
            let len = (BYTES * (1 + self.rng.below(256))).min(size - offset);
            self.read(offset, len).await;
            offset += len;
        }
    }
}
