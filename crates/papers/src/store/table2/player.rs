//! Replays a trace in closed loop, with a fixed number of requests in progress, of which a new one starts when another
//! ends, or in open loop, at a rate of arrivals, whether or not earlier requests have ended.

use super::super::bed::{CHUNK_BYTES, Draws, Object, TestVolume, failed};
use super::Trace;
use super::image::{BLOCK_BYTES, bytes_of};
use crate::nitro::SUSTAINED_SHARE;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select, try_join_all};
use futures_util::stream::FuturesUnordered;
use nitro_console::error::Error;
use nitro_port::{Clock, Device};
use nitro_sim::timing::Cpu;
use nitro_testkit::VirtualTime;
use nitro_trace::{Op, Reader, Request};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Requests in progress with which a replay in open loop gives up: the system does not sustain the rate.
const IN_FLIGHT_MAX: usize = 2048;
/// A seed for the intervals between requests.
const INTERVALS: u64 = 0x4956_414C;

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
    /// Whether an earlier write of the block was still in progress: then either content is possible.
    unsure: bool,
}

/// The position in a trace.
struct Place {
    reader: Box<dyn Reader>,
    /// A request that was read from the trace but belongs to the next part.
    ahead: Option<Request>,
    number: u64,
    written: HashMap<u64, Written>,
    /// Writes in progress of each block.
    writing: HashMap<u64, u32>,
}

impl Place {
    /// The number of the write whose content the first block of a request has with certainty; 0 if it was never
    /// written, `None` if it is not certain.
    fn held(&self, request: &Request) -> Option<u64> {
        let block = request.offset / BLOCK_BYTES;
        match self.written.get(&block) {
            Some(written) if written.unsure || self.writing.contains_key(&block) => None,
            written => Some(written.map_or(0, |written| written.number)),
        }
    }

    /// Notes that a write ended.
    fn wrote(&mut self, request: &Request) {
        for block in request.blocks(BLOCK_BYTES) {
            if let Entry::Occupied(mut writing) = self.writing.entry(block) {
                *writing.get_mut() -= 1;
                if *writing.get() == 0 {
                    writing.remove();
                }
            }
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
                let writing = self.writing.entry(block).or_default();
                self.written.insert(block, Written { number, unsure: *writing > 0 });
                *writing += 1;
            }
        }
        Ok(Some((request, held)))
    }
}

/// The results of a replay.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// The response times of all reads.
    pub(super) read_times: Vec<Duration>,
    pub(super) writes: u64,
    /// Until the last request ends; in open loop, until the last arrives.
    pub(super) time: Duration,
    /// Whether requests ended as they arrived.
    pub(super) sustained: bool,
}

impl Tally {
    pub(super) fn reads(&self) -> u64 {
        self.read_times.len() as u64
    }

