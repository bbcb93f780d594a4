//! What the NBD layer itself costs a request: a client that keeps `DEPTH` requests in flight over a stream that costs
//! next to nothing. Run with `cargo bench -p nitro-nbd`.

use bytes::Bytes;
use futures_executor::block_on;
use nitro_frontend::{Disk, DiskError, DiskInfo, DiskName, Disks, Opened, Pieces, Requester, Run, StatusOf, ZeroFlags};
use nitro_nbd::transport::{ReadHalf, WriteHalf};
use nitro_nbd::{ServerOptions, serve};
use nitro_port::buf::BufMut;
use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Instant;

const REQUESTS: u64 = 2_000_000;
const DEPTH: u64 = 64;
const REQUEST_BYTES: u64 = 8192;

/// Answers everything from one piece of memory, reads at once or after a turn of the executor.
struct Ready {
    data: Bytes,
    inline: bool,
}

impl Disk for Ready {
    fn info(&self) -> DiskInfo {
        DiskInfo::new(1 << 40)
    }

    fn try_read(&self, _: Requester, _: u64, len: u32) -> Option<Result<Pieces, DiskError>> {
        self.inline.then(|| Ok(Pieces::from_iter([self.data.slice(..len as usize)])))
    }

    async fn read(&self, _: Requester, _: u64, len: u32) -> Result<Pieces, DiskError> {
        let mut first = true;
        poll_fn(|context| {
            if std::mem::take(&mut first) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        Ok(Pieces::from_iter([self.data.slice(..len as usize)]))
    }

    async fn write(&self, _: Requester, _: u64, _: Bytes, _: bool) -> Result<(), DiskError> {
        Ok(())
    }

    async fn flush(&self, _: Requester) -> Result<(), DiskError> {
        Ok(())
    }

    async fn trim(&self, _: Requester, _: u64, _: u32, _: bool) -> Result<(), DiskError> {
        Ok(())
    }

    async fn write_zeroes(&self, _: Requester, _: u64, _: u32, _: ZeroFlags) -> Result<(), DiskError> {
        Ok(())
    }

    async fn cache(&self, _: Requester, _: u64, _: u32) -> Result<(), DiskError> {
        Ok(())
    }

    async fn status(&self, _: StatusOf, _: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        Ok(vec![Run { len: len.into(), ..Run::default() }])
    }
}

struct One(Arc<Ready>);

impl Disks for One {
    type Disk = Ready;

    fn list(&self) -> Vec<DiskName> {
        vec![DiskName { name: "disk".into(), description: String::new() }]
    }

    fn open(&self, _: &str) -> Option<Opened<Ready>> {
        Some(Opened { disk: Arc::clone(&self.0), requester: Requester::default() })
    }
}

/// A client that sends a request for each reply it gets, without looking at either.
struct Client {
    handshake: RefCell<Vec<u8>>,
    message: Vec<u8>,
    sent: Cell<u64>,
    replied_bytes: Cell<u64>,
    reply_bytes: u64,
    writes: Cell<u64>,
    waker: RefCell<Option<Waker>>,
}

impl Client {
    fn new(command: u16) -> Self {
        let mut handshake = vec![0, 0, 0, 3];
        handshake.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
        let mut message = 0x2560_9513_u32.to_be_bytes().to_vec();
        message.extend(u32::from(command).to_be_bytes());
        message.extend([0; 16]);
        message.extend((REQUEST_BYTES as u32).to_be_bytes());
        message.extend(vec![0; if command == 1 { REQUEST_BYTES as usize } else { 0 }]);
        Self {
            handshake: RefCell::new(handshake),
            message,
            sent: Cell::new(0),
            replied_bytes: Cell::new(0),
            reply_bytes: 16 + if command == 0 { REQUEST_BYTES } else { 0 },
            writes: Cell::new(0),
            waker: RefCell::default(),
        }
    }

    fn fill(&self, into: &mut [u8]) -> usize {
        let mut handshake = self.handshake.borrow_mut();
        if !handshake.is_empty() {
            into[..handshake.len()].copy_from_slice(&handshake);
            return std::mem::take(&mut *handshake).len();
        }
        // Greeting and the reply to the option have 28 bytes.
        let replies = self.replied_bytes.get().saturating_sub(28) / self.reply_bytes;
        let room = (into.len() / self.message.len()) as u64;
        let count = (replies + DEPTH - self.sent.get()).min(REQUESTS - self.sent.get()).min(room) as usize;
        for place in into.chunks_exact_mut(self.message.len()).take(count) {
            place.copy_from_slice(&self.message);
        }
        self.sent.set(self.sent.get() + count as u64);
        count * self.message.len()
    }

    fn is_done(&self) -> bool {
        self.replied_bytes.get() >= 28 + REQUESTS * self.reply_bytes
    }
}

struct Half(Rc<Client>);

impl ReadHalf for Half {
    async fn read(&mut self, mut buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        let count = poll_fn(|context| {
            let count = self.0.fill(&mut buf[start..]);
            if count > 0 || self.0.is_done() {
                return Poll::Ready(count);
            }
            self.0.waker.replace(Some(context.waker().clone()));
            Poll::Pending
        });
        let count = count.await;
        (Ok(count), buf)
    }
}

impl WriteHalf for Half {
    async fn write_all(&mut self, mut pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        let bytes: usize = pieces.drain(..).map(|piece| piece.len()).sum();
        self.0.replied_bytes.set(self.0.replied_bytes.get() + bytes as u64);
        self.0.writes.set(self.0.writes.get() + 1);
        if let Some(waker) = self.0.waker.take() {
            waker.wake();
        }
        (Ok(()), pieces)
    }

    async fn shutdown(&mut self) {}
}

fn main() {
    for (name, command, inline) in [("reads at once", 0, true), ("reads that wait", 0, false), ("writes", 1, true)] {
        let client = Rc::new(Client::new(command));
        let exports = One(Arc::new(Ready { data: BufMut::zeroed(REQUEST_BYTES as usize).freeze(), inline }));
        let (reader, writer, options) = (Half(Rc::clone(&client)), Half(Rc::clone(&client)), ServerOptions::default());
        let began = Instant::now();
        let summary = block_on(serve(reader, writer, &exports, &options, pending())).expect("a well-behaved client");
        let nanoseconds = began.elapsed().as_nanos() as u64 / summary.requests;
        let per_write = summary.requests / client.writes.get();
        println!("{name}: {nanoseconds} ns a request, {per_write} replies a write");
    }
}
