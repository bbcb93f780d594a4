//! Background conversions and merges.

use super::pace::{Hurried, Pace, Paced};
use super::{Silt, Waiting};
use crate::Error;
use event_listener::listener;
use futures_util::future::try_join;
use nitro_port::{Clock, Device};
use std::sync::atomic::Ordering::Relaxed;

impl<D: Device> Silt<D> {
    /// Converts and merges until [`stop_background`](Self::stop_background); poll it until it ends. If it is dropped
    /// while it writes, the segments that it wrote to stay unused until the index is opened again. If it is dropped
    /// while it writes the manifest, the index accepts no more writes.
    ///
    /// # Errors
    /// An error of the device.
    pub async fn run_background(&self, clock: &impl Clock) -> Result<(), Error> {
        let _running = self.debt.run();
        let pace = Paced::new(self, clock);
        try_join(self.convert_all(&pace), self.merge_all(&pace)).await?;
        Ok(())
    }

    /// Stops [`run_background`](Self::run_background) after its current conversion or merge.
    pub fn stop_background(&self) {
        self.stopped.store(true, Relaxed);
        self.work.notify(usize::MAX);
    }

    async fn convert_all(&self, pace: &impl Pace) -> Result<(), Error> {
        loop {
            listener!(self.work => work);
            if self.stopped.load(Relaxed) {
                return Ok(());
            }
            // The one that will be short of room first.
            let closed = (0..self.partitions.len()).filter(|p| self.partitions[*p].stores().closed.is_some());
            match closed.max_by_key(|p| self.partitions[*p].stores().active.entries().0) {
                Some(partition) => drop(self.convert(partition, pace).await?),
                None => work.await,
            }
        }
    }

    async fn merge_all(&self, pace: &impl Pace) -> Result<(), Error> {
        loop {
            listener!(self.work => work);
            if self.stopped.load(Relaxed) {
                return Ok(());
            }
            if !self.merge_next(pace, self.plan.hash_stores as usize).await? {
                work.await;
            }
        }
    }

    /// Waits until `id` is no longer the active log of a partition.
    pub(super) async fn make_room(&self, partition: usize, id: u64) -> Result<(), Error> {
        loop {
            let stores = self.partitions[partition].stores();
            if stores.active.id != id {
                return Ok(());
            }
            if self.partitions[partition].rotate(id, self.io.seed) {
                self.work.notify(usize::MAX);
                return Ok(());
            }
            drop(stores);
            // The previous log is not converted yet.
            let _waiting = Waiting::new(&self.waiting);
            self.convert(partition, &Hurried).await?;
        }
    }

    /// Merges until there is room for an entry: merges remove entries that were replaced or removed.
    ///
    /// # Errors
    /// [`Error::Full`] if everything is merged.
    pub(super) async fn reclaim(&self) -> Result<(), Error> {
        let _waiting = Waiting::new(&self.waiting);
        while self.held() >= self.plan.held_max() {
            if self.merge_next(&Hurried, 1).await? {
                continue;
            }
            let entries = |p: &usize| self.partitions[*p].stores().log_entries();
            let fullest = (0..self.partitions.len()).max_by_key(entries).filter(|p| entries(p) > 0);
            let Some(partition) = fullest else { return Err(Error::Full { entries: self.held() }) };
            self.partitions[partition].rotate(self.partitions[partition].stores().active.id, self.io.seed);
            self.convert(partition, &Hurried).await?;
        }
        Ok(())
    }

    /// Converts and merges everything, so that all entries are in sorted stores. Afterwards, RAM use is minimal, and
    /// replaced or removed entries take no flash.
    ///
    /// # Errors
    /// An error of the device.
    pub async fn compact(&self) -> Result<(), Error> {
        let _waiting = Waiting::new(&self.waiting);
        for partition in 0..self.partitions.len() {
            for _ in 0..2 {
                let stores = self.partitions[partition].stores();
                if stores.closed.is_none() && stores.active.entries().0 > 0 {
                    self.partitions[partition].rotate(stores.active.id, self.io.seed);
                }
                drop(stores);
                self.convert(partition, &Hurried).await?;
            }
        }
        while self.merge_next(&Hurried, 1).await? {}
        Ok(())
    }
}
