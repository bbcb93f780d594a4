//! Consistent points: in write-back, the origin of such a volume goes from the state at one FLUSH to the state at a later one, and is
//! nothing else in between, so that a host that is lost with its cache leaves an image that is older, but whole.
//!
//! A point *freezes* the acknowledged writes when a FLUSH is answered. That takes a moment, and no client waits: what is frozen and
//! overwritten later [is kept](nitro_cache::CacheManager::freeze) beside what is newer, until it was copied to the
//! [log](PointLog) of points. Once the log says that the point is whole, the origin gets it from there (`reach.rs`).
//!
//! Nothing goes around a point: writes that classes would send to the origin are buffered, those for which others leave no room wait,
//! zeroes are written as zeroes, and a TRIM is noted, and becomes a part of the next point (`trims.rs`).

mod reach;
mod trims;

use super::Volume;
use super::mode::WriteMode;
use crate::error::Error;
use crate::kept::Kept;
use event_listener::Event;
use nitro_cache::destage::TICK;
use nitro_port::{Clock, Device, Origin, PointLog, PointStamp};
use nitro_units::{ExtentIndex, ExtentRange};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use trims::Trims;

/// A point is frozen at the first FLUSH after this part of the age and of the bytes that are allowed; the rest is for copying it.
const FLUSH_PART: u32 = 4;
/// Where no FLUSH comes, a point is frozen between two writes after this part.
const OWN_PART: u32 = 2;
/// How long a FLUSH is waited for where the cache has begun to run out of room.
const GRACE: Duration = Duration::from_secs(1);
/// The part of the journal from which on no FLUSH is waited for.
const JOURNAL_PART: f64 = 0.5;

/// How far a volume's origin may be behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointSettings {
    /// The age of its last point beyond which writes are slowed.
    pub max_age: Duration,
    /// Bytes of dirty data beyond which writes are slowed.
    pub max_bytes: u64,
}

/// The points of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointStatus {
    /// The last point that the origin has, or has in its log.
    pub last: PointStamp,
    /// For how long there have been writes that are in no point; zero: there are none.
    pub age: Duration,
    /// Its settings.
    pub settings: PointSettings,
}

/// The points of a volume, if it reaches any.
#[derive(Default)]
pub(super) struct Points(OnceLock<On>);

/// The points of a volume.
pub(super) struct On {
    log: Arc<dyn PointLog>,
    max_age_ms: AtomicU64,
    max_bytes: AtomicU64,
    state: Mutex<State>,
    /// A point was reached, or could not be.
    changed: Event,
    /// The mode is about to change: writes wait.
    is_closed: AtomicBool,
    opened: Event,
}

#[derive(Default)]
struct State {
    frozen: Option<Frozen>,
    /// When the first write was acknowledged that is in no point, by the cache's clock; before its zero: as much earlier as `earlier`.
    since: Option<Duration>,
    /// By so much the first of those writes is older than the start of the server.
    earlier: Duration,
    trims: Trims,
    /// When the cache began to run out of room.
    short_since: Option<Duration>,
    /// Points that were begun, reached, and could not be reached.
    begun: u64,
    reached: u64,
    failures: u64,
    error: Option<Error>,
}

/// A point that was frozen, and is not reached yet.
struct Frozen {
    /// The version of the last change before.
    version: u64,
    unix_ms: u64,
    since: Option<Duration>,
    earlier: Duration,
    /// Contents that waited for insertion; `None`: copied.
    pending: BTreeMap<ExtentIndex, Option<Kept>>,
    trims: Trims,
}

impl On {
    fn settings(&self) -> PointSettings {
        PointSettings {
            max_age: Duration::from_millis(self.max_age_ms.load(Ordering::Relaxed)),
            max_bytes: self.max_bytes.load(Ordering::Relaxed),
        }
    }

    fn set(&self, settings: PointSettings) {
        let ms = u64::try_from(settings.max_age.as_millis()).unwrap_or(u64::MAX);
        self.max_age_ms.store(ms, Ordering::Relaxed);
        self.max_bytes.store(settings.max_bytes, Ordering::Relaxed);
    }

    /// How often to look whether a point is due.
    fn tick(&self) -> Duration {
        TICK.min(self.settings().max_age / (4 * OWN_PART))
    }

    fn age(&self, now: Duration) -> Duration {
        let state = self.state.lock();
        let age = |since: Option<Duration>, earlier| since.map_or(Duration::ZERO, |s| now.saturating_sub(s) + earlier);
        let frozen = state.frozen.as_ref().map_or(Duration::ZERO, |frozen| age(frozen.since, frozen.earlier));
        frozen.max(age(state.since, state.earlier))
    }

