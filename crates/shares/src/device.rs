//! A device before which requests wait for their turn.

use crate::{Counters, Gate, Policy, Request, Terms, Turn};
use nitro_port::{Allocation, Bytes, Clock, Device, DeviceError, Geometry, Urgency, Work};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A device whose time is shared. Reads and writes belong to the [work](Work) of the future that makes them; flushes, the
/// rare other requests, and what belongs to no work do not wait.
pub struct SharedDevice<D, C> {
    inner: D,
    gate: Gate<C>,
    is_shared: AtomicBool,
}

impl<D: Device, C: Clock> SharedDevice<D, C> {
    /// Shares the time of `inner` by a policy; `None`: requests pass as they come.
    pub fn new(inner: D, clock: C, policy: Option<Policy>) -> Self {
        let gate = Gate::new(clock, &policy.unwrap_or_default(), inner.geometry().rotational);
        Self { inner, gate, is_shared: AtomicBool::new(policy.is_some()) }
    }

    /// The inner device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Changes the shares; `None`: further requests pass as they come.
    pub fn set_policy(&self, policy: Option<Policy>) {
        self.is_shared.store(policy.is_some(), Relaxed);
        if let Some(policy) = policy {
            self.gate.set_policy(&policy);
        }
    }

    /// Changes what a group, such as a volume, may have of the time that its work has.
    pub fn set_terms(&self, group: u64, terms: Terms) {
        self.gate.set_terms(group, terms);
    }

    /// What the workloads have had while the time was shared.
    pub fn counters(&self) -> Counters {
        self.gate.counters()
    }

    /// Waits for the turn of a request, if the time is shared.
    async fn turn(&self, offset: u64, bytes: u64, is_flush: bool) -> Option<Turn<'_, C>> {
        if !self.is_shared.load(Relaxed) {
            return None;
        }
        Some(self.gate.enter(Request { work: Work::current(), offset, bytes, is_flush }).await)
    }
}

/// Ends the turn of a request.
fn ended<T, C: Clock>(turn: Option<Turn<'_, C>>, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
    if let Some(turn) = turn {
        turn.end(result.is_ok());
    }
    result
}

impl<D: Device, C: Clock> Device for SharedDevice<D, C> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let turn = self.turn(offset, len as u64, false).await;
        ended(turn, self.inner.read(offset, len).await)
    }

    async fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let turn = self.turn(offset, len as u64, false).await;
        ended(turn, self.inner.read_with(urgency, offset, len).await)
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let turn = self.turn(offset, data.len() as u64, false).await;
        ended(turn, self.inner.write(offset, data).await)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let turn = self.turn(0, 0, true).await;
        ended(turn, self.inner.flush().await)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len).await
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.reserve(offset, len).await
    }

    async fn extend(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.inner.extend(size_bytes).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.inner.write_zeroes(offset, len, may_unmap).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.inner.allocation(offset, len).await
    }
}
