//! The device that is made of an image.

use super::calls::{Calls, Done, Request};
use super::fate::Fate;
use super::image::Image;
use bytes::Bytes;
use nitro_port::buf::BufMut;
use nitro_port::{Device, DeviceError, ErrorKind, Geometry, Operation};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The longest range of a discard or of zeroes that librbd gets at once: it makes a request of each object, of all at the same time.
const RANGE_BYTES_MAX: u64 = 256 << 20;
/// An allowance for the RAM of librados and librbd for one image, without the data of requests. With Ceph 16.2, a whole server with one
/// image and no requests takes 59 MiB.
pub const RAM_BYTES: u64 = 32 << 20;

/// An image as a device, for any number of threads.
pub struct RbdDevice<C: Calls = Image> {
    calls: Arc<C>,
    fate: Arc<Fate>,
    geometry: Geometry,
    is_read_only: bool,
}

impl RbdDevice {
    /// The device of an image with a size in bytes, which may be one that it has got since it was opened.
    #[must_use]
    pub fn new(image: &Arc<Image>, size_bytes: u64, is_read_only: bool) -> Self {
        Self::of(Arc::clone(image), Arc::clone(image.fate()), size_bytes, is_read_only)
    }

    /// The RAM that Ceph's libraries take for it, in bytes, besides the data of requests.
    #[must_use]
    pub const fn ram_bytes(&self) -> u64 {
        RAM_BYTES
    }
}

impl<C: Calls> RbdDevice<C> {
    fn of(calls: Arc<C>, fate: Arc<Fate>, size_bytes: u64, is_read_only: bool) -> Self {
        // An image may have any number of bytes.
        let block_bytes = 1 << size_bytes.trailing_zeros().min(9);
        let geometry = Geometry { size_bytes, block_bytes, preferred_bytes: 4096, rotational: false };
        Self { calls, fate, geometry, is_read_only }
    }

    /// Has a request carried out; returns what the image answers, if that is not an error, and the request.
    async fn ask(
        &self,
        request: Request,
        operation: Operation,
        range: Range<u64>,
    ) -> Result<(i64, Request), DeviceError> {
        let fail = |error| DeviceError::from_io(error, operation, range.start, range.end - range.start);
        let is_lost = || self.fate.lost().map(|why| fail(io::Error::other(why.to_owned())));
        if let Some(error) = is_lost() {
            return Err(error);
        }
        let (done, answered) = Done::new();
        self.calls.begin(request, done);
        let answer = answered.await.map_err(|_| fail(io::Error::other("librbd has not answered")))?;
        if answer.result >= 0 {
            return Ok((answer.result, answer.request));
        }
        let number = i32::try_from(answer.result.unsigned_abs()).unwrap_or(libc::EIO);
        let error = io::Error::from_raw_os_error(number);
        self.fate.heed(&error, operation != Operation::Read);
        Err(is_lost().unwrap_or_else(|| fail(error)))
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry, operation, offset, len)?;
        if self.is_read_only && operation != Operation::Read {
            return Err(DeviceError::new(ErrorKind::ReadOnly, operation, offset, len));
        }
        Ok(())
    }

    /// Changes a range in parts that librbd may get at once.
    async fn change(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        request: impl Fn(u64, u64) -> Request,
    ) -> Result<(), DeviceError> {
        self.check(operation, offset, len)?;
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let next = end.min((at / RANGE_BYTES_MAX + 1) * RANGE_BYTES_MAX);
            self.ask(request(at, next - at), operation, at..next).await?;
            at = next;
        }
        Ok(())
    }
}

impl<C: Calls> Device for RbdDevice<C> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let (operation, end) = (Operation::Read, offset.saturating_add(len as u64));
        self.check(operation, offset, len as u64)?;
        if len == 0 {
            return Ok(Bytes::new());
        }
        let request = Request::Read { offset, into: BufMut::with_len(len) };
        match self.ask(request, operation, offset..end).await? {
            // The buffer is as long as was asked for; what an answer of another length has left in it is not the image's.
            (got, Request::Read { into, .. }) if got == len as i64 && into.len() == len => Ok(into.freeze()),
            (got, _) => {
                let why = io::Error::other(format!("librbd has read {got} bytes instead of {len}"));
                Err(DeviceError::from_io(why, operation, offset, len as u64))
            }
        }
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let (operation, len) = (Operation::Write, data.len() as u64);
        self.check(operation, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.ask(Request::Write { offset, data }, operation, offset..offset + len).await.map(drop)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        if self.is_read_only {
            return Ok(());
        }
        self.ask(Request::Flush, Operation::Flush, 0..0).await.map(drop)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.change(Operation::Discard, offset, len, |offset, len| Request::Discard { offset, len }).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        let request = |offset, len| Request::WriteZeroes { offset, len, may_unmap };
        self.change(Operation::WriteZeroes, offset, len, request).await
    }
}

// The configuration of a pool or of an image may give librbd a cache, whose contents end with the process.
nitro_port::plain_origin!(RbdDevice, keeps_writes: |_| false);

#[cfg(test)]
mod tests;
