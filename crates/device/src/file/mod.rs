//! Regular files and block devices through io_uring.
//!
//! Requests bypass the page cache (`O_DIRECT`) where the file system supports it, because Nitro is a cache itself.

mod blocking;
mod bound;
mod open;
mod probe;
mod space;
mod waiting;

pub use blocking::Blocking;
pub(crate) use bound::Turn;
pub use open::FileOptions;

use crate::buffer::IoBuffer;
use crate::error::Error;
use crate::identity::identify;
use crate::runtime::{Lent, is_io_uring};
use bound::{Flushes, Turns};
use bytes::{Buf, Bytes};
use compio::driver::op::{ReadAt, Sync as SyncOp, WriteAt};
use compio::runtime::submit;
use compio_buf::{BufResult, IntoInner};
use futures_util::FutureExt as _;
use nitro_port::buf::{BufMut, is_aligned};
use nitro_port::{Allocation, Device, DeviceError, ErrorKind, Geometry, Operation, StorageId, Urgency};
use rustix::fd::OwnedFd;
use rustix::fs::fdatasync;
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The maximum number of times that a request is repeated if the kernel deferred it (`EAGAIN`) or a signal interrupted
/// it (`EINTR`).
const RETRIES_MAX: u32 = 1000;
/// Pause before a request is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// The kind of a [`FileDevice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// A regular file or a block device. Its requests must be polled inside a [`Reactor`](crate::Reactor). The number of
/// operations in progress is bounded over all reactors; further requests wait.
#[derive(Debug)]
pub struct FileDevice {
    fd: Arc<OwnedFd>,
    /// The file behind a loop device, locked.
    _backing: Option<OwnedFd>,
    under_way: Box<UnderWay>,
    /// Without its size.
    geometry: Geometry,
    /// It may grow.
    size_bytes: AtomicU64,
    medium: Medium,
    direct: bool,
    read_only: bool,
    /// Whether reads and writes take threads: see [`waiting`].
    may_wait: bool,
}

/// The operations in progress of a device.
#[derive(Debug)]
struct UnderWay {
    blocking: Blocking,
    turns: Arc<Turns>,
    flushes: Flushes,
}

impl UnderWay {
    /// With a thread that stays, so that later no request fails for lack of one.
    fn new(may_wait: bool) -> io::Result<Self> {
        let threads_max = match may_wait {
            true => waiting::THREADS_MAX,
            false if is_io_uring() => blocking::THREADS_MAX,
            false => blocking::THREADS_MAX + bound::THREADS_MAX,
        };
        Ok(Self { blocking: Blocking::new(threads_max)?, turns: Arc::default(), flushes: Flushes::default() })
    }
}

/// Whether io_uring has given up a request because the kernel could not start a worker thread for it (a limit of
/// threads was reached). The request was not begun. Requests that this process cancels have no task that sees their end.
fn lacks_worker(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::CANCELED.raw_os_error())
}

/// The usable part of a transfer that stopped after `done` of `len` bytes: all of a complete transfer, otherwise whole
/// blocks, so that the rest begins at a block boundary. `None` if it is empty.
fn progress(block: usize, done: usize, len: usize) -> Option<usize> {
    let counted = if done == len { done } else { done - done % block };
    (counted > 0).then_some(counted)
}

