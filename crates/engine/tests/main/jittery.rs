//! A device whose operations take a seeded time and overtake each other. It loses nothing and wraps any other, of any size, which is what
//! the crashing device of testkit does not.

use bytes::Bytes;
use nitro_port::{
    Allocation, Clock, Device, DeviceError, ErrorKind, Geometry, Operation, Origin, Recipe, Urgency, read_each,
};
use nitro_testkit::{Rng, VirtualTime};
use nitro_units::Fingerprint;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Delays each operation of `inner` before and after it takes effect.
pub struct Jittery<D> {
    pub inner: D,
    clock: VirtualTime,
    rng: Mutex<Rng>,
    delay_us_max: u64,
    /// Flushes that have begun.
    pub flushes: AtomicU64,
    /// As an origin, it keeps unflushed writes if the program is killed.
    pub keeps_writes: bool,
}

impl<D> Jittery<D> {
    pub fn new(inner: D, clock: &VirtualTime, seed: u64, delay_us_max: u64) -> Self {
        let (clock, rng, flushes) = (clock.clone(), Mutex::new(Rng::new(seed)), AtomicU64::new(0));
        Self { inner, clock, rng, delay_us_max, flushes, keeps_writes: true }
    }

    async fn delay(&self) {
        let us = self.rng.lock().unwrap().below(self.delay_us_max);
        self.clock.sleep(Duration::from_micros(us)).await;
    }
}

impl<D: Device> Device for Jittery<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.delay().await;
        let result = self.inner.read(offset, len).await;
        self.delay().await;
        result
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.delay().await;
        // In two halves, so that a reader may see one new and one old.
        let half = data.len() / 2 / 4096 * 4096;
        let result = match self.inner.write(offset, data.slice(..half)).await {
            Ok(()) => {
                self.delay().await;
                self.inner.write(offset + half as u64, data.slice(half..)).await
            }
            error => error,
        };
        self.delay().await;
        result
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        self.delay().await;
        self.inner.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.delay().await;
        self.inner.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.delay().await;
        let result = self.inner.write_zeroes(offset, len, may_unmap).await;
        self.delay().await;
        result
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.inner.allocation(offset, len).await
    }
}

impl<D: Device> Origin for Jittery<D> {
    fn keeps_writes(&self) -> bool {
        self.keeps_writes
    }

    fn unit_bytes(&self) -> Option<u32> {
        None
    }

    fn recipe_extent_bytes(&self) -> Option<u32> {
        None
    }

    async fn recipe(&self, offset: u64, len: u64) -> Result<Recipe, DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::Read, offset, len))
    }

    async fn write_known(&self, offset: u64, data: Bytes, _known: &[Option<Fingerprint>]) -> Result<(), DeviceError> {
        self.write(offset, data).await
    }

    fn reads_parts(&self) -> bool {
        false
    }

    async fn read_parts(&self, urgency: Urgency, parts: &[Range<u64>]) -> Result<Vec<Bytes>, DeviceError> {
        read_each(self, urgency, parts).await
    }
}