    fn add(&mut self, other: Self) {
        self.read_times.extend(other.read_times);
        self.writes += other.writes;
    }
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
        let place = Place { reader, ahead: None, number: 0, written: HashMap::new(), writing: HashMap::new() };
        Ok(Self { place: RefCell::new(place), clock: clock.clone() })
    }

    /// Replays the requests before `until_ns` with `depth` in progress, and waits until they end.
    pub(super) async fn play(&self, target: &Target, until_ns: u64, depth: u32) -> Result<Tally, Error> {
        let begun = self.clock.now();
        let mut all = Tally::default();
        for tally in try_join_all((0..depth).map(|_| self.lane(target, until_ns))).await? {
            all.add(tally);
        }
        all.time = self.clock.now() - begun;
        all.sustained = true;
        Ok(all)
    }

    /// Replays the rest of the trace in open loop, with `rate` requests a second, whose intervals are exponentially
    /// distributed, and waits until they end.
    pub(super) async fn play_at(&self, target: &Target, rate: f64) -> Result<Tally, Error> {
        let (begun, mut draws) = (self.clock.now(), Draws::new(INTERVALS));
        let (mut due, mut arrived) = (begun, 0);
        let mut all = Tally::default();
        let mut flights = FuturesUnordered::new();
        while flights.len() < IN_FLIGHT_MAX {
            let next = self.place.borrow_mut().next(u64::MAX)?;
            let Some((request, held)) = next else { break };
            due += Duration::from_secs_f64(-draws.unit().ln() / rate);
            let mut arrival = pin!(self.clock.sleep(due.saturating_sub(self.clock.now())));
            loop {
                if flights.is_empty() {
                    arrival.as_mut().await;
                    break;
                }
                match select(arrival.as_mut(), flights.next()).await {
                    Either::Left(_) => break,
                    Either::Right((ended, _)) => {
                        if let Some(tally) = ended {
                            all.add(tally?);
                        }
                    }
                }
            }
            arrived += 1;
            flights.push(self.one(target, request, held));
        }
        let ended = all.reads() + all.writes;
        all.sustained = flights.len() < IN_FLIGHT_MAX && ended as f64 >= SUSTAINED_SHARE * f64::from(arrived);
        all.time = self.clock.now() - begun;
        while let Some(tally) = flights.next().await {
            all.add(tally?);
        }
        Ok(all)
    }

    /// Replays one request after the other.
    async fn lane(&self, target: &Target, until_ns: u64) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        loop {
            let next = self.place.borrow_mut().next(until_ns)?;
            let Some((request, held)) = next else { return Ok(tally) };
            tally.add(self.one(target, request, held).await?);
        }
    }

    /// Replays a request, whose first block has the content of the write `held`.
    async fn one(&self, target: &Target, request: Request, held: Option<u64>) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let begun = self.clock.now();
        let extents = request.blocks(CHUNK_BYTES).count() as u64;
        self.clock.sleep(Duration::from_nanos(Cpu::default().request_ns * extents)).await;
        if request.op == Op::Write {
            target.write(request.offset, bytes_of(&request.fingerprints)).await?;
            self.place.borrow_mut().wrote(&request);
            tally.writes = 1;
            return Ok(tally);
        }
        let read = target.read(request.offset, request.len).await?;
        tally.read_times.push(self.clock.now() - begun);
        // The check is skipped if the block was written meanwhile.
        let sure = held.is_some() && held == self.place.borrow().held(&request);
        if sure && read.get(..BLOCK_BYTES as usize) != Some(&bytes_of(&request.fingerprints[..1])[..]) {
            let why = format!("a read at byte {} is not what was written", request.offset);
            return Err(Error::new("reproduce cos", why).or("please report it"));
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::super::WARM_NS;
    use super::super::image::Image;
    use super::*;
    use crate::nitro::Fiu;

    fn request(op: Op, block: u64, blocks: u64) -> Request {
        Request { op, offset: block * BLOCK_BYTES, len: blocks * BLOCK_BYTES, ..Request::default() }
    }

    #[test]
    fn open_loop_sustains_a_low_rate_and_no_rate_beyond_the_disks() {
        let clock = VirtualTime::default();
        let trace = Trace { fiu: Fiu::WebVm, scale: 0.0005 };
        let replay = async |rate: f64| {
            let image = Image::new(trace, WARM_NS, &clock).await?;
            let measured = image.open(&clock).await?;
            let player = Player::new(&trace, WARM_NS, &clock)?;
            player.play_at(&Target::Store(measured.object().await?), rate).await
        };
        let [low, high] =
            clock.try_run(async { [replay(20.0).await, replay(1e6).await] }).expect("a request never ended");
        let (low, high) = (low.unwrap(), high.unwrap());
        assert!(low.sustained && !high.sustained, "{} and {} reads", low.reads(), high.reads());
        assert!(low.reads() > 0 && low.writes > 0);
        // Exponential intervals with a mean of 50 ms.
        let mean = low.time.as_secs_f64() / (low.reads() + low.writes) as f64;
        assert!((0.03..0.08).contains(&mean), "{mean}");
    }

    #[test]
    fn what_is_read_is_certain_only_if_no_write_of_it_was_in_progress() {
        let trace = Trace { fiu: Fiu::WebVm, scale: 0.0005 };
        let mut place = Place {
            reader: trace.open().unwrap(),
            ahead: None,
            number: 0,
            written: HashMap::new(),
            writing: HashMap::new(),
        };
        let read = request(Op::Read, 6, 1);
        let begin = |place: &mut Place, request: Request| {
            place.ahead = Some(request);
            place.next(u64::MAX).unwrap().unwrap().0
        };
        assert_eq!(place.held(&read), Some(0));
        let first = begin(&mut place, request(Op::Write, 5, 2));
        assert_eq!(place.held(&read), None, "in progress");
        place.wrote(&first);
        assert_eq!(place.held(&read), Some(1));
        let second = begin(&mut place, request(Op::Write, 6, 1));
        let third = begin(&mut place, request(Op::Write, 6, 3));
        place.wrote(&third);
        assert_eq!(place.held(&read), None, "the second is in progress");
        place.wrote(&second);
        assert_eq!(place.held(&read), None, "it may have come after the third");
        let fourth = begin(&mut place, request(Op::Write, 6, 1));
        place.wrote(&fourth);
        assert_eq!(place.held(&read), Some(4));
    }
}
