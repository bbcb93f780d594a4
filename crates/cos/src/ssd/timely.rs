//! An SSD that has to answer in time.

use super::flash::Flash;
use bytes::Bytes;
use futures_util::future::{Either, FutureExt, LocalBoxFuture, select};
use nitro_port::{Clock, DeviceError, ErrorKind, Geometry, Operation};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// An SSD whose operations fail after a time without an answer. After the first such operation all fail at once: each
/// would be waited for again.
pub(super) struct Timely<C> {
    inner: Box<dyn Flash>,
    clock: C,
    limit: Duration,
    is_late: AtomicBool,
}

impl<C: Clock> Timely<C> {
    pub(super) const fn new(inner: Box<dyn Flash>, clock: C, limit: Duration) -> Self {
        Self { inner, clock, limit, is_late: AtomicBool::new(false) }
    }

    fn answer<'a, T: 'a>(
        &'a self,
        (operation, offset, len): (Operation, u64, u64),
        answer: LocalBoxFuture<'a, Result<T, DeviceError>>,
    ) -> LocalBoxFuture<'a, Result<T, DeviceError>> {
        async move {
            if !self.is_late.load(Relaxed) {
                match select(answer, pin!(self.clock.sleep(self.limit))).await {
                    Either::Left((answer, _)) => return answer,
                    Either::Right(_) => self.is_late.store(true, Relaxed),
                }
            }
            Err(DeviceError::new(ErrorKind::TimedOut, operation, offset, len))
        }
        .boxed_local()
    }
}

impl<C: Clock> Flash for Timely<C> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Bytes, DeviceError>> {
        self.answer((Operation::Read, offset, len as u64), self.inner.read(offset, len))
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, Result<(), DeviceError>> {
        self.answer((Operation::Write, offset, data.len() as u64), self.inner.write(offset, data))
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), DeviceError>> {
        self.answer((Operation::Flush, 0, 0), self.inner.flush())
    }
}
