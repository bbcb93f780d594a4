//! Read-ahead for sequential readers. What a reader will request next is read together, so that each container is read
//! with one request for all that a long range needs of it, as in the forward assembly area of Lillibridge, Eshghi and
//! Bhagwat (*Improving Restore Speed for Backup Systems that Use Inline Chunk-Based Deduplication*, FAST 2013): in an aged
//! object, neighbouring chunks are in many containers. For devices with slow seeks only.

use crate::access::Access;
use crate::chunks::Run;
use crate::object::Object;
use crate::place::{Place, Reference};
use crate::{Store, Volume};
use event_listener::Event;
use futures_util::future::{Either, select};
use futures_util::lock::Mutex as AsyncMutex;
use futures_util::stream::{self, StreamExt};
use hashbrown::HashSet;
use nitro_port::Device;
use nitro_port::yielding::{attempt_at, yield_now};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// The maximum number of streams that are followed.
const STREAMS_MAX: usize = 16;
/// The number of streams that read ahead at the same time.
const READERS_MAX: usize = 4;
/// The number of requests to the device at the same time, for each of these streams.
const READS_AT_ONCE: usize = 4;
/// The maximum number of requests whose data wait to be decompressed, for each range that is being read.
const BACKLOG_MAX: usize = 2;
/// An access that begins at most this far behind a stream continues it: requests of one reader overtake one another.
const GAP_BYTES_MAX: u64 = 4 << 20;

/// A reader of an object.
#[derive(Debug, Clone, Copy)]
struct Stream {
    object: u64,
    /// Since here, it was read by requests or read ahead, and may still be in RAM.
    start: u64,
    /// Up to here, it was read.
    ready: u64,
    /// Up to here, it was read or is being read.
    end: u64,
    /// Bytes of the last range that was read ahead.
    window: u64,
    /// Bytes that were read ahead for all streams when this one was last extended.
    extended_at: u64,
    /// The gate that its ranges pass in order.
    gate: usize,
}

/// What a reader does before it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Nothing: its data were read ahead, or it is not known as a stream yet.
    Go,
    /// It waits for the range that is being read. So whoever has begun a read must go on polling it, whatever else they
    /// wait for.
    Wait,
    /// It reads this range, as far as that fits into these bytes of RAM.
    Read { gate: usize, range: Range<u64>, ram_bytes: u64 },
}

#[derive(Debug, Default)]
struct Streams {
    streams: Vec<Stream>,
    /// The ranges that are being read, with their objects.
    reading: Vec<(u64, Range<u64>)>,
    /// Bytes that were read ahead.
    ahead_bytes: u64,
    created: usize,
}

impl Streams {
    /// Notes an access of `len` bytes at `offset`. `cache_bytes` is the RAM for what is read ahead, `most` the maximum of
    /// bytes for one stream, `size` the size of the object.
    fn note(&mut self, object: u64, offset: u64, len: u64, (cache_bytes, most, size): (u64, u64, u64)) -> Step {
        let (now, end) = (self.ahead_bytes, offset.saturating_add(len));
        // What was read ahead longer ago has left the RAM.
        let is_active = |s: &Stream| now - s.extended_at < cache_bytes;
        let of_object = |s: &Stream| s.object == object && s.start <= offset && offset <= s.end + GAP_BYTES_MAX;
        let Some(at) = self.streams.iter().position(|s| of_object(s) && is_active(s)) else {
            if self.streams.len() >= STREAMS_MAX {
                self.streams.pop();
            }
            let gate = self.created % READERS_MAX;
            self.created += 1;
            let new = Stream { object, start: offset, ready: end, end, window: 0, extended_at: now, gate };
            self.streams.insert(0, new);
            return Step::Go;
        };
        let active = self.streams.iter().filter(|s| is_active(s)).count() as u64;
        self.streams[..=at].rotate_right(1);
        let Some(stream) = self.streams.first_mut() else { return Step::Go };
        if end <= stream.ready {
            return Step::Go;
        }
        if end <= stream.end {
            return Step::Wait;
        }
        let ram_bytes = cache_bytes / 2 / active;
        let window = (stream.window * 2).max(len * 2).min(most).min(ram_bytes);
        if window < len {
            *stream = Stream { ready: end, end, window: 0, extended_at: now, ..*stream };
            return Step::Go;
        }
        let range = stream.end..(end + window).min(size);
        self.ahead_bytes += range.end - range.start;
        let start = stream.start.max(range.end.saturating_sub(cache_bytes));
        *stream = Stream { start, end: range.end, window, extended_at: now, ..*stream };
        let gate = stream.gate;
        self.reading.push((object, range.clone()));
        Step::Read { gate, range, ram_bytes }
    }

    /// Whether a part of a range is being read ahead.
    fn is_being_read(&self, object: u64, range: &Range<u64>) -> bool {
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        self.reading.iter().any(|(of, other)| *of == object && overlaps(other))
    }

