//! Write intent: the regions of an origin for which the cache may be wrong after a crash. Before a write to the origin,
//! its region is recorded as *open* in the journal; after a crash, clean entries of open regions are not trusted, since
//! the origin may hold older or newer data. Regions that have not been written to for a while are closed, once the
//! origin has been flushed and the journal has a record of every entry that became void; so are all regions of a volume
//! without writes. The next write opens the latter again, with the same commit as its own region: otherwise scattered
//! writes would each wait for a commit.

use super::Volume;
use super::transitions::Attachment;
use crate::doubts::DoubtId;
use crate::error::Error;
use crate::format::journal::{REGION_BYTES as REGION_RECORD_BYTES, Record};
use crate::writeback::Room;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentRange, ObjectId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a region.
pub(crate) const REGION_BYTES: u64 = 16 << 20;
/// Time without writes after which a region is closed.
const IDLE: Duration = Duration::from_secs(10);
/// Time without writes to a volume after which all its regions are closed.
const QUIET: Duration = Duration::from_secs(1);
/// Number of open regions of a cache beyond which idle ones are closed sooner.
const OPEN_MAX: usize = 1024;
/// A request that touches more regions than this opens the whole volume.
const REQUEST_MAX: u64 = 256;
/// Stands for all regions of a volume: no region has this number.
pub(crate) const WHOLE: u64 = u64::MAX - 1;
const WHOLE_RANGE: Range<u64> = WHOLE..WHOLE + 1;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Region {
    /// The journal says that it is open.
    noted: bool,
    writers: u32,
    /// Total number of writes.
    writes: u64,
    /// Tells this opening from others of the region.
    opening: u64,
    last_write: Duration,
}

impl Region {
    /// Counts a writer; returns the opening if it is not recorded in the journal yet.
    fn enter(&mut self, region: u64) -> Option<Opened> {
        self.writers += 1;
        self.writes += 1;
        (!self.noted).then_some(Opened { region, opening: self.opening })
    }
}

#[derive(Debug, Default)]
struct Table {
    openings: u64,
    /// Regions whose closing is not recorded in the journal yet.
    closing: u64,
    open: BTreeMap<(ObjectId, u64), Region>,
    /// Regions that were closed because the volume had no writes, and the times of their last writes.
    rested: BTreeMap<(ObjectId, u64), Duration>,
}

impl Table {
    /// Opens a region, and with it up to `rested_max` of those of the volume that were closed while it was quiet.
    fn open(
        &mut self,
        object: ObjectId,
        region: u64,
        now: Duration,
        rested_max: usize,
        mut tell: impl FnMut(u64, u64),
    ) {
        self.openings += 1;
        let opening = self.openings;
        let rested = self.rested.extract_if(of(object), |_, last| now.saturating_sub(*last) < IDLE);
        let rested: Vec<_> = rested.map(|((_, region), last)| (region, last)).take(rested_max).collect();
        self.rested.retain(|(other, _), _| *other != object);
        for (region, last_write) in rested.into_iter().chain([(region, now)]) {
            self.open.entry((object, region)).or_insert_with(|| {
                tell(region, opening);
                Region { noted: false, writers: 0, writes: 0, opening, last_write }
            });
        }
    }
}

fn of(object: ObjectId) -> RangeInclusive<(ObjectId, u64)> {
    (object, 0)..=(object, u64::MAX)
}

/// An opening of a region that is not recorded in the journal yet.
pub(super) struct Opened {
    region: u64,
    opening: u64,
}

/// Regions that may be closed, with their state.
struct Idle {
    regions: Vec<((ObjectId, u64), Region)>,
    /// There are no writes to the volume.
    quiet: bool,
}

/// The open regions of all volumes of a cache. If there would be more open regions than the journal has room for, whole
/// volumes are opened instead: the number of volumes is less than half of that room.
#[derive(Debug)]
pub(crate) struct Regions {
    table: Mutex<Table>,
    /// Number of regions that the journal has room for.
    count_max: usize,
}

impl Regions {
    pub(crate) fn new(count_max: u64) -> Self {
        Self { table: Mutex::default(), count_max: count_max as usize }
    }

    /// Adds the regions that a restart found open.
    pub(crate) fn restore(&self, open: impl Iterator<Item = (ObjectId, u64)>, now: Duration) {
        let region = Region { noted: true, writers: 0, writes: 0, opening: 0, last_write: now };
        self.table.lock().open.extend(open.map(|id| (id, region)));
    }

    /// The regions that the journal has to record as open.
    pub(crate) fn open(&self) -> Vec<(ObjectId, u64)> {
        self.table.lock().open.keys().copied().collect()
    }

    /// The number of open regions.
    pub(crate) fn count(&self) -> u64 {
        let all = self.table.lock();
        all.open.len() as u64 + all.closing
    }

    fn has(&self, object: ObjectId) -> bool {
        self.table.lock().open.range(of(object)).next().is_some()
    }

