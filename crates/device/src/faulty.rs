//! A device that fails on command, around any other.
//!
//! Faults are described by [`Fault`] and injected through [`Faults`] at any time, also while requests are in progress.
//! Random decisions depend on a seed, so that a failing test can be repeated.

use bytes::Bytes;
use nitro_port::buf::BufMut;
use nitro_port::{Allocation, Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// What a fault does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request fails with this kind before it reaches the device.
    Fail(ErrorKind),
    /// One bit of the data read is wrong. Without effect on other requests.
    FlipBit,
    /// The request waits until the fault is removed.
    Hang,
    /// The request waits this long first.
    Delay(Duration),
}

/// A fault: the requests that it affects, and its effect.
#[derive(Debug, Clone)]
pub struct Fault {
    effect: Effect,
    operation: Option<Operation>,
    range: Range<u64>,
    remaining: Option<u64>,
    probability: f64,
}

impl Fault {
    /// A fault that affects every request.
    #[must_use]
    pub fn new(effect: Effect) -> Self {
        Self { effect, operation: None, range: 0..u64::MAX, remaining: None, probability: 1.0 }
    }

    /// Affects only this operation.
    #[must_use]
    pub fn on(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Affects only requests that touch these bytes. A flush touches all bytes.
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Self {
        self.range = range;
        self
    }

    /// Affects only the next `count` matching requests.
    #[must_use]
    pub fn times(mut self, count: u64) -> Self {
        self.remaining = Some(count);
        self
    }

    /// Affects a request with this probability, from 0 to 1.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    fn concerns(&self, operation: Operation, offset: u64, len: u64) -> bool {
        self.remaining != Some(0)
            && self.operation.is_none_or(|o| o == operation)
            && offset < self.range.end
            && self.range.start < offset.saturating_add(len)
    }
}

/// The identity of an injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultId(u64);

/// Counters of requests and of faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards and requests to write zeroes.
    pub discards: u64,
    /// Requests failed on purpose.
    pub failed: u64,
    /// Reads whose data was falsified.
    pub corrupted: u64,
}

struct State {
    faults: Vec<(FaultId, Fault)>,
    next_id: u64,
    /// State of the xorshift64* generator; never zero.
    random: u64,
    counters: Counters,
    hanging: Vec<Waker>,
}

/// The faults of a request.
#[derive(Default)]
struct Verdict {
    delay: Duration,
    hangs: Vec<FaultId>,
    fail: Option<ErrorKind>,
    flips: u32,
}