    /// Notes that writes to some extents can be read, and are in no point.
    pub(super) fn written(&self, extents: ExtentRange, now: Duration) {
        let mut state = self.state.lock();
        if state.since.is_none() {
            (state.since, state.earlier) = (Some(now), Duration::ZERO);
        }
        state.trims.remove(extents);
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// From now on, the volume's origin goes from one consistent point to the next while it is in write-back. To be called before
    /// requests are served and before [`destage_worker`](Self::destage_worker) is polled. No point of `log` may be sealed; `age` is
    /// that of its last one.
    ///
    /// # Panics
    /// If it was called before.
    pub fn reach_points(&self, log: Arc<dyn PointLog>, settings: PointSettings, age: Duration) {
        // Of a volume with the same number that is gone.
        while self.cache.manager.lock().thaw_some(self.object(), usize::MAX) {}
        let is_dirty = self.has_dirty();
        let state = State { since: is_dirty.then(|| self.cache.clock.now()), earlier: age, ..State::default() };
        let on = On {
            log,
            max_age_ms: AtomicU64::default(),
            max_bytes: AtomicU64::default(),
            state: Mutex::new(state),
            changed: Event::new(),
            is_closed: AtomicBool::new(false),
            opened: Event::new(),
        };
        on.set(settings);
        assert!(self.points.0.set(on).is_ok(), "the volume has a log of points already");
    }

    /// Changes how far the origin may be behind, if the volume reaches points.
    pub fn set_points(&self, settings: PointSettings) {
        if let Some(on) = self.points.0.get() {
            on.set(settings);
            self.destage.wake();
        }
    }

    /// Its points; `None`: its origin is destaged in any order.
    pub fn point_status(&self) -> Option<PointStatus> {
        let on = self.points()?;
        let age = if self.has_unreached(on) { on.age(self.cache.clock.now()) } else { Duration::ZERO };
        Some(PointStatus { last: on.log.last(), age, settings: on.settings() })
    }

    /// Its points, while nothing may go around them.
    pub(super) fn points(&self) -> Option<&On> {
        let on = self.points.0.get()?;
        (self.mode() == WriteMode::WriteBack).then_some(on)
    }

    /// Whether the volume has a log of points, in whatever mode it is.
    pub(super) fn points_in_any_mode(&self) -> Option<&On> {
        self.points.0.get()
    }

    /// Whether writes have to wait, because the mode is about to change.
    pub(super) fn is_closed_for_points(&self) -> bool {
        self.points.0.get().is_some_and(On::is_closed)
    }

    /// Waits until the mode has changed.
    pub(super) async fn opened_for_points(&self) {
        let Some(on) = self.points.0.get() else { return };
        loop {
            let opened = on.opened.listen();
            if !on.is_closed() {
                return;
            }
            opened.await;
        }
    }

    /// Has writes wait, or no longer.
    pub(super) fn close_for_points(&self, is_closed: bool) {
        let Some(on) = self.points.0.get() else { return };
        on.is_closed.store(is_closed, Ordering::SeqCst);
        on.opened.notify(usize::MAX);
    }

    /// Bytes that are dirty: all of the extents that are.
    fn dirty_bytes(&self) -> u64 {
        self.cache.manager.lock().dirty_count_of(self.object()) * self.extent_bytes()
    }

    /// Whether there is anything that is in no point.
    fn has_unreached(&self, on: &On) -> bool {
        let is_noted = {
            let state = on.state.lock();
            state.frozen.is_some() || !state.trims.is_empty()
        };
        is_noted || self.has_dirty()
    }

    /// The part that is used of the age, or of the bytes, by which the origin may be behind: 1 is all of it.
    pub(super) fn behind(&self) -> Option<f64> {
        let PointStatus { age, settings, .. } = self.point_status()?;
        let by_age = age.as_secs_f64() / settings.max_age.as_secs_f64().max(0.001);
        let by_bytes = self.dirty_bytes() as f64 / settings.max_bytes.max(1) as f64;
        Some(by_age.max(by_bytes))
    }

    /// Whether a point is to be frozen now, at a FLUSH or between two writes.
    fn is_point_wanted(&self, on: &On, is_flush: bool) -> bool {
        if !self.has_unreached(on) {
            on.state.lock().short_since = None;
            return false;
        }
        let now = self.cache.clock.now();
        let short = self.cache.wants_destage_of(self.object());
        let short_since = {
            let mut state = on.state.lock();
            state.short_since = if short { state.short_since.or(Some(now)) } else { None };
            state.short_since
        };
        let waited = short_since.is_some_and(|since| is_flush || now.saturating_sub(since) >= GRACE);
        let part = if is_flush { FLUSH_PART } else { OWN_PART };
        let PointSettings { max_age, max_bytes } = on.settings();
        waited
            || self.destage.is_drained()
            || self.lacks_room_soon()
            || self.cache.journal_used() >= JOURNAL_PART
            || on.age(now) >= max_age / part
            || self.dirty_bytes() >= max_bytes / u64::from(part)
    }

    /// To be called when a FLUSH is about to be answered: freezes a point if one is due.
    pub(super) fn freeze_at_flush(&self) {
        let Some(on) = self.points() else { return };
        let is_free = on.state.lock().frozen.is_none();
        if is_free && self.is_point_wanted(on, true) && self.freeze(on) {
            self.destage.wake();
        }
    }

    /// Freezes what is acknowledged at this moment. `false`: another point is not reached yet.
    fn freeze(&self, on: &On) -> bool {
        let mut state = on.state.lock();
        if state.frozen.is_some() || on.log.is_sealed() {
            return false;
        }
        let unix_ms = on.log.unix_ms();
        // While no content can change: what waits for insertion and what the cache has are of one moment.
        let (pending, version) = self.flights.dirty_now(|| self.cache.manager.lock().freeze(self.object()));
        state.begun += 1;
        state.short_since = None;
        state.frozen = Some(Frozen {
            version,
            unix_ms,
            since: state.since.take(),
            earlier: std::mem::take(&mut state.earlier),
            pending: pending.into_iter().map(|(index, kept)| (index, Some(kept))).collect(),
            trims: std::mem::take(&mut state.trims),
        });
        true
    }
}