    /// Notes that a range was read, up to `reached`.
    fn read(&mut self, object: u64, range: &Range<u64>, reached: u64) {
        let of_range = |s: &&mut Stream| s.object == object && s.start <= range.start && s.end >= range.end;
        if let Some(stream) = self.streams.iter_mut().find(of_range) {
            stream.ready = stream.ready.max(reached);
            if stream.end == range.end {
                stream.end = reached;
            }
        }
    }
}

/// The ranges of some streams pass it in order: while one is decompressed, the next one is read.
#[derive(Debug, Default)]
struct Gate {
    reading: AsyncMutex<()>,
    decompressing: AsyncMutex<()>,
}

/// Regions that were read, for whoever is first to decompress them.
#[derive(Debug)]
struct Work {
    run: Run,
    is_done: AtomicBool,
}

impl Work {
    fn is_done(&self) -> bool {
        self.is_done.load(SeqCst)
    }
}

/// The streams of a store.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    streams: Mutex<Streams>,
    gates: [Gate; READERS_MAX],
    /// What was read and nobody decompresses yet. Its readers own it, so that it ends with them.
    work: Mutex<VecDeque<Weak<Work>>>,
    /// There is work, some is done, or a range was read.
    changed: Event,
}

impl Ahead {
    /// The maximum RAM of requests to the device for read-ahead, and of what they have read, in bytes.
    pub(crate) const RAM_BYTES_MAX: u64 =
        (READERS_MAX * (READS_AT_ONCE + 2 * BACKLOG_MAX) * crate::chunks::READ_BYTES_MAX) as u64;

    /// Offers regions to all who wait.
    fn offer(&self, run: Run) -> Arc<Work> {
        let work = Arc::new(Work { run, is_done: AtomicBool::new(false) });
        self.work.lock().push_back(Arc::downgrade(&work));
        self.changed.notify(usize::MAX);
        work
    }

    fn take(&self) -> Option<Arc<Work>> {
        let mut work = self.work.lock();
        std::iter::from_fn(|| work.pop_front()).find_map(|work| work.upgrade())
    }
}

/// A range that is being read, until it ends or is given up.
struct Reading<'a> {
    ahead: &'a Ahead,
    object: u64,
    range: &'a Range<u64>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let is_this = |(object, range): &(u64, Range<u64>)| *object == self.object && range == self.range;
        self.ahead.streams.lock().reading.retain(|other| !is_this(other));
        self.ahead.changed.notify(usize::MAX);
    }
}

impl<D: Device> Volume<D> {
    /// Reads what a sequential reader will request after `len` bytes at `offset`, and these bytes, into RAM. Errors are
    /// left to the read itself.
    pub(crate) async fn read_ahead(&self, offset: u64, len: u64) {
        let (store, object) = (self.store(), self.object());
        let most = store.readahead_bytes();
        if most == 0 {
            return;
        }
        let limits = (store.settings.region_cache_bytes, most, self.size_bytes());
        let step = store.ahead.streams.lock().note(object.id, offset, len, limits);
        match step {
            Step::Go => {}
            Step::Wait => {
                let range = offset..offset.saturating_add(len);
                let is_read = || (!store.ahead.streams.lock().is_being_read(object.id, &range)).then_some(());
                store.help_until(attempt_at(&store.ahead.changed, is_read)).await;
            }
            Step::Read { gate, range, ram_bytes } => {
                let _reading = Reading { ahead: &store.ahead, object: object.id, range: &range };
                let request = (offset + len, len);
                let reached = store.read_range_ahead(object, request, range.clone(), (gate, ram_bytes)).await;
                store.ahead.streams.lock().read(object.id, &range, reached);
            }
        }
    }
}

impl<D: Device> Store<D> {
    /// The maximum number of bytes that are read ahead for a stream.
    pub(crate) fn readahead_bytes(&self) -> u64 {
        if self.device.geometry().rotational { self.settings.readahead_bytes } else { 0 }
    }

    /// Reads the regions of a range into RAM, as many as fit into `ram_bytes`. Returns where the next range begins. If less
    /// than another request would fit, nothing is read: the reader's request, of `len` bytes up to `end`, reads its own part.
    async fn read_range_ahead(
        &self,
        object: &Object,
        (end, len): (u64, u64),
        range: Range<u64>,
        (gate, ram_bytes): (usize, u64),
    ) -> u64 {
        let Ok(references) = self.references(object, range.clone(), Access::Sequential).await else { return range.end };
        let regions_max = (ram_bytes / u64::from(self.superblock.region_bytes)) as usize;
        let mut places: HashSet<Place> = HashSet::new();
        let mut reached = range.end;
        for (start, Reference { place, .. }) in references {
            places.insert(Place { number: 0, ..place });
            if places.len() > regions_max {
                reached = start.max(range.start);
                break;
            }
        }
        if reached < (end + len).min(range.end) {
            return end;
        }
        let mut places: Vec<Place> = places.into_iter().collect();
        places.sort_by_key(crate::chunks::order);
        self.load_regions(&places, &self.ahead.gates[gate]).await;
        reached
    }