impl FileDevice {
    /// Whether requests bypass the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether writes are refused.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether it is a block device that the kernel does not let anyone write to.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.medium == Medium::Block && crate::ioctl::is_read_only(&*self.fd).unwrap_or(false)
    }

    /// The kind of file.
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.medium
    }

    /// A descriptor of the open file or device. It keeps the locks of the device for as long as it is open.
    ///
    /// # Errors
    /// The process may have no more descriptors.
    pub fn handle(&self) -> io::Result<File> {
        self.fd.try_clone().map(File::from)
    }

    /// What the open file or device is recognised by, independent of its path. May block.
    ///
    /// # Errors
    /// It cannot be examined.
    pub fn identify(&self) -> io::Result<StorageId> {
        identify(&*self.fd)
    }

    /// The same file or device opened once more, without a lock, with the size that it has now. It is found by the open
    /// descriptor: its path may lead to another one by now.
    ///
    /// # Errors
    /// As [`FileOptions::open`].
    pub fn reopen(&self) -> Result<Self, Error> {
        FileOptions::of_open(&*self.fd).read_only(self.read_only).direct(self.direct).open()
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), operation, offset, len)
    }

    fn check_writable(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.read_only {
            return Err(DeviceError::new(ErrorKind::ReadOnly, operation, offset, len));
        }
        self.check(operation, offset, len)
    }

    /// The unit of [`progress`].
    fn step_bytes(&self) -> usize {
        if self.direct { self.geometry.block_bytes as usize } else { 1 }
    }

    fn lend(&self) -> Lent {
        Lent::new(&self.fd)
    }

    /// Whether reads and writes take threads of the device: they may wait, or there is no io_uring.
    fn takes_threads(&self) -> bool {
        self.may_wait || !is_io_uring()
    }

    /// Maximum number of turns of reads and writes that take threads.
    fn threads_max(&self) -> usize {
        if self.may_wait { waiting::THREADS_MAX } else { bound::THREADS_MAX }
    }

    /// Runs `work` on a thread where it may block.
    async fn blocking<T, W>(&self, work: W) -> io::Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&OwnedFd) -> T + Send + 'static,
    {
        let fd = Arc::clone(&self.fd);
        self.under_way.blocking.run(move || work(&fd)).await
    }

    /// Waits until another read or write of the device may begin, which keeps its turn until the kernel has answered.
    async fn lend_in_turn(&self, urgency: Urgency, len: usize) -> Lent {
        match self.lend_at_once(len) {
            Some(lent) => lent,
            None => Lent::with(&self.fd, self.under_way.turns.take(urgency, bound::RING_MAX, len).await),
        }
    }

    /// As [`lend_in_turn`](Self::lend_in_turn), if a turn is available without waiting.
    fn lend_at_once(&self, len: usize) -> Option<Lent> {
        Some(Lent::with(&self.fd, self.under_way.turns.take_at_once(bound::RING_MAX, len)?))
    }

    /// Runs a read or write of `len` bytes on a thread, in its turn.
    async fn transfer<T, W>(&self, urgency: Urgency, len: usize, work: W) -> io::Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&OwnedFd, usize) -> io::Result<T> + Send + 'static,
    {
        let turn = self.under_way.turns.take(urgency, self.threads_max(), len).await;
        let step = self.step_bytes();
        self.blocking(move |fd| {
            let result = work(fd, step);
            drop(turn);
            result
        })
        .await?
    }

    /// A read that takes a thread.
    async fn read_on_thread(&self, urgency: Urgency, offset: u64, len: usize) -> io::Result<Bytes> {
        self.transfer(urgency, len, move |fd, step| waiting::read(fd, step, offset, len)).await
    }

    /// A read that waits for its turn, or that takes a thread.
    async fn read_waiting(&self, urgency: Urgency, offset: u64, len: usize) -> io::Result<Bytes> {
        if self.takes_threads() {
            return self.read_on_thread(urgency, offset, len).await;
        }
        let lent = self.lend_in_turn(urgency, len).await;
        let (result, buf) = read_once(lent, offset, BufMut::with_len(len), 0).await;
        self.read_on(offset, buf, result).await
    }

    /// Continues a read into `buf` whose first request ended with `result`; it may be complete.
    async fn read_on(&self, offset: u64, mut buf: BufMut, mut result: io::Result<usize>) -> io::Result<Bytes> {
        let (len, mut done) = (buf.len(), 0);
        let mut retries = Retries::new();
        loop {
            match result {
                Ok(read) if done + read == len => return Ok(buf.freeze()),
                // The end of a file that was truncated after it was opened.
                Ok(read) => {
                    done += progress(self.step_bytes(), read, len - done).ok_or(io::ErrorKind::UnexpectedEof)?;
                }
                Err(e) if lacks_worker(&e) => return self.read_on_thread(Urgency::default(), offset, len).await,
                Err(e) => retries.pause(e).await?,
            }
            let lent = self.lend_in_turn(Urgency::default(), len - done).await;
            (result, buf) = read_once(lent, offset, buf, done).await;
        }
    }

    /// Data as the kernel can write them past the page cache: copied if they are not aligned.
    fn aligned(&self, data: Bytes) -> Bytes {
        if self.direct && !is_aligned(&data) { BufMut::copy_of(&data).freeze() } else { data }
    }

    /// A write that takes a thread.
    async fn write_on_thread(&self, offset: u64, data: Bytes) -> io::Result<()> {
        let data = self.aligned(data);
        self.transfer(Urgency::default(), data.len(), move |fd, step| waiting::write(fd, step, offset, data)).await
    }

    /// A write that waits for its turn, or that takes a thread.
    async fn write_waiting(&self, offset: u64, data: Bytes) -> io::Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        if self.takes_threads() {
            return self.write_on_thread(offset, data).await;
        }
        let lent = self.lend_in_turn(Urgency::default(), data.len()).await;
        let (result, data) = write_once(lent, offset, self.aligned(data)).await;
        self.write_on(offset, data, result).await
    }

    /// Continues a write of `rest` at `offset` whose first request ended with `result`; it may be complete.
    async fn write_on(&self, mut offset: u64, mut rest: Bytes, mut result: io::Result<usize>) -> io::Result<()> {
        let mut retries = Retries::new();
        loop {
            match result {
                Ok(written) => {
                    let done = progress(self.step_bytes(), written, rest.len()).ok_or(io::ErrorKind::WriteZero)?;
                    rest.advance(done);
                    offset += done as u64;
                }
                Err(e) if lacks_worker(&e) => return self.write_on_thread(offset, rest).await,
                Err(e) => retries.pause(e).await?,
            }
            if rest.is_empty() {
                return Ok(());
            }
            let lent = self.lend_in_turn(Urgency::default(), rest.len()).await;
            (result, rest) = write_once(lent, offset, self.aligned(rest)).await;
        }
    }

    async fn flush_once(&self) -> Result<(), DeviceError> {
        self.sync().await.map_err(|e| DeviceError::from_io(e, Operation::Flush, 0, self.geometry().size_bytes))
    }

    async fn sync(&self) -> io::Result<()> {
        let mut retries = Retries::new();
        while is_io_uring() {
            let BufResult(result, _) = submit(SyncOp::new(self.lend(), true)).await;
            match result {
                Ok(_) => return Ok(()),
                Err(e) if lacks_worker(&e) => break,
                Err(e) => retries.pause(e).await?,
            }
        }
        Ok(self.blocking(|fd| retry_on_intr(|| fdatasync(fd))).await??)
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes.load(Relaxed), ..self.geometry }
    }

    fn read(&self, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        self.read_with(Urgency::default(), offset, len)
    }

    #[expect(clippy::manual_async_fn, reason = "the arguments of an async fn take room in its future twice")]
    fn read_with(&self, urgency: Urgency, offset: u64, len: usize) -> impl Future<Output = Result<Bytes, DeviceError>> {
        async move {
            self.check(Operation::Read, offset, len as u64)?;
            let result = match (!self.takes_threads()).then(|| self.lend_at_once(len)).flatten() {
                // The buffer is allocated only now: a request that waits takes no memory.
                Some(lent) => match read_once(lent, offset, BufMut::with_len(len), 0).await {
                    (Ok(read), buf) if read == len => Ok(buf.freeze()),
                    (other, buf) => Box::pin(self.read_on(offset, buf, other)).await,
                },
                None => Box::pin(self.read_waiting(urgency, offset, len)).await,
            };
            result.map_err(|e| DeviceError::from_io(e, Operation::Read, offset, len as u64))
        }
    }

    #[expect(clippy::manual_async_fn, reason = "the arguments of an async fn take room in its future twice")]
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), DeviceError>> {
        async move {
            let len = data.len();
            self.check_writable(Operation::Write, offset, len as u64)?;
            let lent = (len > 0 && !self.takes_threads()).then(|| self.lend_at_once(len)).flatten();
            let result = match lent {
                Some(lent) => match write_once(lent, offset, self.aligned(data)).await {
                    (Ok(written), _) if written == len => Ok(()),
                    (other, rest) => Box::pin(self.write_on(offset, rest, other)).await,
                },
                None => Box::pin(self.write_waiting(offset, data)).await,
            };
            result.map_err(|e| DeviceError::from_io(e, Operation::Write, offset, len as u64))
        }
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        if self.read_only {
            return Ok(());
        }
        self.under_way.flushes.run(async || self.flush_once().await).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Discard, offset, len)?;
        let medium = self.medium;
        let result = self.blocking(move |fd| space::discard(fd, medium, offset, len)).await;
        let result = result.map_err(|e| DeviceError::from_io(e, Operation::Discard, offset, len))?;
        result.map_err(|e| space::device_error(e, Operation::Discard, offset, len))
    }

    async fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check_writable(Operation::Reserve, offset, len)?;
        let medium = self.medium;
        let result = self.blocking(move |fd| space::reserve(fd, medium, offset, len)).await;
        let result = result.map_err(|e| DeviceError::from_io(e, Operation::Reserve, offset, len))?;
        result.map_err(|e| space::device_error(e, Operation::Reserve, offset, len))
    }

    /// A file becomes sparse there; a block device may have become larger.
    async fn extend(&self, size_bytes: u64) -> Result<(), DeviceError> {
        let has = self.geometry().size_bytes;
        if size_bytes <= has {
            return Ok(());
        }
        self.check_writable(Operation::Reserve, has, 0)?;
        let medium = self.medium;
        let fail = |e| DeviceError::from_io(e, Operation::Reserve, has, size_bytes - has);
        let now = self.blocking(move |fd| space::extend(fd, medium, size_bytes)).await.map_err(fail)?;
        let now = now.map_err(|e| space::device_error(e, Operation::Reserve, has, size_bytes - has))?;
        self.size_bytes.fetch_max(now, Relaxed);
        match now >= size_bytes {
            true => Ok(()),
            false => Err(DeviceError::new(ErrorKind::Unsupported, Operation::Reserve, has, size_bytes - has)),
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.check_writable(Operation::WriteZeroes, offset, len)?;
        let result = self.blocking(move |fd| space::write_zeroes(fd, offset, len, may_unmap)).await;
        let result = result.map_err(|e| DeviceError::from_io(e, Operation::WriteZeroes, offset, len))?;
        result.map_err(|e| space::device_error(e, Operation::WriteZeroes, offset, len))
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.check(Operation::Allocation, offset, len)?;
        if self.medium == Medium::Block {
            return Ok(vec![Allocation { len, hole: false }]);
        }
        let runs = self.blocking(move |fd| space::allocation(fd, offset, len)).await;
        runs.map_err(|e| DeviceError::from_io(e, Operation::Allocation, offset, len))
    }
}

