//! Write intent: what a crash may have left the cache wrong about. A write that goes to the origin first has its region
//! noted as *open* in the journal; after a crash, clean entries of open regions are not trusted, since the origin may
//! hold what is older or newer than they are. Regions that have not been written to for a while are closed, once the
//! origin has been flushed and the journal has every entry that became void.

use super::Volume;
use crate::error::Error;
use crate::format::journal::Record;
use crate::port::{Clock, Device};
use nitro_cache::ObjectId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// Bytes of a region.
pub(crate) const REGION_BYTES: u64 = 16 << 20;
/// A region that has not been written to for so long is closed.
const IDLE: Duration = Duration::from_secs(10);
/// Beyond so many open regions of a cache, idle ones are closed sooner.
const OPEN_MAX: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Region {
    /// The journal says that it is open.
    noted: bool,
    writers: u32,
    last_write: Duration,
}

/// The open regions of all volumes of a cache.
#[derive(Debug, Default)]
pub(crate) struct Regions(Mutex<BTreeMap<(ObjectId, u64), Region>>);

impl Regions {
    /// What a restart found open.
    pub(crate) fn restore(&self, open: impl Iterator<Item = (ObjectId, u64)>, now: Duration) {
        let region = Region { noted: true, writers: 0, last_write: now };
        self.0.lock().extend(open.map(|id| (id, region)));
    }

    /// Those that the journal has to know of.
    pub(crate) fn open(&self) -> Vec<(ObjectId, u64)> {
        self.0.lock().keys().copied().collect()
    }

    /// Counts a writer in; says whether the journal has yet to be told of some region.
    fn enter(&self, object: ObjectId, regions: Range<u64>, mut tell: impl FnMut(Record)) -> bool {
        let mut all = self.0.lock();
        let mut news = false;
        for region in regions {
            let known = all.entry((object, region)).or_insert_with(|| {
                tell(Record::RegionOpened { object, region });
                Region { noted: false, writers: 0, last_write: Duration::ZERO }
            });
            known.writers += 1;
            news |= !known.noted;
        }
        news
    }

    fn noted(&self, object: ObjectId, regions: Range<u64>) {
        let mut all = self.0.lock();
        for region in regions {
            if let Some(known) = all.get_mut(&(object, region)) {
                known.noted = true;
            }
        }
    }

    fn leave(&self, object: ObjectId, regions: Range<u64>, now: Duration) {
        let mut all = self.0.lock();
        for region in regions {
            if let Some(known) = all.get_mut(&(object, region)) {
                known.writers -= 1;
                known.last_write = now;
            }
        }
    }

    /// Regions of an object that may be closed.
    fn idle(&self, object: ObjectId, now: Duration, at_once: bool) -> Vec<((ObjectId, u64), Region)> {
        let all = self.0.lock();
        let idle = if all.len() > OPEN_MAX { IDLE / 10 } else { IDLE };
        let quiet = |r: &Region| r.writers == 0 && (at_once || now.saturating_sub(r.last_write) >= idle);
        all.iter().filter(|((o, _), r)| *o == object && quiet(r)).map(|(id, r)| (*id, *r)).collect()
    }

    /// Closes those that have not changed since.
    fn close(&self, idle: &[((ObjectId, u64), Region)], mut tell: impl FnMut(Record)) {
        let mut all = self.0.lock();
        for (id, was) in idle {
            if all.get(id) == Some(was) {
                all.remove(id);
                tell(Record::RegionClosed { object: id.0, region: id.1 });
            }
        }
    }
}

/// A write to the origin under way, for its regions.
pub(super) struct Intent<'a, F, C: Clock> {
    cache: &'a crate::Cache<F, C>,
    object: ObjectId,
    regions: Range<u64>,
}

impl<F, C: Clock> Drop for Intent<'_, F, C> {
    fn drop(&mut self) {
        self.cache.regions.leave(self.object, self.regions.clone(), self.cache.clock.now());
    }
}

impl<F: Device, O: Device, C: Clock> Volume<F, O, C> {
    /// Has the journal know that a range of extents may change at the origin. `None`: there is no journal to tell.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the journal has failed, and nothing else would tell after a restart.
    pub(super) async fn intend(&self, extents: Range<u64>) -> Result<Option<Intent<'_, F, C>>, Error> {
        if !self.is_attached() || !self.cache.is_journaling() || self.cache.ledger.failed().is_some() {
            self.cache.check_outlived()?;
            return Ok(None);
        }
        let extent_bytes = self.extent_bytes();
        let regions = extents.start * extent_bytes / REGION_BYTES..(extents.end * extent_bytes).div_ceil(REGION_BYTES);
        let object = self.options.object;
        let news = self.cache.regions.enter(object, regions.clone(), |record| self.cache.ledger.push(record));
        let intent = Intent { cache: &self.cache, object, regions: regions.clone() };
        if news {
            self.cache.metrics.regions_opened.add(1);
            if self.cache.commit().await.is_err() {
                self.cache.check_outlived()?;
                return Ok(None);
            }
            self.cache.regions.noted(object, regions);
        }
        Ok(Some(intent))
    }

    /// Closes the regions that have been idle for a while, or, `at_once`, all that nobody writes to.
    ///
    /// # Errors
    /// [`Error::Origin`] or [`Error::Poisoned`]: they stay open.
    pub async fn close_regions(&self, at_once: bool) -> Result<(), Error> {
        // While entries are still being read it is not known which of them are void.
        if !self.cache.is_journaling() || (!at_once && self.cache.is_restoring()) {
            return Ok(());
        }
        let idle = self.cache.regions.idle(self.options.object, self.cache.clock.now(), at_once);
        if idle.is_empty() || self.cache.is_restoring() {
            return Ok(());
        }
        self.flush_origin().await?;
        self.cache.commit().await?;
        self.cache.regions.close(&idle, |record| self.cache.ledger.push(record));
        Ok(())
    }
}
