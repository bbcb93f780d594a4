//! A whole connection in memory: the server, an export of [`EXPORT_BYTES`], a client that sends what it is given.

use bytes::Bytes;
use futures_executor::LocalPool;
use futures_util::future::join3;
use futures_util::task::LocalSpawnExt as _;
use nitro_frontend::{Disk, DiskError, DiskInfo, DiskName, Disks, Opened, Pieces, Requester, Run, StatusOf, ZeroFlags};
use nitro_nbd::transport::memory::{MemoryEnd, duplex};
use nitro_nbd::transport::{ReadHalf as _, WriteHalf as _};
use nitro_nbd::{ConnectionSummary, Limits, NbdError, ServerOptions, serve};
use nitro_port::buf::{BufMut, is_aligned};
use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

/// Size of the export.
pub const EXPORT_BYTES: usize = 20_000;
/// The export's name.
pub const EXPORT_NAME: &str = "disk";
/// Bytes on their way in each direction.
pub(crate) const STREAM_BYTES: usize = 16 << 10;

/// Small limits, so that short inputs reach them.
pub const LIMITS: Limits = Limits {
    option_bytes_max: 2048,
    options_max: 16,
    request_bytes_max: 64 << 10,
    drain_bytes_max: 64 << 10,
    in_flight_requests_max: 4,
    in_flight_bytes_max: 64 << 10,
};

/// The export's byte at an offset, before anything is written.
#[must_use]
pub fn pattern(offset: usize) -> u8 {
    (offset ^ (offset >> 8)) as u8
}

/// Connects, sends `bytes` in pieces, hangs up; `listen` gets what the server says. Gives how the server ended.
///
/// # Panics
/// If the server stands still.
pub fn converse(
    bytes: Vec<u8>,
    piece_bytes: usize,
    listen: impl FnMut(&[u8]) + 'static,
) -> Result<ConnectionSummary, NbdError> {
    let (ours, theirs) = duplex(STREAM_BYTES);
    let options = ServerOptions { limits: LIMITS, ..ServerOptions::default() };
    let exports = OneExport::new();
    let server = async move { serve(ours.reader, ours.writer, &exports, &options, pending()).await };
    talk(server, theirs, bytes, piece_bytes, listen)
}

/// Sends `bytes` in pieces to a server, and hangs up; `listen` gets what the server says. Gives what the server gives.
///
/// # Panics
/// If the server stands still.
pub(crate) fn talk<T: 'static>(
    server: impl Future<Output = T> + 'static,
    theirs: MemoryEnd,
    bytes: Vec<u8>,
    piece_bytes: usize,
    mut listen: impl FnMut(&[u8]) + 'static,
) -> T {
    let (mut reader, mut writer) = (theirs.reader, theirs.writer);
    let send = async move {
        for piece in bytes.chunks(piece_bytes.max(1)) {
            if writer.write_all(vec![Bytes::copy_from_slice(piece)]).await.0.is_err() {
                break;
            }
        }
        writer.shutdown().await;
    };
    let receive = async move {
        let mut buf = BufMut::with_len(4096);
        loop {
            let (result, back) = reader.read(buf, 0).await;
            buf = back;
            match result.expect("memory does not fail") {
                0 => break,
                len => listen(&buf[..len]),
            }
        }
    };
    let ended = Rc::new(RefCell::new(None));
    let slot = Rc::clone(&ended);
    let mut pool = LocalPool::new();
    let talking = async move { *slot.borrow_mut() = Some(join3(server, send, receive).await.0) };
    pool.spawner().spawn_local(talking).expect("the pool is there");
    pool.run_until_stalled();
    ended.take().expect("server and client wait for each other")
}

pub(crate) struct OneExport(Arc<MemoryExport>);

impl OneExport {
    pub(crate) fn new() -> Self {
        Self(Arc::new(MemoryExport(Mutex::new((0..EXPORT_BYTES).map(pattern).collect()))))
    }
}

impl OneExport {
    pub(crate) fn disk(&self) -> Arc<MemoryExport> {
        Arc::clone(&self.0)
    }
}

impl Disks for OneExport {
    type Disk = MemoryExport;

    fn list(&self) -> Vec<DiskName> {
        vec![DiskName { name: EXPORT_NAME.into(), description: self.0.info().description }]
    }

    fn open(&self, name: &str) -> Option<Opened<MemoryExport>> {
        let open = || Opened { disk: Arc::clone(&self.0), requester: Requester::default() };
        (name == EXPORT_NAME).then(open)
    }
}

/// Checks what a server promises its exports: ranges within them and not empty, payloads aligned.
pub(crate) struct MemoryExport(Mutex<Vec<u8>>);

impl MemoryExport {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("a panic ends the process")
    }

    /// Takes a few turns, so that commands overlap and end out of order.
    async fn turns(&self, offset: u64, len: u64) {
        assert!(len > 0 && offset + len <= EXPORT_BYTES as u64, "{offset}+{len} reaches the export");
        let mut left = offset % 5;
        poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn pieces(&self, offset: u64, len: u32) -> Pieces {
        self.bytes()[offset as usize..][..len as usize].chunks(3000).map(Bytes::copy_from_slice).collect()
    }
}

impl Disk for MemoryExport {
    fn info(&self) -> DiskInfo {
        DiskInfo { description: "in memory".into(), ..DiskInfo::new(EXPORT_BYTES as u64) }
    }

    fn try_read(&self, _: Requester, offset: u64, len: u32) -> Option<Result<Pieces, DiskError>> {
        offset.is_multiple_of(2).then(|| Ok(self.pieces(offset, len)))
    }

    async fn read(&self, _: Requester, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        self.turns(offset, len.into()).await;
        Ok(self.pieces(offset, len))
    }

    async fn write(&self, _: Requester, offset: u64, data: Bytes, _fua: bool) -> Result<(), DiskError> {
        assert!(is_aligned(&data), "payloads are page-aligned");
        self.turns(offset, data.len() as u64).await;
        self.bytes()[offset as usize..][..data.len()].copy_from_slice(&data);
        Ok(())
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        self.turns(3, 1).await;
        Ok(())
    }

    async fn trim(&self, _: Requester, offset: u64, len: u32, _fua: bool) -> Result<(), DiskError> {
        self.turns(offset, len.into()).await;
        Err(DiskError::Io)
    }

    async fn write_zeroes(&self, _: Requester, offset: u64, len: u32, flags: ZeroFlags) -> Result<(), DiskError> {
        self.turns(offset, len.into()).await;
        if flags.fast {
            return Err(DiskError::Unsupported);
        }
        self.bytes()[offset as usize..][..len as usize].fill(0);
        Ok(())
    }

    async fn cache(&self, _: Requester, offset: u64, len: u32) -> Result<(), DiskError> {
        self.turns(offset, len.into()).await;
        Ok(())
    }

    async fn status(&self, of: StatusOf, offset: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        self.turns(offset, len.into()).await;
        let run = if of == StatusOf::Allocation { 300 } else { 7000 };
        let count = u64::from(len).div_ceil(run);
        let flag = |n: u64, bit: u64| n & bit != 0;
        let told = |n| Run { len: run, hole: flag(n, 1), zero: flag(n, 2), cached: flag(n, 1), dirty: flag(n, 2) };
        Ok((0..count).map(told).collect())
    }
}
