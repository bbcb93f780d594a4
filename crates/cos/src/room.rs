//! Room for new content: a collection begins by itself when little is left, and writes that find none wait for it.

use crate::lane::DATA_RESERVE;
use crate::{CollectOptions, Collected, Error, Store};
use event_listener::Event;
use futures_util::future::select;
use nitro_port::yielding::attempt_at;
use nitro_port::{Clock, Device};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A collection begins when less than one of so many parts of the store, or of its quota, is free.
const PARTS: u32 = 8;
/// If a write waits, containers with a smaller share of live data are emptied.
const ALIVE_SHARE_PRESSING: f64 = 0.95;
/// A collection was worthwhile if it freed one of so many parts of the store.
const PARTS_WORTHWHILE: u64 = 64;
/// The pause after a collection that was not: a multiple of the time it took, and a minimum.
const PAUSE_FACTOR: u32 = 10;
const PAUSE_MIN: Duration = Duration::from_secs(10);
/// The pause after the store could not grow.
const PAUSE_GROWTH: Duration = Duration::from_secs(60);
/// How often the free room is checked.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// Connects the collector with writes that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    counts: Mutex<Counts>,
    changed: Event,
}

#[derive(Debug, Default)]
struct Counts {
    /// Whether collections begin by themselves.
    automatic: bool,
    collecting: bool,
    /// Whether the collection that is under way is to end early.
    stopping: bool,
    /// The number of writes that wait.
    waiting: usize,
    /// The number of containers that collections have freed.
    freed: u64,
    /// The number of collections that have ended, and of those that were not begun although writes waited.
    ended: u64,
    /// The number of ended ones after which no write waits any longer.
    wanted: u64,
}

impl Counts {
    /// Whether a write waits for a collection.
    fn is_pressing(&self) -> bool {
        self.waiting > 0 && self.ended < self.wanted
    }
}

/// A collection that is under way.
pub(crate) struct Collecting<'a>(&'a Room);

impl Drop for Collecting<'_> {
    fn drop(&mut self) {
        self.0.change(|counts| {
            counts.collecting = false;
            counts.ended += 1;
        });
    }
}

/// The state before a write, which may find no room.
pub(crate) struct Before<'a> {
    room: &'a Room,
    freed: u64,
}

/// A write that waits.
struct Waiting<'a>(&'a Room);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|counts| counts.waiting -= 1);
    }
}

impl Room {
    fn change<T>(&self, change: impl FnOnce(&mut Counts) -> T) -> T {
        let result = change(&mut self.counts.lock());
        self.changed.notify(usize::MAX);
        result
    }

    /// Notes that a collection begins.
    pub(crate) fn begin(&self) -> Collecting<'_> {
        self.change(|counts| (counts.collecting, counts.stopping) = (true, false));
        Collecting(self)
    }

    /// Notes that the store begins to grow.
    pub(crate) fn begin_growth(&self) {
        self.change(|counts| counts.stopping = false);
    }

    /// Notes that containers can be used again, or are new.
    pub(crate) fn freed(&self, containers: usize) {
        self.change(|counts| counts.freed += containers as u64);
    }

    /// Called by a collection now and then.
    ///
    /// # Errors
    /// [`Error::Busy`]: it was asked to end.
    pub(crate) fn check_stop(&self) -> Result<(), Error> {
        match self.counts.lock().stopping {
            true => Err(Error::Busy("it was ended early")),
            false => Ok(()),
        }
    }

    /// Whether a write waits for a collection.
    pub(crate) fn is_pressing(&self) -> bool {
        self.counts.lock().is_pressing()
    }

    pub(crate) fn before_write(&self) -> Before<'_> {
        Before { room: self, freed: self.counts.lock().freed }
    }
}

impl Before<'_> {
    /// Called by a write that found no room: waits until a collection has freed containers, so that it is worth
    /// repeating the write. False if none does.
    ///
    /// The caller must not hold what a collection needs: a permit, the lock of a lane, or `mutating`.
    pub(crate) async fn wait(&mut self) -> bool {
        let room = self.room;
        let last = room.change(|counts| {
            counts.waiting += 1;
            // A collection that is under way may have begun before there was anything to free.
            let last = counts.ended + 1 + u64::from(counts.collecting);
            counts.wanted = counts.wanted.max(last);
            last
        });
        let _waiting = Waiting(room);
        attempt_at(&room.changed, || {
            let counts = room.counts.lock();
            if counts.freed != self.freed {
                self.freed = counts.freed;
                return Some(true);
            }
            (!counts.automatic || counts.ended >= last).then_some(false)
        })
        .await
    }
}

