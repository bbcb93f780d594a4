//! A volume as a device for any number of threads. One thread of its own has the volume and makes its requests.

use crate::bill::{Bill, Prices};
use crate::counters::{S3Counters, S3Metrics};
use crate::error::{S3Error, StoreError};
use crate::format::{Header, MANIFEST_BYTES_MAX, SNAPSHOTS_MAX, Segment, Snapshot};
use crate::map::Map;
use crate::store::Store;
use crate::volume::{Options, Volume};
use bytes::Bytes;
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, FutureExt as _, LocalBoxFuture, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use nitro_port::{Allocation, Clock, Device, DeviceError, ErrorKind, Geometry, Operation};
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A device that is dropped waits so long for its requests.
const LEAVE: Duration = Duration::from_secs(5);
/// RAM of a search for what is not needed any more: of each snapshot, the runs and the segments' names, and one segment.
const SEARCH_BYTES_MAX: u64 = SNAPSHOTS_MAX as u64 * (MANIFEST_BYTES_MAX + Segment::BYTES_MAX);
/// Who changes a note waits so long.
const NOTE_MAX: Duration = Duration::from_secs(20);

enum Op {
    Read { offset: u64, len: usize },
    Write { offset: u64, data: Bytes },
    Flush,
    Zero { offset: u64, len: u64 },
    Discard { offset: u64, len: u64 },
    Allocation { offset: u64, len: u64 },
    Note(usize),
    SetNote(usize, Bytes),
    Snapshots,
    Change(Change),
}

/// A change of a volume that is a generation of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// See [`Volume::snapshot`].
    Snapshot(String),
    /// See [`Volume::delete_snapshot`].
    DeleteSnapshot(String),
    /// See [`Volume::grow`]; the size in bytes.
    Grow(u64),
}

enum Answer {
    Done,
    Data(Bytes),
    Map(Vec<Allocation>),
    Snapshots(Vec<Snapshot>),
}

type Reply = oneshot::Sender<Result<Answer, S3Error>>;

struct Job {
    op: Op,
    reply: Reply,
}

/// Requests to a volume; see [`serve`].
pub struct Jobs(mpsc::UnboundedReceiver<Job>);

/// A volume in a bucket; clones are the same one.
#[derive(Clone)]
pub struct S3Disk {
    jobs: mpsc::UnboundedSender<Job>,
    header: Header,
    is_read_only: bool,
    metrics: Arc<S3Metrics>,
    changed_ns: Arc<AtomicU64>,
    size_bytes: Arc<AtomicU64>,
    ram_bytes: u64,
    opened: Instant,
}

impl S3Disk {
    /// The device of a volume, and the requests that [`serve`] is to carry out.
    pub fn new<S: Store, C: Clock>(volume: &Volume<S, C>, is_read_only: bool) -> (Self, Jobs) {
        let (jobs, received) = mpsc::unbounded();
        let (header, Options { buffer_bytes, puts_max, .. }) = (volume.header(), *volume.options());
        // An object is assembled, signed and sent from one buffer.
        let puts_bytes = puts_max as u64 * u64::from(header.chunk_bytes);
        let ram_bytes = buffer_bytes + puts_bytes + SEARCH_BYTES_MAX;
        let size_bytes = Arc::new(AtomicU64::new(header.size_bytes));
        let (metrics, changed_ns) = (volume.metrics(), volume.changed_ns());
        (
            Self { jobs, header, is_read_only, metrics, changed_ns, size_bytes, ram_bytes, opened: Instant::now() },
            Jobs(received),
        )
    }

    /// The volume's identity, its size, and that of its objects.
    #[must_use]
    pub fn header(&self) -> Header {
        Header { size_bytes: self.size_bytes.load(Ordering::SeqCst), ..self.header }
    }

