//! Locates the extents of a request: in RAM, on the SSD, or only in the origin.

use super::Span;
use super::fill::Fill;
use crate::volume::Volume;
use bytes::Bytes;
use nitro_cache::Location;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentKey, ExtentRange};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Stored extents at most this many bytes apart are read from the SSD with one read.
const SSD_GAP_BYTES: u32 = 4096;
/// Maximum bytes of one read of the SSD.
const SSD_READ_BYTES_MAX: u32 = 256 << 10;

/// The source of a run of extents.
pub(super) enum Source {
    Here(Bytes),
    Ssd(SsdRun),
    Origin(u64),
}

impl Source {
    /// Number of extents that are not cached.
    pub(super) const fn missing(&self) -> u64 {
        if let Self::Origin(count) = self { *count } else { 0 }
    }
}

/// The sources of a request's extents, in order, each with the number of its first extent.
pub(super) type Sources = SmallVec<[(Source, ExtentIndex); 1]>;

/// What a request wants of an extent.
struct Wanted {
    /// The bytes of the extent.
    within: Range<u32>,
    /// The extent's write epoch before it is looked for.
    epoch: u32,
    fill: Fill,
}

/// Extents that are close to each other on the SSD.
#[derive(Default)]
pub(in crate::volume) struct SsdRun {
    pub(in crate::volume) extents: SmallVec<[(ExtentKey, Location); 1]>,
    /// The bytes of the WEU from the first to the last of them, in whichever order they were asked for.
    span: Range<u32>,
    /// The extents' write epochs from *before* the look-up: fetched extents may be kept in RAM only if these are
    /// unchanged.
    pub(super) epochs: SmallVec<[u32; 1]>,
}

impl SsdRun {
    pub(in crate::volume) fn push(&mut self, key: ExtentKey, location: Location, epoch: u32) {
        self.span = match self.extents.is_empty() {
            true => location.span(),
            false => joined(&self.span, &location.span()),
        };
        self.extents.push((key, location));
        self.epochs.push(epoch);
    }

    /// The extents, in their order.
    pub(in crate::volume) fn indexes(&self) -> impl Iterator<Item = ExtentIndex> {
        self.extents.iter().map(|(key, _)| key.index())
    }

    /// Whether a location is close enough to be read with them.
    pub(in crate::volume) fn reaches(&self, next: &Location) -> bool {
        let Some((_, one)) = self.extents.first() else { return false };
        let span = next.span();
        (one.weu, one.generation) == (next.weu, next.generation)
            && !(one.in_ram || next.in_ram || one.sectors == 0 || next.sectors == 0)
            && span.start <= self.span.end + SSD_GAP_BYTES
            && self.span.start <= span.end + SSD_GAP_BYTES
            && joined(&self.span, &span).len() as u32 <= SSD_READ_BYTES_MAX
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Locates the extents of a request, and combines neighbours that can be read together.
    pub(super) fn locate(&self, extents: ExtentRange, span: Span, fill: Fill) -> Sources {
        let mut sources = Sources::new();
        let caching = self.is_cached();
        for index in extents.iter() {
            let key = self.key(index);
            let within = self.within(index, span);
            let epoch = self.write_epoch(index).load(Ordering::SeqCst);
            // Only now: a write that raised the epoch had registered what it writes before.
            let busy = self.flights.is_busy();
            let wanted = Wanted { within: within.start as u32..within.end as u32, epoch, fill };
            if let Some(bytes) = self.in_ram(index, wanted, busy) {
                sources.push((Source::Here(bytes), index));
                continue;
            }
            let location = match caching {
                true => self.look_up(key, fill),
                false => self.dirty_location(key),
            };
            if location.is_none()
                && self.flights.has_staged()
                && let Some(kept) = self.flights.read_pending(index)
            {
                self.cache.metrics.pending_hits.add(1);
                sources.push((Source::Here(kept.for_reply()), index));
                continue;
            }
            match (location, sources.last_mut()) {
                (Some(location), Some((Source::Ssd(run), _))) if run.reaches(&location) => {
                    run.push(key, location, epoch);
                }
                (Some(location), _) => {
                    let mut run = SsdRun::default();
                    run.push(key, location, epoch);
                    sources.push((Source::Ssd(run), index));
                }
                (None, Some((Source::Origin(count), _))) => *count += 1,
                (None, _) => sources.push((Source::Origin(1), index)),
            }
        }
        sources
    }

    /// An extent's bytes, if they are in RAM: waiting for insertion, in the RAM cache, or read ahead.
    fn in_ram(&self, index: ExtentIndex, Wanted { within, epoch, fill }: Wanted, busy: bool) -> Option<Bytes> {
        if let Some(kept) = busy.then(|| self.flights.read_pending(index)).flatten() {
            self.cache.metrics.pending_hits.add(1);
            return Some(kept.for_reply());
        }
        let keeps_ram = self.cache.settings.ram_cache_bytes > 0;
        if let Some(bytes) = keeps_ram.then(|| self.cache.ram.lock().read(&self.key(index)).cloned()).flatten() {
            self.cache.metrics.ram_hits.add(1);
            if self.cache.spending.is_sparing() && self.flights.has_staged() {
                // It was used again: what waits for the SSD deserves it.
                drop(self.flights.read_pending(index));
            }
            return Some(bytes);
        }
        let (kept, again) = self.cache.ahead.lock().take(&self.key(index), within)?;
        self.cache.metrics.readahead_hits.add(1);
        if again {
            self.promote(index, kept.detached(), epoch, fill);
        }
        Some(kept.for_reply())
    }

    /// Looks up an extent for a read.
    fn look_up(&self, key: ExtentKey, fill: Fill) -> Option<Location> {
        let mut manager = self.cache.manager.lock();
        let location = manager.lookup(key)?;
        manager.note_read_by(fill.by(), &location);
        Some(location)
    }

    /// The location of a dirty extent, although the cache is otherwise not used any more.
    fn dirty_location(&self, key: ExtentKey) -> Option<Location> {
        if !self.may_be_dirty() {
            return None;
        }
        let manager = self.cache.manager.lock();
        if manager.is_dirty(key) { manager.peek(key) } else { None }
    }

    /// The first dirty extent of a range.
    pub(in crate::volume) fn first_dirty(&self, extents: ExtentRange) -> Option<ExtentIndex> {
        if !self.may_be_dirty() {
            return None;
        }
        let object = self.options.object;
        let found = self.cache.manager.lock().dirty_from(object, extents.start, u32::MAX, 1);
        found.first().map(|extent| extent.key.index()).filter(|index| *index < extents.end)
    }
}

/// The smallest range that holds both.
fn joined(a: &Range<u32>, b: &Range<u32>) -> Range<u32> {
    a.start.min(b.start)..a.end.max(b.end)
}