impl State {
    /// A number from 0 to below 1.
    fn chance(&mut self) -> f64 {
        // The upper 53 bits fill a float's mantissa.
        (self.random() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn judge(&mut self, operation: Operation, offset: u64, len: u64) -> Verdict {
        let mut verdict = Verdict::default();
        for i in 0..self.faults.len() {
            let (id, fault) = &self.faults[i];
            let (id, effect, probability) = (*id, fault.effect, fault.probability);
            if !fault.concerns(operation, offset, len) || (probability < 1.0 && self.chance() >= probability) {
                continue;
            }
            if let Some(remaining) = &mut self.faults[i].1.remaining {
                *remaining -= 1;
            }
            match effect {
                Effect::Delay(delay) => verdict.delay += delay,
                Effect::Hang => verdict.hangs.push(id),
                Effect::Fail(kind) => verdict.fail = verdict.fail.or(Some(kind)),
                Effect::FlipBit => verdict.flips += 1,
            }
        }
        self.counters.failed += u64::from(verdict.fail.is_some());
        verdict
    }
}

/// The controls of a [`FaultyDevice`]; clones share them.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

impl Faults {
    /// Adds a fault to those in force.
    pub fn inject(&self, fault: Fault) -> FaultId {
        let mut state = self.state.lock();
        let id = FaultId(state.next_id);
        state.next_id += 1;
        state.faults.push((id, fault));
        id
    }

    /// Removes a fault, and lets the requests that it delays continue.
    pub fn remove(&self, id: FaultId) {
        self.retain(|other| other != id);
    }

    /// Removes all faults, and lets all delayed requests continue.
    pub fn clear(&self) {
        self.retain(|_| false);
    }

    fn retain(&self, keep: impl Fn(FaultId) -> bool) {
        let mut state = self.state.lock();
        state.faults.retain(|(id, _)| keep(*id));
        let wakers = std::mem::take(&mut state.hanging);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.state.lock().counters
    }

    /// Waits until the fault is removed.
    async fn removed(&self, id: FaultId) {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            if state.faults.iter().all(|(other, _)| *other != id) {
                return Poll::Ready(());
            }
            state.hanging.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A device with faults around the device `D`; delays pass by the clock `C`.
pub struct FaultyDevice<D, C> {
    inner: D,
    clock: C,
    faults: Faults,
}

impl<D: Device, C: Clock> FaultyDevice<D, C> {
    /// Wraps `inner`, at first without faults. `seed` determines all random decisions.
    pub fn new(inner: D, clock: C, seed: u64) -> Self {
        let state = State {
            faults: Vec::new(),
            next_id: 0,
            random: seed.max(1),
            counters: Counters::default(),
            hanging: Vec::new(),
        };
        Self { inner, clock, faults: Faults { state: Arc::new(Mutex::new(state)) } }
    }

    /// Its controls.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The device inside.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Applies the faults to a request; `Ok` if it may continue, with the number of bits to flip.
    async fn meet(&self, operation: Operation, offset: u64, len: u64) -> Result<u32, DeviceError> {
        let verdict = {
            let mut state = self.faults.state.lock();
            match operation {
                Operation::Read => state.counters.reads += 1,
                Operation::Write => state.counters.writes += 1,
                Operation::Flush => state.counters.flushes += 1,
                Operation::Discard | Operation::WriteZeroes => state.counters.discards += 1,
                Operation::Allocation | Operation::Reserve | Operation::Open => {}
            }
            state.judge(operation, offset, len)
        };
        if !verdict.delay.is_zero() {
            self.clock.sleep(verdict.delay).await;
        }
        for id in verdict.hangs {
            self.faults.removed(id).await;
        }
        match verdict.fail {
            Some(kind) => Err(DeviceError::new(kind, operation, offset, len)),
            None => Ok(verdict.flips),
        }
    }

    fn flip(&self, data: &Bytes, flips: u32) -> Bytes {
        let mut buf = BufMut::copy_of(data);
        let mut state = self.faults.state.lock();
        state.counters.corrupted += 1;
        for _ in 0..flips {
            let bit = state.random() % (data.len() as u64 * 8);
            buf[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        buf.freeze()
    }
}

impl<D: Device, C: Clock> Device for FaultyDevice<D, C> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let flips = self.meet(Operation::Read, offset, len as u64).await?;
        let data = self.inner.read(offset, len).await?;
        Ok(if flips == 0 || data.is_empty() { data } else { self.flip(&data, flips) })
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.meet(Operation::Write, offset, data.len() as u64).await?;
        self.inner.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.meet(Operation::Flush, 0, self.geometry().size_bytes).await?;
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.meet(Operation::Discard, offset, len).await?;
        self.inner.discard(offset, len).await
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.meet(Operation::Reserve, offset, len).await?;
        self.inner.reserve(offset, len).await
    }

    async fn extend(&self, size_bytes: u64) -> Result<(), DeviceError> {
        self.inner.extend(size_bytes).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.meet(Operation::WriteZeroes, offset, len).await?;
        self.inner.write_zeroes(offset, len, may_unmap).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.meet(Operation::Allocation, offset, len).await?;
        self.inner.allocation(offset, len).await
    }
}

nitro_port::plain_origin!(<D: Device, C: Clock> FaultyDevice<D, C>);
