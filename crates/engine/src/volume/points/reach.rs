//! How a point is reached: what is frozen is copied to the log of points, which is sealed; then the origin gets the point from there,
//! and what was not overwritten meanwhile is clean.

use super::super::destage::{Drainer, SKIPPED_WAIT, TICK_FAILED};
use super::super::{EXTENTS_PER_LOCK, Volume};
use super::{Frozen, On};
use crate::error::Error;
use bytes::Bytes;
use futures_util::future::{join_all, select};
use nitro_cache::destage::TICK;
use nitro_cache::{DirtyExtent, FrozenExtents};
use nitro_port::buf::is_zero;
use nitro_port::yielding::yield_now;
use nitro_port::{Clock, Device, ErrorKind as DeviceErrorKind, Origin, PointPart};
use nitro_units::{ExtentIndex, ExtentRange};
use std::pin::pin;

/// Bytes that are copied at once.
const COPIED_BYTES: u64 = 1 << 20;
/// Further points for which a caller waits that needs everything destaged, while clients go on writing.
const POINTS_MAX: u64 = 3;

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reaches a point whenever one is due, as long as it is polled.
    pub(in crate::volume) async fn point_worker(&self, on: &On) {
        loop {
            {
                let wanted = select(self.destage.listen(), self.cache.destage_wanted.listen());
                if !self.is_point_due(on) {
                    select(wanted, pin!(self.cache.clock.sleep(on.tick()))).await;
                }
            }
            let result = match self.is_point_due(on) {
                true => self.reach(on).await,
                false => self.close_regions(false).await,
            };
            // What fails is a state of the volume or of its cache, and was logged when it began.
            if let Err(error) = result {
                tracing::debug!(%error, "a point was not reached");
                self.cache.clock.sleep(TICK_FAILED).await;
            }
        }
    }

    fn is_point_due(&self, on: &On) -> bool {
        if !self.may_be_dirty() || !self.cache.device_health.is_caching() || self.poisoned().is_some() {
            return false;
        }
        let is_frozen = on.state.lock().frozen.is_some();
        is_frozen || on.log.is_sealed() || self.is_point_wanted(on, false)
    }

    /// Reaches the point that is frozen; without one, freezes one.
    async fn reach(&self, on: &On) -> Result<(), Error> {
        let result = Box::pin(self.reach_next(on)).await;
        {
            let mut state = on.state.lock();
            match &result {
                Ok(()) => state.reached = state.begun,
                Err(error) => (state.failures, state.error) = (state.failures + 1, Some(error.clone())),
            }
        }
        match &result {
            Ok(()) => {
                self.metrics.points.add(1);
                self.destage_recovered();
            }
            Err(error) => self.destage_failed(error),
        }
        on.changed.notify(usize::MAX);
        self.cache.room.notify(usize::MAX);
        result
    }

    async fn reach_next(&self, on: &On) -> Result<(), Error> {
        if !on.log.is_sealed() {
            if self.freeze(on) {
                self.metrics.points_unflushed.add(1);
            }
            if let Err(error) = self.collect(on).await {
                self.abandon(on).await;
                return Err(error);
            }
        }
        self.place(on).await?;
        self.flush_origin().await?;
        on.log.finish().await.map_err(Error::Origin)?;
        self.clean_reached(on).await
    }

    /// Copies what is frozen to the log, and seals it.
    async fn collect(&self, on: &On) -> Result<(), Error> {
        // What the origin gets must be in the journal first: were it lost there, an older entry would come back.
        self.cache.commit().await?;
        on.log.begin(on.log.last().number + 1).await.map_err(Error::Origin)?;
        let Some((unix_ms, trims, pending)) = on.with_frozen(|frozen| {
            let trims: Vec<_> = frozen.trims.ranges().collect();
            (frozen.unix_ms, trims, frozen.pending.keys().copied().collect::<Vec<_>>())
        }) else {
            return Ok(());
        };
        let unneeded = trims.into_iter().map(|range| {
            let bytes = self.bytes_of(range);
            PointPart::Unneeded { offset: bytes.start, len: bytes.end - bytes.start }
        });
        self.add(on, unneeded.collect()).await?;
        for some in pending.chunks(self.copied_at_once()) {
            let take = |frozen: &mut Frozen| {
                let kept = some.iter().filter_map(|index| Some((*index, frozen.pending.get_mut(index)?.take()?)));
                kept.map(|(index, kept)| (index, kept.bytes().clone())).collect::<Vec<_>>()
            };
            let contents = on.with_frozen(take).unwrap_or_default();
            self.add(on, self.parts(contents)).await?;
        }
        self.copy_cached(on, &pending).await?;
        while self.cache.manager.lock().thaw_some(self.object(), EXTENTS_PER_LOCK as usize) {
            yield_now().await;
        }
        on.log.seal(unix_ms).await.map_err(Error::Origin)
    }

    fn copied_at_once(&self) -> usize {
        (COPIED_BYTES / self.extent_bytes()).clamp(1, EXTENTS_PER_LOCK) as usize
    }

    /// Copies the frozen contents that the cache had when they were frozen, without those of `pending`, in order, of which there was
    /// a newer one.
    async fn copy_cached(&self, on: &On, pending: &[ExtentIndex]) -> Result<(), Error> {
        let (object, count) = (self.object(), self.copied_at_once());
        let mut from = ExtentIndex(0);
        loop {
            let FrozenExtents { mut extents, next } = self.cache.manager.lock().frozen_from(object, from, count);
            extents.retain(|extent| pending.binary_search(&extent.key.index()).is_err());
            let contents = join_all(extents.iter().map(|extent| self.dirty_content(extent))).await;
            let mut read = Vec::with_capacity(extents.len());
            for (extent, content) in extents.iter().zip(contents) {
                let Some(content) = content else { return Err(self.unreadable(extent)) };
                read.push((extent.key.index(), content));
            }
            self.add(on, self.parts(read)).await?;
            let Some(next) = next else { break };
            self.cache.manager.lock().thaw_before(object, next);
            from = next;
            yield_now().await;
        }
        // A point without it would be no state that the volume ever had.
        let lost = self.cache.manager.lock().lost_frozen(object);
        lost.map_or(Ok(()), |index| Err(self.lost(index)))
    }

    /// Notes that frozen content cannot be read.
    fn unreadable(&self, extent: &DirtyExtent) -> Error {
        self.cache.manager.lock().unreadable(extent.key, extent.version);
        self.lost(extent.key.index())
    }

    async fn add(&self, on: &On, parts: Vec<PointPart>) -> Result<(), Error> {
        if parts.is_empty() { Ok(()) } else { on.log.add(parts).await.map_err(Error::Origin) }
    }

    /// The parts of a point that extents with these contents are.
    fn parts(&self, contents: Vec<(ExtentIndex, Bytes)>) -> Vec<PointPart> {
        let mut parts: Vec<PointPart> = Vec::with_capacity(contents.len());
        for (index, bytes) in contents {
            let within = self.bytes_of(ExtentRange::one(index));
            let (offset, len) = (within.start, within.end - within.start);
            let bytes = bytes.slice(..len as usize);
            match parts.last_mut() {
                _ if !is_zero(&bytes) => parts.push(PointPart::Data { offset, bytes }),
                Some(PointPart::Zeroes { offset: start, len: zeroes }) if *start + *zeroes == offset => *zeroes += len,
                _ => parts.push(PointPart::Zeroes { offset, len }),
            }
        }
        parts
    }

    /// Gives up a point that is not sealed: what is dirty stays so, and the next point has it.
    async fn abandon(&self, on: &On) {
        while self.cache.manager.lock().thaw_some(self.object(), EXTENTS_PER_LOCK as usize) {
            yield_now().await;
        }
        let mut state = on.state.lock();
        if let Some(frozen) = state.frozen.take() {
            // Its TRIMs are not passed on.
            (state.since, state.earlier) = (frozen.since.or(state.since), frozen.earlier);
        }
    }

    /// Writes the sealed point to the origin, as often as it takes.
    async fn place(&self, on: &On) -> Result<(), Error> {
        let mut from = 0;
        while let Some((parts, next)) = on.log.read(from).await.map_err(Error::Origin)? {
            let (trims, rest): (Vec<_>, Vec<_>) =
                parts.into_iter().partition(|part| matches!(part, PointPart::Unneeded { .. }));
            for part in trims {
                self.place_part(part).await?;
            }
            let writes = rest.into_iter().map(|part| async { self.place_part(part).await.map(|()| Vec::new()) });
            if let (_, Some(error)) = self.run_writes(writes.collect()).await {
                return Err(error);
            }
            from = next;
        }
        Ok(())
    }

    async fn place_part(&self, part: PointPart) -> Result<(), Error> {
        match part {
            PointPart::Data { offset, bytes } => {
                self.metrics.destage_writes.add(1);
                self.metrics.destaged_extents.add((bytes.len() as u64).div_ceil(self.extent_bytes()));
                self.write_origin(offset, bytes).await
            }
            PointPart::Zeroes { offset, len } => {
                self.metrics.destage_writes.add(1);
                self.metrics.destaged_extents.add(len.div_ceil(self.extent_bytes()));
                self.zero_origin(offset, len, false, false).await
            }
            PointPart::Unneeded { offset, len } => {
                match self.answered(self.origin.discard(offset, len)).await {
                    Err(error) if error.kind == DeviceErrorKind::Unsupported => return Ok(()),
                    result => result.map_err(Error::Origin)?,
                }
                self.origin_writes.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                self.forget_cached(self.extents(offset, len), |_, _| {}).await;
                Ok(())
            }
        }
    }

    /// Makes clean what the origin has got with the point that was frozen, and ends it.
    async fn clean_reached(&self, on: &On) -> Result<(), Error> {
        let version = on.with_frozen(|frozen| frozen.version);
        let (object, mut next) = (self.object(), version.map(|_| ExtentIndex(0)));
        while let (Some(from), Some(version)) = (next, version) {
            let count = EXTENTS_PER_LOCK as usize;
            let reached = self.cache.manager.lock().dirty_up_to(object, version, from, count);
            if !reached.extents.is_empty() {
                self.clean(&reached.extents).await?;
            }
            next = reached.next;
            yield_now().await;
        }
        let is_dirty = self.has_dirty();
        let mut state = on.state.lock();
        state.frozen = None;
        if is_dirty && state.since.is_none() {
            // What waited for insertion is in the origin, and dirty still.
            state.since = Some(self.cache.clock.now());
        }
        Ok(())
    }

    /// Waits until a point was reached that has all that was acknowledged before the call, and until nothing is dirty, if clients do
    /// not go on writing.
    pub(in crate::volume) async fn destage_by_points(&self, on: &On) -> Result<(), Error> {
        let _drainer = Drainer::new(&self.destage);
        self.cache.dirty_queue.caught_up().await;
        let (begun, failures) = {
            let state = on.state.lock();
            (state.begun, state.failures)
        };
        loop {
            let changed = on.changed.listen();
            let reached = on.reached_since(begun);
            if reached >= POINTS_MAX || !self.has_unreached(on) && !on.log.is_sealed() {
                break;
            }
            self.check_reaching(on, failures)?;
            select(changed, pin!(self.cache.clock.sleep(TICK))).await;
        }
        self.flush_origin().await?;
        self.cache.released_by_log(self.object()).await
    }

    /// Waits until no extent of a range is dirty, from which the caller excludes all writes.
    pub(in crate::volume) async fn drain_by_points(&self, on: &On, extents: ExtentRange) -> Result<(), Error> {
        let failures = on.state.lock().failures;
        loop {
            // First what is on its way, then what is there: an extent goes from the one to the other.
            let is_coming = self.flights.has_dirty(extents);
            let first = self.cache.manager.lock().dirty_from(self.object(), extents.start, u32::MAX, 1);
            if !is_coming && first.first().is_none_or(|first| first.key.index() >= extents.end) {
                return Ok(());
            }
            let _drainer = Drainer::new(&self.destage);
            let changed = on.changed.listen();
            self.check_reaching(on, failures)?;
            select(changed, pin!(self.cache.clock.sleep(SKIPPED_WAIT))).await;
        }
    }

    /// Checks that waiting for a point can succeed.
    fn check_reaching(&self, on: &On, failures: u64) -> Result<(), Error> {
        self.check_poisoned()?;
        if let Some(reason) = self.cache.ledger.failed() {
            return Err(Error::Poisoned { reason });
        }
        let state = on.state.lock();
        match &state.error {
            Some(error) if state.failures > failures => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl On {
    fn with_frozen<T>(&self, with: impl FnOnce(&mut Frozen) -> T) -> Option<T> {
        self.state.lock().frozen.as_mut().map(with)
    }

    /// Points reached that were frozen after `begun` of them.
    fn reached_since(&self, begun: u64) -> u64 {
        self.state.lock().reached.saturating_sub(begun)
    }
}
