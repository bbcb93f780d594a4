//! Room for the writes of a volume in write-back, and the treatment of writes while its destage fails.

use super::Volume;
use super::context::RequestContext;
use crate::error::Error;
use crate::writeback::{DirtyShare, ROOM_WAIT};
use futures_util::future::select;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentRange, ObjectId};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Extents that are admitted at once if there is no room for the whole write.
const EXTENTS_AT_ONCE: u64 = 64;

/// Destage of a volume fails.
#[derive(Debug, Clone)]
pub struct DestageFailure {
    /// The origin's last error.
    pub error: Error,
    /// For how long it has failed.
    pub age: Duration,
    /// How often it has failed.
    pub count: u64,
}

#[derive(Debug)]
struct Failing {
    error: Error,
    since: Duration,
    count: u64,
}

/// Whether destage of a volume fails.
#[derive(Debug, Default)]
pub(super) struct DestageState(Mutex<Option<Failing>>);

/// Extents that may become dirty; those that are not taken are returned.
pub(super) struct Admitted<'a, F: Device, C: Clock> {
    cache: &'a crate::Cache<F, C>,
    object: ObjectId,
    pub(super) extents: u64,
}

impl<F: Device, C: Clock> Admitted<'_, F, C> {
    /// Takes one of them for the dirty queue, which releases it.
    pub(super) fn take(&mut self) {
        self.extents -= 1;
    }
}

impl<F: Device, C: Clock> Drop for Admitted<'_, F, C> {
    fn drop(&mut self) {
        self.cache.shares.release(self.object, self.extents);
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Its share of the cache's room for dirty data.
    pub fn dirty_share(&self) -> DirtyShare {
        self.cache.shares.share(self.options.object)
    }

    /// Changes this share while the volume is served.
    pub fn set_dirty_share(&self, share: DirtyShare) {
        self.cache.shares.set_share(self.options.object, share);
        self.cache.room.notify(usize::MAX);
    }

    /// Whether its destage fails, and how.
    pub fn destage_failure(&self) -> Option<DestageFailure> {
        let now = self.cache.clock.now();
        self.destage_state.0.lock().as_ref().map(|failing| DestageFailure {
            error: failing.error.clone(),
            age: now.saturating_sub(failing.since),
            count: failing.count,
        })
    }

    /// Its name in the cache's registry.
    fn name(&self) -> String {
        self.cache
            .volumes()
            .get(&self.options.object)
            .map_or_else(String::new, |entry| format!("volume {}: ", entry.name))
    }

    /// Notes that the origin refused destaged data.
    pub(super) fn destage_failed(&self, error: &Error) {
        self.metrics.destage_failures.add(1);
        let mut state = self.destage_state.0.lock();
        if let Some(failing) = state.as_mut() {
            failing.error = error.clone();
            failing.count += 1;
            return;
        }
        *state = Some(Failing { error: error.clone(), since: self.cache.clock.now(), count: 1 });
        drop(state);
        self.cache.shares.set_failing(self.options.object, true);
        tracing::warn!(
            "{}destage fails ({error}): dirty data stay in the cache, and destage is repeated until it succeeds",
            self.name()
        );
    }

    /// Notes that everything due was destaged.
    pub(super) fn destage_recovered(&self) {
        let Some(failing) = self.destage_state.0.lock().take() else { return };
        self.cache.shares.set_failing(self.options.object, false);
        let age = self.cache.clock.now().saturating_sub(failing.since).as_secs();
        tracing::info!("{}destage succeeds again, after {} failures in {age} s", self.name(), failing.count);
    }

    /// Waits until some of `extents` may become dirty. While destage of the volume fails, waits no longer than
    /// [`dirty_wait`](crate::EngineSettings::dirty_wait) from its first failure on. `None`: volumes whose destage fails
    /// use all the room, and this volume cannot free any of it.
    ///
    /// # Errors
    /// [`Error::Destage`]: that time has passed; [`Error::Poisoned`]: nothing can be made durable any more;
    /// [`Error::Origin`]: the request was given up.
    pub(super) async fn admit_dirty(
        &self,
        extents: u64,
        context: &RequestContext,
    ) -> Result<Option<Admitted<'_, F, C>>, Error> {
        match self.try_admit(extents) {
            Some(admitted) => Ok(Some(admitted)),
            None => Box::pin(self.admit_late(extents, context)).await,
        }
    }

    /// As [`admit_dirty`](Self::admit_dirty), when there is no room yet.
    async fn admit_late(&self, extents: u64, context: &RequestContext) -> Result<Option<Admitted<'_, F, C>>, Error> {
        let (mut starved, begun) = (None, self.cache.clock.now());
        loop {
            let room = self.cache.room.listen();
            if let Some(admitted) = self.try_admit(extents) {
                return Ok(Some(admitted));
            }
            self.check_room(context)?;
            if self.cache.is_crowded_out(self.options.object) {
                if self.points().is_none() {
                    return Ok(None);
                }
                let waited = self.cache.clock.now().saturating_sub(begun);
                if waited >= self.cache.live.dirty_wait() {
                    return Err(Error::Around { why: "other volumes, whose destage fails, take all the cache's room" });
                }
            }
            starved.get_or_insert_with(|| self.destage.starved());
            // Others may have taken all the room.
            self.cache.destage_wanted.notify(usize::MAX);
            self.cache.metrics.write_waits();
            select(room, pin!(self.cache.clock.sleep(ROOM_WAIT))).await;
        }
    }

    /// Admits all of `extents`, or as many as there is room for.
    fn try_admit(&self, extents: u64) -> Option<Admitted<'_, F, C>> {
        let object = self.options.object;
        let tried =
            [extents, extents.min(EXTENTS_AT_ONCE), 1].into_iter().find(|n| self.cache.try_admit(object, *n))?;
        Some(Admitted { cache: &self.cache, object, extents: tried })
    }

    /// Checks that destage can make room: it cannot if all dirty data of the volume are lost.
    fn check_destageable(&self) -> Result<(), Error> {
        // First what is on its way, then what is there: an extent goes from the one to the other.
        if self.flights.has_dirty(ExtentRange::ALL) {
            return Ok(());
        }
        let (object, all) = (self.options.object, u32::MAX);
        let manager = self.cache.manager.lock();
        let lost = manager.dirty_from(object, ExtentIndex(0), all, 1);
        match lost.first() {
            Some(lost) if manager.destageable_from(object, ExtentIndex(0), all, 1).is_empty() => {
                Err(self.lost(lost.key.index()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that waiting for room can succeed.
    fn check_room(&self, context: &RequestContext) -> Result<(), Error> {
        self.check_poisoned()?;
        context.check(0, 0)?;
        if let Some(reason) = self.cache.ledger.failed() {
            return Err(Error::Poisoned { reason });
        }
        if !self.cache.device_health.is_caching() {
            return Err(Error::Poisoned { reason: Arc::from("the cache device was given up") });
        }
        self.check_destageable()?;
        match (self.destage_failure(), self.cache.live.dirty_wait()) {
            (Some(DestageFailure { error: Error::Origin(error), age, .. }), limit) if age >= limit => {
                Err(Error::Destage(error))
            }
            _ => Ok(()),
        }
    }
}