    /// Counts a writer if all of its regions are open; returns those that are not recorded in the journal yet.
    fn enter_open(&self, object: ObjectId, regions: Range<u64>) -> Option<Vec<Opened>> {
        let mut all = self.table.lock();
        if !regions.clone().all(|region| all.open.contains_key(&(object, region))) {
            return None;
        }
        let mut news = Vec::new();
        for region in regions {
            if let Some(known) = all.open.get_mut(&(object, region)) {
                news.extend(known.enter(region));
            }
        }
        Some(news)
    }

    /// Counts a writer. Returns its regions, or the region that represents the whole volume; and the regions that are
    /// not recorded in the journal yet, if one of the writer's is among them. `opened_max`: how many other regions may
    /// be opened with them.
    fn enter(
        &self,
        object: ObjectId,
        regions: Range<u64>,
        now: Duration,
        opened_max: usize,
        tell: impl Fn(Record),
    ) -> (Range<u64>, Vec<Opened>) {
        let mut all = self.table.lock();
        let new = regions.clone().filter(|region| !all.open.contains_key(&(object, *region))).count();
        let left = (self.count_max / 2).checked_sub(all.open.len() + new);
        let regions = if new > 0 && left.is_none() { WHOLE_RANGE } else { regions };
        let rested_max = left.unwrap_or(0).min(opened_max);
        let mut news = Vec::new();
        for region in regions.clone() {
            if !all.open.contains_key(&(object, region)) {
                all.open(object, region, now, rested_max, |region, opening| {
                    tell(Record::RegionOpened { object, region });
                    news.push(Opened { region, opening });
                });
            }
            if let Some(known) = all.open.get_mut(&(object, region)) {
                news.extend(known.enter(region));
            }
        }
        (regions, news)
    }

    fn noted(&self, object: ObjectId, opened: Vec<Opened>) {
        let mut all = self.table.lock();
        for Opened { region, opening } in opened {
            // It may have been closed meanwhile, and opened again.
            if let Some(known) = all.open.get_mut(&(object, region)).filter(|known| known.opening == opening) {
                known.noted = true;
            }
        }
    }

    fn leave(&self, object: ObjectId, regions: Range<u64>, now: Duration) {
        let mut all = self.table.lock();
        for region in regions {
            if let Some(known) = all.open.get_mut(&(object, region)) {
                known.writers -= 1;
                known.last_write = now;
            }
        }
    }

    /// Regions of an object that may be closed.
    fn idle(&self, object: ObjectId, now: Duration, at_once: bool) -> Idle {
        let all = self.table.lock();
        let is_idle = |r: &Region, idle| r.writers == 0 && now.saturating_sub(r.last_write) >= idle;
        let idle = if all.open.len() > OPEN_MAX.min(self.count_max / 4) { IDLE / 10 } else { IDLE };
        let quiet = at_once || all.open.range(of(object)).all(|(_, r)| is_idle(r, QUIET));
        let idle = if quiet { Duration::ZERO } else { idle };
        let regions = all.open.range(of(object)).filter(|(_, r)| is_idle(r, idle)).map(|(id, r)| (*id, *r));
        Idle { regions: regions.collect(), quiet }
    }

    /// Closes the regions that have not changed since.
    fn close(&self, idle: &[((ObjectId, u64), Region)], quiet: bool, mut tell: impl FnMut(Record)) -> Closing<'_> {
        let mut all = self.table.lock();
        let mut count = 0;
        for (id, was) in idle {
            if all.open.get(id) == Some(was) {
                all.open.remove(id);
                count += 1;
                if quiet {
                    all.rested.insert(*id, was.last_write);
                }
                tell(Record::RegionClosed { object: id.0, region: id.1 });
            }
        }
        all.closing += count;
        Closing { regions: self, count }
    }
}

/// Regions that count as open until their closing is recorded in the journal.
struct Closing<'a> {
    regions: &'a Regions,
    count: u64,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.regions.table.lock().closing -= self.count;
    }
}

/// A write to the origin in progress; it keeps its regions open.
pub(super) struct Intent<'a, F, C: Clock> {
    cache: &'a crate::Cache<F, C>,
    object: ObjectId,
    regions: Range<u64>,
    doubt: Option<DoubtId>,
}

impl<F, C: Clock> Drop for Intent<'_, F, C> {
    fn drop(&mut self) {
        if let Some(doubt) = self.doubt {
            self.cache.doubts.leave(doubt);
        }
        self.cache.regions.leave(self.object, self.regions.clone(), self.cache.clock.now());
    }
}

/// The region of a whole volume, kept open without a write in progress.
pub(super) struct WholeIntent<F, C: Clock> {
    cache: Arc<crate::Cache<F, C>>,
    object: ObjectId,
}

impl<F, C: Clock> WholeIntent<F, C> {
    /// Notes that the journal has its opening.
    pub(super) fn noted(&self, opened: Vec<Opened>) {
        self.cache.regions.noted(self.object, opened);
    }
}

