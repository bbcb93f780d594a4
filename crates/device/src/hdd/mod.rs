//! Emulates a hard disk on a fast device.
//!
//! Each disk has one arm. A request takes a seek, a rotation and the transfer. A seek takes `track + (full - track) *
//! sqrt(distance / span)`, or zero within a track. The rotation lasts until the request's sector is under the head; the
//! angle of the disk follows from the time. A request that begins where the last one ended takes only the transfer. Of
//! up to 32 waiting requests, the arm serves the one that it reaches first, as a disk with NCQ does; a request that has
//! waited too long is served before all others. The request to the inner device runs meanwhile; a request ends when
//! both have ended.
//!
//! The resulting rates of random reads of 8 KiB over the whole disk (tests/device/hdd.rs checks it):
//!
//! | disk | one at a time | 32 at a time |
//! |---|---|---|
//! | 7200 rpm | 79 a second | 185 a second |
//! | 15000 rpm | 185 a second | 440 a second |
//!
//! Not emulated: caches other than for continued requests, zones of different density, and errors.

mod arm;

pub use nitro_model::disk::HddModel;

use arm::{Arm, Request};
use bytes::Bytes;
use futures_util::future::{join, join_all};
use nitro_port::{Allocation, Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Size of requests, for each disk, at which positioning no longer dominates, in bytes.
const PREFERRED_BYTES: u32 = 256 << 10;

/// Counters of all emulated disks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HddStats {
    /// Requests; one that spans several disks counts on each.
    pub requests: u64,
    /// Requests for which the head had to be positioned.
    pub seeks: u64,
    /// Time spent on requests, positioning included.
    pub busy: Duration,
}

/// A device `D` with the latencies of hard disks, by the clock `C`.
pub struct HddDevice<D, C> {
    inner: D,
    clock: C,
    model: HddModel,
    arms: Vec<Arm>,
    writes: Mutex<Writes>,
}

/// Writes in progress, by their order of arrival.
#[derive(Default)]
struct Writes {
    pending: BTreeSet<u64>,
    next: u64,
    flushes: Vec<Waker>,
}

impl<D: Device, C: Clock> HddDevice<D, C> {
    /// Delays the requests of `inner` by `model`, with at least 1 for `spindles` and 4096 for `stripe_bytes`.
    pub fn new(inner: D, clock: C, model: HddModel) -> Self {
        let spindles = model.spindles.max(1);
        let model = HddModel { spindles, stripe_bytes: model.stripe_bytes.max(4096), ..model };
        let share = inner.geometry().size_bytes.div_ceil(u64::from(spindles));
        let span_bytes = model.span_bytes.unwrap_or(share).max(1);
        let arms = (0..spindles).map(|_| Arm::new(span_bytes)).collect();
        Self { inner, clock, model, arms, writes: Mutex::default() }
    }

    /// The inner device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counters so far.
    pub fn stats(&self) -> HddStats {
        self.arms.iter().map(Arm::stats).fold(HddStats::default(), |sum, arm| HddStats {
            requests: sum.requests + arm.requests,
            seeks: sum.seeks + arm.seeks,
            busy: sum.busy + arm.busy,
        })
    }

    /// Waits for the slowest disk that a request touches.
    async fn serve(&self, offset: u64, len: u64) {
        let stripe = self.model.stripe_bytes;
        if self.arms.len() == 1 {
            self.arms[0].serve(&self.model, &self.clock, Request { offset, len }).await;
        } else if offset / stripe == (offset + len.max(1) - 1) / stripe {
            let (disk, at) = self.locate(offset);
            self.arms[disk].serve(&self.model, &self.clock, Request { offset: at, len }).await;
        } else {
            let shares = self.shares(offset, len);
            let served = shares.iter().enumerate().filter_map(|(disk, share)| {
                share.map(|request| self.arms[disk].serve(&self.model, &self.clock, request))
            });
            join_all(served).await;
        }
    }

    /// The disk that holds a byte, and the offset there.
    fn locate(&self, offset: u64) -> (usize, u64) {
        let stripe = self.model.stripe_bytes;
        let (number, within) = (offset / stripe, offset % stripe);
        let disks = self.arms.len() as u64;
        ((number % disks) as usize, number / disks * stripe + within)
    }

    /// The part of a request on each disk: one run, since a disk's successive stripes are adjacent.
    fn shares(&self, offset: u64, len: u64) -> Vec<Option<Request>> {
        let mut shares: Vec<Option<Request>> = vec![None; self.arms.len()];
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let next = ((at / self.model.stripe_bytes + 1) * self.model.stripe_bytes).min(end);
            let (disk, place) = self.locate(at);
            shares[disk].get_or_insert(Request { offset: place, len: 0 }).len += next - at;
            at = next;
        }
        shares
    }

    /// Waits until all writes that are in progress now have ended.
    async fn drain_writes(&self) {
        let horizon = self.writes.lock().next;
        poll_fn(|cx| {
            let mut writes = self.writes.lock();
            if writes.pending.first().is_none_or(|&oldest| oldest >= horizon) {
                return Poll::Ready(());
            }
            writes.flushes.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A write in progress.
struct PendingWrite<'a> {
    writes: &'a Mutex<Writes>,
    number: u64,
}

impl<'a> PendingWrite<'a> {
    fn new(writes: &'a Mutex<Writes>) -> Self {
        let mut guard = writes.lock();
        let number = guard.next;
        guard.next += 1;
        guard.pending.insert(number);
        Self { writes, number }
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        let mut writes = self.writes.lock();
        writes.pending.remove(&self.number);
        let wakers = std::mem::take(&mut writes.flushes);
        drop(writes);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl<D: Device, C: Clock> Device for HddDevice<D, C> {
    fn geometry(&self) -> Geometry {
        let preferred_bytes = PREFERRED_BYTES.saturating_mul(self.model.spindles);
        Geometry { preferred_bytes, rotational: true, ..self.inner.geometry() }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        DeviceError::check(&self.geometry(), Operation::Read, offset, len as u64)?;
        join(self.inner.read(offset, len), self.serve(offset, len as u64)).await.0
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        DeviceError::check(&self.geometry(), Operation::Write, offset, len)?;
        let _pending = PendingWrite::new(&self.writes);
        join(self.inner.write(offset, data), self.serve(offset, len)).await.0
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.drain_writes().await;
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::Discard, offset, len))
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.reserve(offset, len).await
    }

    /// The arm's span stays what it was.
    async fn extend(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.inner.extend(size_bytes).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.inner.allocation(offset, len).await
    }
}

nitro_port::plain_origin!(<D: Device, C: Clock> HddDevice<D, C>);