    /// The snapshots, in the order in which they were made.
    ///
    /// # Errors
    /// The volume's thread has ended.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, S3Error> {
        match self.ask(Op::Snapshots).await? {
            Answer::Snapshots(all) => Ok(all),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes or deletes a snapshot, or grows.
    ///
    /// # Errors
    /// It cannot be, another server has taken the volume over, or the store refuses.
    pub async fn make_change(&self, change: Change) -> Result<(), S3Error> {
        if self.is_read_only {
            return Err(S3Error::Invalid("it is open for reading only".to_owned()));
        }
        let grown = if let Change::Grow(size_bytes) = &change { Some(*size_bytes) } else { None };
        self.ask(Op::Change(change)).await?;
        if let Some(size_bytes) = grown {
            self.size_bytes.fetch_max(size_bytes, Ordering::SeqCst);
        }
        Ok(())
    }

    /// The time of the last change that is durable, in nanoseconds since 1970. It changes.
    #[must_use]
    pub fn changed_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.changed_ns)
    }

    /// What was asked of the store so far.
    #[must_use]
    pub fn counters(&self) -> S3Counters {
        self.metrics.snapshot()
    }

    /// What that costs.
    #[must_use]
    pub fn bill(&self) -> Bill {
        Bill::new(&self.counters(), self.opened.elapsed(), &Prices::AWS)
    }

    /// The RAM that it takes at most, in bytes, besides the data of requests.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        self.ram_bytes + Map::ram_bytes_max(&self.header())
    }

    async fn ask(&self, op: Op) -> Result<Answer, S3Error> {
        ask(&self.jobs, op).await
    }

    /// The texts beside the content. They keep the volume open, as the device does.
    #[must_use]
    pub fn notes(&self) -> S3Notes {
        S3Notes(self.jobs.clone())
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        DeviceError::check(&self.geometry(), operation, offset, len)?;
        let is_refused = self.is_read_only && operation != Operation::Read && operation != Operation::Allocation;
        if is_refused { Err(DeviceError::new(ErrorKind::ReadOnly, operation, offset, len)) } else { Ok(()) }
    }

    /// Makes a change.
    async fn change(&self, operation: Operation, offset: u64, len: u64, op: Op) -> Result<(), DeviceError> {
        self.check(operation, offset, len)?;
        if len == 0 {
            return Ok(());
        }
        self.ask(op).await.map(drop).map_err(|e| failed(&e, operation, offset, len))
    }
}

async fn ask(jobs: &mpsc::UnboundedSender<Job>, op: Op) -> Result<Answer, S3Error> {
    let (reply, answer) = oneshot::channel();
    // If its thread has ended, nobody answers.
    drop(jobs.unbounded_send(Job { op, reply }));
    answer.await.unwrap_or(Err(S3Error::Ended))
}

/// Texts beside the content of a volume, of which it has [`NOTES`](crate::NOTES).
#[derive(Clone)]
pub struct S3Notes(mpsc::UnboundedSender<Job>);

impl S3Notes {
    /// A text; empty: there is none.
    ///
    /// # Errors
    /// The volume's thread has ended.
    pub async fn get(&self, number: usize) -> Result<Bytes, S3Error> {
        match ask(&self.0, Op::Note(number)).await? {
            Answer::Data(text) => Ok(text),
            _ => Ok(Bytes::new()),
        }
    }

    /// Changes a text, durably. It may be changed although there is an error.
    ///
    /// # Errors
    /// Another server has taken the volume over, or the store refuses, or has not answered for 20 s.
    pub async fn set(&self, number: usize, text: Bytes) -> Result<(), S3Error> {
        ask(&self.0, Op::SetNote(number, text)).await.map(drop)
    }
}

fn failed(error: &S3Error, operation: Operation, offset: u64, len: u64) -> DeviceError {
    DeviceError::from_io(io::Error::other(error.to_string()), operation, offset, len)
}

