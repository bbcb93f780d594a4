//! A device with the latencies and the wear of a modelled SSD.

use crate::{Counters, Error, Ftl, Nanos, PageRun, Ssd, Wear};
use bytes::Bytes;
use nitro_port::{Allocation, Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use parking_lot::Mutex;

/// A device `D` (in RAM, for instance) with the latencies and the wear of an SSD with translation layer `F`, by the
/// clock `C`.
///
/// `D` stores the bytes, and each request is passed to the model as well. A request ends when both are done. An SSD
/// without a write cache has programmed the pages of every acknowledged write, so a flush takes as long as that of `D`.
pub struct SsdDevice<D, C, F> {
    inner: D,
    clock: C,
    geometry: Geometry,
    ssd: Mutex<Ssd<F>>,
}

impl<D: Device, C: Clock, F: Ftl> SsdDevice<D, C, F> {
    /// A device of the size of `inner` or of `ssd`, whichever is smaller.
    #[must_use]
    pub fn new(inner: D, clock: C, ssd: Ssd<F>) -> Self {
        let inside = inner.geometry();
        let block = u64::from(inside.block_bytes);
        let flash = ssd.geometry();
        let geometry = Geometry {
            size_bytes: ssd.logical_bytes().min(inside.size_bytes) / block * block,
            preferred_bytes: flash.page_bytes.saturating_mul(flash.planes_all()),
            rotational: false,
            ..inside
        };
        Self { inner, clock, geometry, ssd: Mutex::new(ssd) }
    }

    /// The device that stores the bytes.
    pub const fn inner(&self) -> &D {
        &self.inner
    }

    /// The counters of the SSD.
    pub fn counters(&self) -> Counters {
        *self.ssd.lock().counters()
    }

    /// The distribution of wear among the SSD's blocks.
    pub fn wear(&self) -> Wear {
        self.ssd.lock().wear()
    }

    /// The WEU that the SSD would evict next, in pages of the SSD: [`Ftl::victim`].
    pub fn victim(&self) -> Option<PageRun> {
        self.ssd.lock().victim()
    }

    /// Passes a request that arrives now to the model; returns the time at which the request ends.
    fn tell(
        &self,
        (operation, offset, len): (Operation, u64, u64),
        request: impl FnOnce(&mut Ssd<F>, Nanos) -> Result<Nanos, Error>,
    ) -> Result<Nanos, DeviceError> {
        DeviceError::check(&self.geometry, operation, offset, len)?;
        let mut ssd = self.ssd.lock();
        request(&mut ssd, self.clock.now().into())
            .map_err(|_| DeviceError::new(ErrorKind::OutOfRange, operation, offset, len))
    }

    async fn sleep_until(&self, done: Nanos) {
        let now = Nanos::from(self.clock.now());
        if now < done {
            self.clock.sleep(Nanos(done.0 - now.0).into()).await;
        }
    }
}

impl<D, C, F> Device for SsdDevice<D, C, F>
where
    D: Device,
    C: Clock,
    F: Ftl + Send + 'static,
{
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let bytes = len as u64;
        let done = self.tell((Operation::Read, offset, bytes), |ssd, now| ssd.read_bytes(now, offset, bytes))?;
        let data = self.inner.read(offset, len).await?;
        self.sleep_until(done).await;
        Ok(data)
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        let done = self.tell((Operation::Write, offset, len), |ssd, now| ssd.write_bytes(now, offset, len))?;
        self.inner.write(offset, data).await?;
        self.sleep_until(done).await;
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush().await
    }

    /// Trims the pages that lie entirely within the range, whether or not the inner device supports discards.
    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let done = self.tell((Operation::Discard, offset, len), |ssd, now| ssd.trim_bytes(now, offset, len))?;
        match self.inner.discard(offset, len).await {
            Err(error) if error.kind != ErrorKind::Unsupported => return Err(error),
            _ => self.sleep_until(done).await,
        }
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        Err(DeviceError::new(ErrorKind::Unsupported, Operation::WriteZeroes, offset, len))
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        DeviceError::check(&self.geometry, Operation::Allocation, offset, len)?;
        self.inner.allocation(offset, len).await
    }
}