/// Begins collections of an open store when they are needed. Writes that find no room wait for them as long as this exists.
#[derive(Debug)]
pub struct AutoCollector {
    room: Arc<Room>,
    /// The number of free containers after the last collection.
    left: Option<u32>,
    /// No collection begins before this time.
    paused_until: Duration,
    /// The store does not try to grow before this time.
    grows_from: Duration,
    /// Whether it collects; otherwise, it only lets the store grow.
    collects: bool,
}

impl Drop for AutoCollector {
    fn drop(&mut self) {
        self.room.change(|counts| counts.automatic = false);
    }
}

impl AutoCollector {
    /// The collector of `store`, which must not have another one. `None`: its settings forbid it, and it does not grow by itself.
    pub fn of<D: Device>(store: &Store<D>) -> Option<Self> {
        let collects = store.settings.auto_collect;
        (collects || store.grows_to().is_some()).then(|| Self::with(store, collects))
    }

    /// One that only lets the store grow, as far as it grows by itself.
    pub fn growing<D: Device>(store: &Store<D>) -> Self {
        Self::with(store, false)
    }

    fn with<D: Device>(store: &Store<D>, collects: bool) -> Self {
        let room = Arc::clone(&store.room);
        room.change(|counts| counts.automatic = true);
        Self { room, left: None, paused_until: Duration::ZERO, grows_from: Duration::ZERO, collects }
    }

    /// Lets the store grow if it should. Returns whether it did.
    async fn grow<D: Device>(&mut self, store: &Store<D>, clock: &impl Clock) -> bool {
        let Some(wanted) = store.wanted_size().filter(|_| clock.now() >= self.grows_from) else { return false };
        let grown = store.grow(wanted, &|_, _, _| ()).await;
        if let Err(error) = &grown {
            let source = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
            tracing::warn!("the store stays at {} bytes: {error}{source}", store.size_bytes());
            self.grows_from = clock.now() + PAUSE_GROWTH;
        }
        grown.is_ok()
    }

    /// Waits until the store should be [checked](Self::check).
    pub async fn wait(&self, clock: &impl Clock) {
        let asked = attempt_at(&self.room.changed, || self.room.is_pressing().then_some(()));
        select(pin!(clock.sleep(CHECKED_EVERY)), pin!(asked)).await;
    }

    /// Lets the store grow if less than an eighth of it is free and it grows by itself. Otherwise collects if less than an eighth of the store is free and a quarter of what the last collection left is used up,
    /// or if a write waits for room. After a collection that frees little, there is none for ten times as long as it took, and writes
    /// that find no room fail. `None`: nothing was done.
    pub async fn check<D: Device>(&mut self, store: &Store<D>, clock: &impl Clock) -> Option<Result<Collected, Error>> {
        if self.grow(store, clock).await {
            return None;
        }
        let is_pressing = self.room.is_pressing();
        let (free, all) = store.free_containers();
        let is_low = free < all / PARTS;
        if !is_low {
            self.left = None;
        }
        let is_due = is_low && self.left.is_none_or(|left| free < left - left / 4);
        if !is_pressing && !is_due {
            return None;
        }
        if clock.now() < self.paused_until || !self.collects {
            self.end_after(self.ended());
            return None;
        }
        // Another one may be under way, by command.
        drop(store.collecting.lock().await);
        let (ended, begun) = (self.ended(), clock.now());
        let options = match is_pressing {
            true => CollectOptions { alive_share_min: ALIVE_SHARE_PRESSING },
            false => CollectOptions::default(),
        };
        let result = store.collect(&options, &|_, _, _| ()).await;
        self.end_after(ended);
        let freed = result.as_ref().map_or(0, |collected| collected.freed_bytes);
        if freed < u64::from(all) * u64::from(store.superblock.container_bytes) / PARTS_WORTHWHILE {
            let took = clock.now().saturating_sub(begun);
            self.paused_until = clock.now() + PAUSE_MIN.max(took * PAUSE_FACTOR);
        }
        self.left = Some(store.free_containers().0);
        Some(result)
    }

    fn ended(&self) -> u64 {
        self.room.counts.lock().ended
    }

    /// If no collection has ended since `ended` of them had, counts one all the same: writes do not wait for one that cannot
    /// begin.
    fn end_after(&self, ended: u64) {
        self.room.change(|counts| counts.ended = counts.ended.max(ended + 1));
    }
}

impl<D: Device> Store<D> {
    /// Lets a collection or a growth that is under way end soon, with [`Error::Busy`]. To drop it could lose changes that its commits
    /// have gathered.
    pub fn stop_collection(&self) {
        self.room.change(|counts| counts.stopping = true);
    }

    /// The number of containers that are free for clients' data, and how many there can be.
    fn free_containers(&self) -> (u32, u32) {
        let state = self.state.lock();
        let (free, all) = state.slots.room_for_data();
        (free.saturating_sub(DATA_RESERVE), all)
    }
}