impl Device for S3Disk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes.load(Ordering::SeqCst),
            block_bytes: Header::BLOCK_BYTES as u32,
            preferred_bytes: 64 << 10,
            rotational: false,
        }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.check(Operation::Read, offset, len as u64)?;
        if len == 0 {
            return Ok(Bytes::new());
        }
        match self.ask(Op::Read { offset, len }).await {
            Ok(Answer::Data(data)) => Ok(data),
            Ok(_) => Err(DeviceError::new(ErrorKind::Io, Operation::Read, offset, len as u64)),
            Err(error) => Err(failed(&error, Operation::Read, offset, len as u64)),
        }
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let len = data.len() as u64;
        self.change(Operation::Write, offset, len, Op::Write { offset, data }).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        if self.is_read_only {
            return Ok(());
        }
        self.ask(Op::Flush).await.map(drop).map_err(|e| failed(&e, Operation::Flush, 0, 0))
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.change(Operation::Discard, offset, len, Op::Discard { offset, len }).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        self.change(Operation::WriteZeroes, offset, len, Op::Zero { offset, len }).await
    }

    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, DeviceError> {
        self.check(Operation::Allocation, offset, len)?;
        match self.ask(Op::Allocation { offset, len }).await {
            Ok(Answer::Map(map)) => Ok(map),
            Ok(_) => Ok(vec![Allocation { len, hole: false }]),
            Err(error) => Err(failed(&error, Operation::Allocation, offset, len)),
        }
    }
}

// What was not flushed is in RAM.
nitro_port::plain_origin!(S3Disk, keeps_writes: |_| false, unit_bytes: |disk| Some(disk.header.chunk_bytes));

/// Carries out the requests to a volume until its device is dropped.
pub async fn serve<S: Store, C: Clock>(volume: &Volume<S, C>, clock: &C, is_read_only: bool, jobs: Jobs) {
    let Jobs(mut received) = jobs;
    let mut running: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
    let background = async {
        if !is_read_only {
            volume.run().await;
        }
        std::future::pending::<()>().await;
    };
    let mut background = pin!(background);
    let mut is_closed = false;
    {
        let until_closed = poll_fn(|context| {
            while !is_closed {
                match received.poll_next_unpin(context) {
                    Poll::Ready(Some(job)) => running.push(carry_out(volume, clock, job).boxed_local()),
                    Poll::Ready(None) => is_closed = true,
                    Poll::Pending => break,
                }
            }
            while let Poll::Ready(Some(())) = running.poll_next_unpin(context) {}
            let _ = background.as_mut().poll(context);
            if is_closed { Poll::Ready(()) } else { Poll::Pending }
        });
        until_closed.await;
    }
    let rest = poll_fn(|context| {
        let _ = background.as_mut().poll(context);
        while let Poll::Ready(Some(())) = running.poll_next_unpin(context) {}
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    select(pin!(rest), pin!(clock.sleep(LEAVE))).await;
}

async fn carry_out<S: Store, C: Clock>(volume: &Volume<S, C>, clock: &C, job: Job) {
    let Job { op, mut reply } = job;
    let answer = match op {
        Op::Read { offset, len } => {
            // Nobody may wait for it any more.
            match select(pin!(volume.read(offset, len)), reply.cancellation()).await {
                Either::Left((read, _)) => read.map(Answer::Data),
                Either::Right(_) => return,
            }
        }
        Op::Write { offset, data } => volume.write(offset, data).await.map(|()| Answer::Done),
        Op::Flush => volume.flush().await.map(|()| Answer::Done),
        Op::Zero { offset, len } => volume.zero(offset, len).await.map(|()| Answer::Done),
        Op::Discard { offset, len } => volume.discard(offset, len).map(|()| Answer::Done),
        Op::Allocation { offset, len } => Ok(Answer::Map(volume.allocation(offset, len))),
        Op::Snapshots => Ok(Answer::Snapshots(volume.snapshots())),
        Op::Change(change) => {
            let changed = match change {
                Change::Snapshot(name) => volume.snapshot(&name).boxed_local().await,
                Change::DeleteSnapshot(name) => volume.delete_snapshot(&name).boxed_local().await,
                Change::Grow(size_bytes) => volume.grow(size_bytes).boxed_local().await,
            };
            changed.map(|()| Answer::Done)
        }
        Op::Note(number) => Ok(Answer::Data(volume.note(number))),
        Op::SetNote(number, text) => {
            match select(pin!(volume.set_note(number, text)), pin!(clock.sleep(NOTE_MAX))).await {
                Either::Left((set, _)) => set.map(|()| Answer::Done),
                Either::Right(_) => {
                    let why = format!("the store has not answered for {} s", NOTE_MAX.as_secs());
                    Err(StoreError::Unsure(why).into())
                }
            }
        }
    };
    drop(reply.send(answer));
}