/// Requests the rest of a read into `buf`, after `done` bytes, once.
fn read_once(
    lent: Lent,
    offset: u64,
    buf: BufMut,
    done: usize,
) -> impl Future<Output = (io::Result<usize>, BufMut)> + use<> {
    let request = submit(ReadAt::new(lent, offset + done as u64, IoBuffer::new(buf, done)));
    request.map(|BufResult(result, op)| (result, op.into_inner().into_buf()))
}

/// Requests a write once.
fn write_once(lent: Lent, offset: u64, data: Bytes) -> impl Future<Output = (io::Result<usize>, Bytes)> + use<> {
    submit(WriteAt::new(lent, offset, data)).map(|BufResult(result, op)| (result, op.into_inner()))
}

/// Counts how often a request was repeated.
struct Retries {
    left: u32,
}

impl Retries {
    fn new() -> Self {
        Self { left: RETRIES_MAX }
    }

    /// Waits a little if `error` is temporary; otherwise, or after too many retries, returns it.
    #[cold]
    async fn pause(&mut self, error: io::Error) -> io::Result<()> {
        let passing = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        if !passing || self.left == 0 {
            return Err(error);
        }
        self.left -= 1;
        compio::time::sleep(RETRY_PAUSE).await;
        Ok(())
    }
}

nitro_port::plain_origin!(FileDevice);
