//! Replays a trace with a fixed number of requests in progress: a new one starts when another ends.

use super::super::bed::{CHUNK_BYTES, Object, TestVolume, failed};
use super::Trace;
use super::image::{BLOCK_BYTES, bytes_of};
use crate::nitro::DEPTH;
use bytes::Bytes;
use futures_util::future::try_join_all;
use nitro_console::error::Error;
use nitro_port::{Clock, Device};
use nitro_sim::timing::Cpu;
use nitro_testkit::VirtualTime;
use nitro_trace::{Op, Reader, Request};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A request has certainly ended when this number of later requests have started.
const DONE_AFTER: u64 = 4096;

/// The target of requests.
pub(super) enum Target {
    /// The store alone.
    Store(Object),
    /// A volume with a cache.
    Cached(Arc<TestVolume>),
}

impl Target {
    /// Reads; returns at least the first block.
    async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        match self {
            Self::Store(object) => object.read(offset, len as usize).await.map_err(|e| failed(&e)),
            Self::Cached(volume) => {
                let mut pieces = volume.read(offset, len).await.map_err(|e| failed(&e))?;
                Ok(if pieces.is_empty() { Bytes::new() } else { pieces.swap_remove(0) })
            }
        }
    }

    async fn write(&self, offset: u64, bytes: Bytes) -> Result<(), Error> {
        match self {
            Self::Store(object) => object.write(offset, bytes).await.map_err(|e| failed(&e)),
            Self::Cached(volume) => volume.write(offset, bytes, false).await.map_err(|e| failed(&e)),
        }
    }
}

/// The last write of a block.
struct Written {
    number: u64,
    /// Whether an earlier write of the block may still have been in progress: then either content is possible.
    unsure: bool,
}

/// The position in a trace.
struct Place {
    reader: Box<dyn Reader>,
    /// A request that was read from the trace but belongs to the next part.
    ahead: Option<Request>,
    number: u64,
    written: HashMap<u64, Written>,
}

impl Place {
    /// The number of the write whose content the first block of a request has with certainty; 0 if it was never
    /// written, `None` if it is not certain.
    fn held(&self, request: &Request) -> Option<u64> {
        match self.written.get(&(request.offset / BLOCK_BYTES)) {
            Some(written) if written.unsure || self.number - written.number <= DONE_AFTER => None,
            written => Some(written.map_or(0, |written| written.number)),
        }
    }

    /// The next request before that moment, and the write whose content its first block has.
    fn next(&mut self, until_ns: u64) -> Result<Option<(Request, Option<u64>)>, Error> {
        let mut request = self.ahead.take().unwrap_or_default();
        if request.len == 0 && !self.reader.next(&mut request).map_err(|e| failed(&e))? {
            return Ok(None);
        }
        if request.time_ns >= until_ns {
            self.ahead = Some(request);
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        let held = self.held(&request);
        if request.op == Op::Write {
            for block in request.blocks(BLOCK_BYTES) {
                let unsure = self.written.get(&block).is_some_and(|before| number - before.number <= DONE_AFTER);
                self.written.insert(block, Written { number, unsure });
            }
        }
        Ok(Some((request, held)))
    }
}

/// The results of a replay.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// The sum of all reads' response times.
    pub(super) read_time: Duration,
    pub(super) time: Duration,
}

/// Replays a trace.
pub(super) struct Player {
    place: RefCell<Place>,
    clock: VirtualTime,
}

impl Player {
    /// A player that starts at `from_ns`.
    pub(super) fn new(trace: &Trace, from_ns: u64, clock: &VirtualTime) -> Result<Self, Error> {
        let reader = trace.open_from(from_ns)?;
        let place = Place { reader, ahead: None, number: 0, written: HashMap::new() };
        Ok(Self { place: RefCell::new(place), clock: clock.clone() })
    }

    /// Replays the requests before `until_ns`, and waits until they end.
    pub(super) async fn play(&self, target: &Target, until_ns: u64) -> Result<Tally, Error> {
        let begun = self.clock.now();
        let all = try_join_all((0..DEPTH).map(|_| self.lane(target, until_ns))).await?;
        let sum = |tally: Tally, other: &Tally| Tally {
            reads: tally.reads + other.reads,
            writes: tally.writes + other.writes,
            read_time: tally.read_time + other.read_time,
            ..tally
        };
        Ok(Tally { time: self.clock.now() - begun, ..all.iter().fold(Tally::default(), sum) })
    }

    /// Replays one request after the other.
    async fn lane(&self, target: &Target, until_ns: u64) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        loop {
            let next = self.place.borrow_mut().next(until_ns)?;
            let Some((request, held)) = next else { return Ok(tally) };
            let begun = self.clock.now();
            let extents = request.blocks(CHUNK_BYTES).count() as u64;
            self.clock.sleep(Duration::from_nanos(Cpu::default().request_ns * extents)).await;
            if request.op == Op::Write {
                target.write(request.offset, bytes_of(&request.fingerprints)).await?;
                tally.writes += 1;
                continue;
            }
            let read = target.read(request.offset, request.len).await?;
            tally.reads += 1;
            tally.read_time += self.clock.now() - begun;
            // The check is skipped if the block was written meanwhile.
            let sure = held.is_some() && held == self.place.borrow().held(&request);
            if sure && read.get(..BLOCK_BYTES as usize) != Some(&bytes_of(&request.fingerprints[..1])[..]) {
                let why = format!("a read at byte {} is not what was written", request.offset);
                return Err(Error::new("reproduce cos", why).or("please report it"));
            }
        }
    }
}