    /// Reads regions into RAM. They are decompressed by this task and by those that wait.
    async fn load_regions(&self, places: &[Place], gate: &Gate) {
        let ahead = &self.ahead;
        let reading = self.help_until(gate.reading.lock()).await;
        let missing: Vec<usize> = (0..places.len()).filter(|i| self.cached_region(places[*i]).is_none()).collect();
        let reads = self.runs(places, &missing).into_iter().map(|run| run.iter().map(|i| places[*i]).collect());
        let mut reads = stream::iter(reads.map(|run| self.read_run(run))).buffer_unordered(READS_AT_ONCE);
        let mut offered: Vec<Arc<Work>> = Vec::new();
        while let Some(read) = reads.next().await {
            match read {
                Ok(run) => offered.push(ahead.offer(run)),
                Err(error) => tracing::debug!("read-ahead failed: {error}"),
            }
            let is_short = || {
                offered.retain(|work| !work.is_done());
                (offered.len() <= BACKLOG_MAX).then_some(())
            };
            self.help_until(attempt_at(&ahead.changed, is_short)).await;
        }
        let _decompressing = self.help_until(gate.decompressing.lock()).await;
        drop(reading);
        let all_done = || offered.iter().all(|work| work.is_done()).then_some(());
        self.help_until(attempt_at(&ahead.changed, all_done)).await;
    }

    /// Decompresses what readers have read until a future is ready.
    async fn help_until<T>(&self, until: impl Future<Output = T>) -> T {
        let mut until = pin!(until);
        loop {
            let work = pin!(attempt_at(&self.ahead.changed, || self.ahead.take()));
            match select(until.as_mut(), work).await {
                Either::Left((ready, _)) => return ready,
                Either::Right((work, _)) => {
                    self.decode(&work.run);
                    work.is_done.store(true, SeqCst);
                    self.ahead.changed.notify(usize::MAX);
                    yield_now().await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SIZE: u64 = 64 * MIB;

    /// A reader's step, with 16 MiB of RAM and at most 8 MiB for it.
    fn note(streams: &mut Streams, object: u64, offset: u64, len: u64) -> Option<Range<u64>> {
        match streams.note(object, offset, len, (16 * MIB, 8 * MIB, SIZE)) {
            Step::Read { range, .. } => {
                // Its other requests wait until it was read.
                assert_eq!(streams.note(object, range.end - 1, 1, (16 * MIB, 8 * MIB, SIZE)), Step::Wait, "{range:?}");
                streams.read(object, &range, range.end);
                Some(range)
            }
            step => {
                assert_eq!(step, Step::Go);
                None
            }
        }
    }

    #[test]
    fn ranges_double_up_to_a_maximum_and_end_with_the_object() {
        let mut streams = Streams::default();
        let read: Vec<_> = (0..64).filter_map(|at| note(&mut streams, 1, at * MIB, MIB)).collect();
        let ends: Vec<_> = read.iter().map(|range| range.end / MIB).collect();
        assert_eq!(ends, [4, 9, 18, 27, 36, 45, 54, 63, 64]);
        assert!(read.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn readers_share_the_ram_until_they_end() {
        let mut streams = Streams::default();
        for at in 0..4 {
            for object in 1..=4 {
                let read = note(&mut streams, object, at * MIB, MIB);
                assert!(read.is_none_or(|range| range.end - range.start <= 3 * MIB), "{object} at {at}");
            }
        }
        let read = (4..40).filter_map(|at| note(&mut streams, 1, at * MIB, MIB));
        let most = read.map(|range| range.end - range.start).max();
        assert_eq!(most, Some(9 * MIB));
    }

    #[test]
    fn what_does_not_fit_is_read_again_later_and_other_objects_are_not_concerned() {
        let mut streams = Streams::default();
        assert_eq!(note(&mut streams, 1, 0, MIB), None);
        let limits = (16 * MIB, 8 * MIB, SIZE);
        let Step::Read { range, .. } = streams.note(1, MIB, MIB, limits) else { panic!("it goes on") };
        streams.read(1, &range, 3 * MIB);
        assert_eq!(streams.note(1, 2 * MIB, MIB, limits), Step::Go);
        assert_eq!(note(&mut streams, 2, 3 * MIB, MIB), None);
        assert_eq!(note(&mut streams, 1, 3 * MIB, MIB).map(|range| range.start), Some(3 * MIB));
        assert_eq!(note(&mut streams, 1, 40 * MIB, MIB), None);
    }

    #[test]
    fn a_second_pass_is_read_ahead_again() {
        let mut streams = Streams::default();
        for _ in 0..3 {
            let read = (0..64).filter_map(|at| note(&mut streams, 1, at * MIB, MIB));
            assert!(read.map(|range| range.end - range.start).sum::<u64>() > 56 * MIB);
        }
    }

    #[test]
    fn streams_are_few() {
        let mut streams = Streams::default();
        for object in 0..1000 {
            assert_eq!(note(&mut streams, object, 0, MIB), None);
            assert!(streams.streams.len() <= STREAMS_MAX);
        }
    }
}