impl<F, C: Clock> Drop for WholeIntent<F, C> {
    fn drop(&mut self) {
        self.cache.regions.leave(self.object, WHOLE_RANGE, self.cache.clock.now());
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Opens the region of the whole volume, durably with the next commit. `None`: there is no journal.
    pub(super) async fn open_whole(&self) -> Option<(WholeIntent<F, C>, Vec<Opened>)> {
        if !self.cache.is_journaling() {
            return None;
        }
        let (object, now) = (self.options.object, self.cache.clock.now());
        let enter = |room: &Room<'_>| self.cache.regions.enter(object, WHOLE_RANGE, now, 0, |record| room.push(record));
        let (_, news) = self.cache.ledger.tell(REGION_RECORD_BYTES as u64, enter).await;
        Some((WholeIntent { cache: Arc::clone(&self.cache), object }, news))
    }

    /// The intent of a write to a volume that is detached: the region of the whole volume is open already. Should anything of
    /// the extents be in the cache nevertheless, it is not believed after a crash.
    fn intend_detached(&self, extents: ExtentRange) -> Option<Intent<'_, F, C>> {
        let object = self.options.object;
        let news = self.cache.regions.enter_open(object, WHOLE_RANGE)?;
        if !news.is_empty() {
            // It has been attached meanwhile, and the region was closed, and opened again.
            self.cache.regions.leave(object, WHOLE_RANGE, self.cache.clock.now());
            return None;
        }
        let doubt = self.cache.doubts.enter(object, extents);
        Some(Intent { cache: &self.cache, object, regions: WHOLE_RANGE, doubt })
    }

    /// Records in the journal that a range of extents may change at the origin. `None`: there is no journal.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the journal has failed, and a restart could not find out about the write.
    pub(super) async fn intend(&self, extents: ExtentRange) -> Result<Option<Intent<'_, F, C>>, Error> {
        if self.attached.get() == Attachment::Detached
            && let Some(intent) = self.intend_detached(extents)
        {
            return Ok(Some(intent));
        }
        if !self.cache.is_journaling() || self.cache.ledger.failed().is_some() {
            self.cache.check_outlived()?;
            return Ok(None);
        }
        let bytes = extents.bytes(self.extent_bytes());
        let regions = bytes.start / REGION_BYTES..bytes.end.div_ceil(REGION_BYTES);
        let object = self.options.object;
        let now = self.cache.clock.now();
        let most = self.cache.ledger.step(REGION_RECORD_BYTES, REQUEST_MAX);
        let regions = if regions.end - regions.start > most { WHOLE_RANGE } else { regions };
        let known = self.cache.regions.enter_open(object, regions.clone());
        let (regions, news) = match known {
            Some(news) => (regions, news),
            None => {
                let bytes = (regions.end - regions.start + most) * REGION_RECORD_BYTES as u64;
                let enter = |room: &Room<'_>| {
                    self.cache.regions.enter(object, regions, now, most as usize, |record| room.push(record))
                };
                // Boxed, as is the commit: few writes open a region.
                Box::pin(self.cache.ledger.tell(bytes, enter)).await
            }
        };
        let doubt = self.cache.doubts.enter(object, extents);
        let intent = Intent { cache: &self.cache, object, regions, doubt };
        if !news.is_empty() {
            self.cache.metrics.regions_opened.add(1);
            if Box::pin(self.cache.commit()).await.is_err() {
                self.cache.check_outlived()?;
                return Ok(None);
            }
            self.cache.regions.noted(object, news);
        }
        Ok(Some(intent))
    }

    /// Whether any region is open.
    pub(super) fn has_open_regions(&self) -> bool {
        self.cache.regions.has(self.options.object)
    }

    /// Closes the regions that have been idle for a while, or, with `at_once`, all regions without writes in progress.
    ///
    /// # Errors
    /// [`Error::Origin`] or [`Error::Poisoned`]: they stay open.
    pub async fn close_regions(&self, at_once: bool) -> Result<(), Error> {
        // While entries are still being read it is not known which of them are void.
        if !self.cache.is_journaling() || (!at_once && self.cache.is_restoring()) {
            return Ok(());
        }
        let idle = self.cache.regions.idle(self.options.object, self.cache.clock.now(), at_once);
        if idle.regions.is_empty() || self.cache.is_restoring() {
            return Ok(());
        }
        self.flush_origin().await?;
        self.cache.commit().await?;
        let step = self.cache.ledger.step(REGION_RECORD_BYTES, REQUEST_MAX) as usize;
        let mut closing = Vec::new();
        for some in idle.regions.chunks(step) {
            let close = |room: &Room<'_>| self.cache.regions.close(some, idle.quiet, |record| room.push(record));
            closing.push(self.cache.ledger.tell((some.len() * REGION_RECORD_BYTES) as u64, close).await);
        }
        self.cache.commit().await
    }
}
