//! What the queues of a device share.

use event_listener::Event;
use nitro_frontend::{Disk, DiskError, RequestMemory, Requester, Unflushed};
use nitro_port::yielding::attempt_at;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A disk as a block device.
#[derive(Debug)]
pub struct Device<D> {
    pub(crate) disk: Arc<D>,
    pub(crate) requester: Requester,
    pub(crate) memory: Arc<RequestMemory>,
    unflushed: Unflushed<Infallible>,
    /// No further request is begun.
    is_leaving: AtomicBool,
    /// The queues need not be served any more.
    has_left: AtomicBool,
    /// Requests that were begun and have not ended.
    under_way: AtomicUsize,
    /// A request has ended, or the device has left.
    ended: Event,
}

/// A request under way, until it is dropped.
pub(crate) struct UnderWay<'a, D>(&'a Device<D>);

impl<D> Drop for UnderWay<'_, D> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        if self.0.is_leaving.load(Ordering::SeqCst) {
            self.0.ended.notify(usize::MAX);
        }
    }
}

impl<D: Disk> Device<D> {
    /// `disk`, whose requests come from `requester` and take their data's memory from `memory`. `unflushed` records, outside the
    /// process, whether acknowledged writes would be lost with it.
    pub fn new(
        disk: Arc<D>,
        requester: Requester,
        memory: Arc<RequestMemory>,
        unflushed: Unflushed<Infallible>,
    ) -> Self {
        let (is_leaving, has_left, under_way) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
        Self { disk, requester, memory, unflushed, is_leaving, has_left, under_way, ended: Event::new() }
    }

    /// Begins no further requests, which are left to the next server, and waits for the end of those under way. Then the queues
    /// end, and what was acknowledged is made durable.
    ///
    /// # Errors
    /// The flush failed.
    pub async fn leave(&self) -> Result<(), DiskError> {
        self.is_leaving.store(true, Ordering::SeqCst);
        attempt_at(&self.ended, || (self.under_way.load(Ordering::SeqCst) == 0).then_some(())).await;
        let flushed = self.flush().await;
        self.has_left.store(true, Ordering::SeqCst);
        self.ended.notify(usize::MAX);
        flushed
    }

    /// Waits until the device [has left](Self::leave).
    pub(crate) async fn left(&self) {
        attempt_at(&self.ended, || self.has_left.load(Ordering::SeqCst).then_some(())).await;
    }

    /// Makes what was acknowledged durable, and records that.
    pub(crate) async fn flush(&self) -> Result<(), DiskError> {
        let mark = self.unflushed.mark();
        self.disk.flush(self.requester).await?;
        let Ok(()) = self.unflushed.flushed(mark);
        Ok(())
    }

    /// Begins a request; `None`: it is left to the next server.
    pub(crate) fn begin(&self) -> Option<UnderWay<'_, D>> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(self);
        (!self.is_leaving.load(Ordering::SeqCst)).then_some(under_way)
    }

    /// Records that a change is about to be acknowledged, unless it is durable or survives the end of the process.
    pub(crate) fn note_change(&self, is_durable: bool) {
        if !is_durable && !self.disk.keeps_writes() {
            let Ok(()) = self.unflushed.note();
        }
    }
}
