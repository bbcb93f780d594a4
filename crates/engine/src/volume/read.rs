//! The read path: RAM, SSD, origin.

mod fill;
mod locate;
mod misses;

pub(super) use fill::Entrance;
pub(super) use locate::SsdRun;

use super::{EXTENTS_PER_TURN, Pieces, Volume};
use crate::cache::Fetched;
use crate::error::Error;
use crate::kept::for_reply;
use crate::metrics::RAM_HITS_PER_TIMED;
use bytes::Bytes;
use fill::{Fill, Then};
use futures_util::TryFutureExt;
use futures_util::future::{join, join_all};
use locate::{Source, Sources};
use nitro_cache::CacheManager;
use nitro_cache::admission::Provenance;
use nitro_cache::class::Band;
use nitro_cache::pattern::Access;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, Origin, Urgency};
use nitro_units::{ClassId, ExtentIndex, ExtentRange};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum bytes of one read of the origin by a warm-up.
const WARM_BYTES: u64 = 1 << 20;

/// How to read a request.
enum Plan {
    /// From RAM, which has all of it.
    Here(Pieces),
    /// From the SSD, with one read.
    Ssd(SsdRun, Fill),
    /// From several sources, or from the origin. It is boxed, so that a read of the SSD takes less memory.
    Scattered(Box<Sources>, Fill),
}

/// The bytes that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Some extents of a request, in order, and whether the origin was needed.
type Extents = SmallVec<[Bytes; 2]>;

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reads a range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]; [`Error::Origin`]: the origin was needed and failed.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Pieces, Error> {
        self.read_as(self.class(), offset, len).await
    }

    /// As [`read`](Self::read), by a request of that class.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_as(&self, class: ClassId, offset: u64, len: u64) -> impl Future<Output = Result<Pieces, Error>> {
        self.read_found(class, offset, len).map_ok(|(pieces, _)| pieces)
    }

    /// As [`read_as`](Self::read_as). Also returns whether all of the range came from RAM or the SSD.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_found(
        &self,
        class: ClassId,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<(Pieces, bool), Error>> {
        // Not an async fn: its arguments would take room in its future twice.
        let span = Span { offset, len };
        async move {
            let begun = self.cache.clock.now();
            let plan = self.plan(class, span);
            let result = match plan {
                Ok(Plan::Here(pieces)) => Ok((pieces, true)),
                Ok(Plan::Ssd(ref run, fill)) => {
                    let fetched = self.cache.fetch(&run.extents, fill.urgency).await;
                    match self.take_hits(run, fetched) {
                        Ok(extents) => Ok((self.cut(extents, span), true)),
                        Err(fetched) => Box::pin(self.read_lost(run, fetched, fill, span)).await,
                    }
                }
                Ok(Plan::Scattered(sources, fill)) => Box::pin(self.read_scattered(sources, fill, span)).await,
                Err(error) => Err(error),
            };
            self.note_end(begun, &result);
            result
        }
    }

    /// Counts a read that began at `begun`.
    fn note_end(&self, begun: Duration, result: &Result<(Pieces, bool), Error>) {
        match result {
            Ok((_, hit)) => {
                let recorder = if *hit { &self.latencies.read_hit } else { &self.latencies.read_miss };
                recorder.record(self.cache.clock.now().saturating_sub(begun));
            }
            Err(error) => self.count_failure(error),
        }
    }

    /// Reads a range if all of it is in the RAM cache; a caller that gets `None` goes on to [`read`](Self::read).
    pub fn try_read(&self, offset: u64, len: u64) -> Option<Pieces> {
        self.try_read_as(self.class(), offset, len)
    }

    /// As [`try_read`](Self::try_read), by a request of that class.
    pub fn try_read_as(&self, class: ClassId, offset: u64, len: u64) -> Option<Pieces> {
        if self.cache.settings.ram_cache_bytes == 0 || self.check_range(offset, len).is_err() || self.flights.is_busy()
        {
            return None;
        }
        let is_timed = self.ram_reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(RAM_HITS_PER_TIMED);
        let begun = is_timed.then(|| self.cache.clock.now());
        let (extents, span) = (self.extents(offset, len), Span { offset, len });
        let mut pieces = Pieces::new();
        let mut ram = self.cache.ram.lock();
        for index in extents.iter() {
            let within = self.within(index, span);
            pieces.push(part(ram.read(&self.key(index))?, within));
        }
        drop(ram);
        let count = extents.count();
        self.pattern(Provenance::read(class), offset, len);
        self.want_ahead(self.note_read(offset, len));
        self.classes.read(class, len, count, count);
        self.cache.metrics.ram_hits.add(count);
        self.metrics.read_hit_extents.add(count);
        if let Some(begun) = begun {
            let latency = self.cache.clock.now().saturating_sub(begun);
            self.latencies.read_hit.record_sample(latency, RAM_HITS_PER_TIMED.into());
        }
        Some(pieces)
    }

    /// Brings a range into the cache, with any access pattern; ends when it is read and queued for insertion.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn warm(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_range(offset, len)?;
        let (extents, span) = (self.extents(offset, len), Span { offset, len });
        let run_max = (WARM_BYTES / self.extent_bytes()).max(1);
        let mut index = extents.start;
        while index < extents.end {
            if self.cache.manager.lock().peek(self.key(index)).is_some() {
                index = index.next();
                if index.0.is_multiple_of(EXTENTS_PER_TURN) {
                    yield_now().await;
                }
                continue;
            }
            let missing = |index| self.cache.manager.lock().peek(self.key(index)).is_none();
            let run_end = extents.end.min(ExtentRange::from(index, run_max).end);
            let run = ExtentRange::new(index.next(), run_end).take_while(missing);
            let run = ExtentRange::new(index, run.end);
            let (class, pattern) = (self.class(), ClassId::UNCLASSIFIED);
            let fill = Fill { then: Then::Wait, class, pattern, urgency: Urgency::default() };
            self.read_through(run, fill, span).await?;
            index = run.end;
        }
        Ok(())
    }

    fn note_read(&self, offset: u64, len: u64) -> Access {
        self.metrics.reads.add(1);
        self.metrics.read_bytes.add(len);
        self.streams.lock().read(offset, len)
    }

    /// Decides how to read a range.
    fn plan(&self, class: ClassId, span: Span) -> Result<Plan, Error> {
        let Span { offset, len } = span;
        self.check_range(offset, len)?;
        if len == 0 {
            return Ok(Plan::Here(Pieces::new()));
        }
        let access = self.note_read(offset, len);
        let pattern = self.pattern(Provenance::read(class), offset, len);
        let then = if access.sequential { Then::HoldBack } else { Then::Insert };
        let mut fill = Fill { then, class, pattern, urgency: Urgency::default() };
        let range = self.extents(offset, len);
        let mut sources = self.locate(range, span, fill);
        if self.cache.has_priorities.load(Ordering::Relaxed) {
            fill.urgency = self.urgency(fill, &sources);
        }
        let missing: u64 = sources.iter().map(|(source, _)| source.missing()).sum();
        let count = range.count();
        self.classes.read(class, len, count - missing, count);
        if self.is_cached() {
            for (source, first) in &sources {
                self.note_missed(ExtentRange::from(*first, source.missing()), access.sequential);
            }
        }
        self.want_ahead(access);
        Ok(match sources.pop() {
            Some((Source::Ssd(run), _)) if sources.is_empty() => Plan::Ssd(run, fill),
            Some((Source::Here(bytes), _)) if sources.is_empty() => {
                self.metrics.read_hit_extents.add(1);
                Plan::Here(self.cut(Extents::from_iter([bytes]), span))
            }
            last => {
                sources.extend(last);
                Plan::Scattered(Box::new(sources), fill)
            }
        })
    }

    /// The urgency of a request: that of its class, otherwise that of the most urgent class of what it reads. The class of
    /// an extent that is not cached follows from the blocks that were seen before, or from the pattern of the requests.
    fn urgency(&self, fill: Fill, sources: &Sources) -> Urgency {
        if fill.class.is_classified() {
            return urgency_of(&self.cache.manager.lock(), fill.class);
        }
        let classifier = self.cache.classifiers.of(self.object());
        let urgency = |(source, first): &(Source, ExtentIndex)| match source {
            Source::Here(_) => None,
            Source::Ssd(run) => {
                let manager = self.cache.manager.lock();
                run.extents.first().map(|(_, location)| urgency_of(&manager, manager.worth(location).class))
            }
            Source::Origin(_) => {
                let bytes = ExtentRange::one(*first).bytes(self.extent_bytes());
                let class = classifier.as_ref().and_then(|classifier| classifier.class_of(bytes));
                Some(urgency_of(&self.cache.manager.lock(), class.unwrap_or(fill.pattern)))
            }
        };
        sources.iter().filter_map(urgency).max().unwrap_or_default()
    }

    /// Reads a range that has several sources, or is not cached: from RAM, SSD and origin at the same time.
    async fn read_scattered(&self, sources: Box<Sources>, fill: Fill, span: Span) -> Result<(Pieces, bool), Error> {
        let run = |(source, first): &(Source, ExtentIndex)| ExtentRange::from(*first, source.missing());
        let missing: Vec<ExtentRange> = sources.iter().map(run).filter(|run| !run.is_empty()).collect();
        let mut is_missing = missing.iter().map(|run| run.start).peekable();
        let mut hit = missing.is_empty();
        let mut order = Vec::with_capacity(sources.len());
        let mut cached = Vec::new();
        for (source, first) in *sources {
            order.push(is_missing.next_if_eq(&first).is_some());
            if source.missing() == 0 {
                cached.push(self.obtain(source, fill, span));
            }
        }
        let (cached, missing) = join(join_all(cached), self.read_misses(&missing, fill, span)).await;
        let (mut cached, mut missing) = (cached.into_iter(), missing?.into_iter());
        let mut all = Extents::new();
        for is_missing in order {
            if is_missing {
                all.extend(missing.next().into_iter().flatten());
            } else if let Some(obtained) = cached.next() {
                let (extents, from_cache) = obtained?;
                hit &= from_cache;
                all.extend(extents);
            }
        }
        Ok((self.cut(all, span), hit))
    }

    /// The requested part of the extents.
    fn cut(&self, extents: Extents, span: Span) -> Pieces {
        let wanted = |(index, extent): (ExtentIndex, Bytes)| {
            let within = self.within(index, span);
            if within.len() == extent.len() { extent } else { part(&extent, within) }
        };
        self.extents(span.offset, span.len).iter().zip(extents).map(wanted).collect()
    }

    /// The requested bytes of an extent.
    fn within(&self, index: ExtentIndex, span: Span) -> Range<usize> {
        let start = index.offset(self.extent_bytes());
        let from = span.offset.max(start) - start;
        let to = (span.offset + span.len).min(start + self.extent_bytes()) - start;
        from as usize..to as usize
    }

    /// Obtains extents that were found in RAM or on the SSD.
    async fn obtain(&self, source: Source, fill: Fill, span: Span) -> Result<(Extents, bool), Error> {
        match source {
            Source::Here(bytes) => {
                self.metrics.read_hit_extents.add(1);
                Ok((Extents::from_iter([bytes]), true))
            }
            Source::Ssd(run) => self.read_ssd(run, fill, span).await,
            Source::Origin(_) => Ok((Extents::new(), false)),
        }
    }

    async fn read_ssd(&self, run: SsdRun, fill: Fill, span: Span) -> Result<(Extents, bool), Error> {
        match self.take_hits(&run, self.cache.fetch(&run.extents, fill.urgency).await) {
            Ok(extents) => Ok((extents, true)),
            Err(fetched) => Ok((self.make_up(&run, fetched, fill, span).await?, false)),
        }
    }

    /// The extents of a run if all were fetched; otherwise returns the fetched ones.
    fn take_hits(&self, run: &SsdRun, fetched: Fetched) -> Result<Extents, Fetched> {
        if fetched.iter().any(Option::is_none) {
            return Err(fetched);
        }
        let found = run.indexes().zip(&run.epochs).zip(fetched.into_iter().flatten());
        let extents = found.map(|((index, epoch), bytes)| {
            self.note_fetched(index, &bytes, run, *epoch);
            bytes
        });
        Ok(extents.collect())
    }

    /// Counts an extent of a run that was fetched, and keeps it in RAM.
    fn note_fetched(&self, index: ExtentIndex, bytes: &Bytes, run: &SsdRun, epoch: u32) {
        self.metrics.read_hit_extents.add(1);
        self.keep_in_ram(index, bytes, run.extents.len() == 1, epoch);
    }

    /// Completes a read of a run of which some extents could not be fetched.
    async fn read_lost(&self, run: &SsdRun, fetched: Fetched, fill: Fill, span: Span) -> Result<(Pieces, bool), Error> {
        let extents = self.make_up(run, fetched, fill, span).await?;
        Ok((self.cut(extents, span), false))
    }

    /// Reads extents of a run that could not be fetched from the origin.
    async fn make_up(&self, run: &SsdRun, fetched: Fetched, fill: Fill, span: Span) -> Result<Extents, Error> {
        let mut extents = Extents::new();
        for ((index, epoch), extent) in run.indexes().zip(&run.epochs).zip(fetched) {
            match extent {
                Some(bytes) => {
                    self.note_fetched(index, &bytes, run, *epoch);
                    extents.push(bytes);
                }
                None => extents.extend(self.read_through(ExtentRange::one(index), fill, span).await?),
            }
        }
        Ok(extents)
    }
}

// Each word of priority is an urgency.
const _: () = assert!(Urgency::COUNT == Band::COUNT);

/// How urgent the requests of a class are.
fn urgency_of(manager: &CacheManager, class: ClassId) -> Urgency {
    Urgency::ALL[manager.classes().of(class).priority.level()]
}

/// Bytes of an extent, for a reply.
fn part(extent: &Bytes, within: Range<usize>) -> Bytes {
    for_reply(extent.slice(within), extent.len() as u64)
}
