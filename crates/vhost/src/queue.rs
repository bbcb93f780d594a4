//! A running queue: it takes requests and completes them in the order in which they are done.

use crate::chain::{Span, Spans, copy_from, copy_into, skip, total};
use crate::control::Control;
use crate::error::Fault;
use crate::host::Host;
use crate::inflight::Unflushed;
use crate::memory::Memory;
use crate::request::{Action, ID_BYTES, Range, Request, Status};
use crate::ring::Ring;
use crate::wake::{Answer, Stop};
use futures_util::FutureExt as _;
use futures_util::future::{Either, LocalBoxFuture};
use nitro_frontend::{
    Disk, DiskError, DiskInfo, Pace, RequestMemory, Requester, Scatter, Share, Tasks, ZeroFlags, memory_bytes,
};
use nitro_port::buf::BufMut;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};
use vm_memory::{Bytes as _, GuestAddress};

/// Most bytes of a request that are read or written at a time.
const STEP_BYTES: u64 = 1 << 20;
/// Most rounds in one poll, so that other tasks run even if a guest always has requests.
const ROUNDS_MAX: usize = 16;

/// The state that the queues of a device share.
pub(crate) struct Shared<D> {
    pub(crate) disk: Arc<D>,
    pub(crate) requester: Requester,
    /// The identifier of the device, which `VIRTIO_BLK_T_GET_ID` returns.
    pub(crate) id: [u8; ID_BYTES],
    pub(crate) memory: Arc<RequestMemory>,
    /// The disk's size, which may change.
    pub(crate) size_bytes: Arc<AtomicU64>,
    /// Acknowledged writes may be lost: all I/O fails until the guest resets the device.
    pub(crate) has_lost: AtomicBool,
    /// Longest time for which a queue polls for requests before it waits for a kick.
    pub(crate) busy_poll_max: Duration,
}

/// The parts of a queue to be run.
pub(crate) struct Run<D> {
    pub(crate) shared: Arc<Shared<D>>,
    pub(crate) ring: Ring,
    /// Heads of requests that an earlier server had begun.
    pub(crate) under_way: Vec<u16>,
    pub(crate) index: usize,
    pub(crate) kick: Arc<OwnedFd>,
    pub(crate) call: Arc<Mutex<Option<Arc<OwnedFd>>>>,
    /// The guest has not accepted `VIRTIO_BLK_F_FLUSH`: every write is durable before it is acknowledged.
    pub(crate) always_durable: bool,
    pub(crate) unflushed: Arc<Unflushed>,
    pub(crate) control: Arc<Control>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) ending: Ending,
}

/// When it is dropped, tells the control thread that the queue has ended, and where it is to continue, if that is
/// known.
#[derive(Default)]
pub(crate) struct Ending(pub(crate) Arc<Answer<Option<u16>>>, Cell<Option<u16>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.give(self.1.get());
    }
}

struct Session<D> {
    shared: Arc<Shared<D>>,
    memory: Arc<Memory>,
    info: RefCell<DiskInfo>,
    ring: RefCell<Ring>,
    unflushed: Arc<Unflushed>,
    always_durable: bool,
    share: Share,
    pace: Pace,
    /// Requests were completed since the last check whether the guest needs a notification.
    has_completed: Cell<bool>,
    must_ring: Cell<bool>,
    is_ringing: Cell<bool>,
    fault: Cell<Option<Fault>>,
}

/// Runs a queue until it is stopped or its rings are found invalid.
pub(crate) async fn run<D: Disk, H: Host>(host: H, run: Run<D>) {
    let Run { shared, ring, under_way, index, kick, call, always_durable, unflushed, control, stop, ending } = run;
    let share = if index == 0 { Share::new(&shared.memory) } else { Share::further(&shared.memory) };
    let session = Session {
        memory: Arc::clone(ring.memory()),
        info: RefCell::new(shared.disk.info()),
        shared,
        ring: RefCell::new(ring),
        unflushed,
        always_durable,
        share,
        pace: Pace::default(),
        has_completed: Cell::new(false),
        must_ring: Cell::new(false),
        is_ringing: Cell::new(false),
        fault: Cell::new(None),
    };
    let tasks = Tasks::default();
    let reader = take_requests(&session, &host, &kick, under_way, |begun| {
        session.pace.note_begun();
        tasks.start(execute(&session, begun));
    });
    drive(&session, reader, &tasks, ring_bell(&session, &host, &call), &stop).await;
    match session.fault.get() {
        // The control thread reports it.
        _ if session.memory.is_lost() => control.cut(),
        Some(fault) => tracing::warn!(queue = index, "a guest's queue is stopped: {fault}"),
        None => {}
    }
    ending.1.set(Some(session.ring.borrow().base()));
}

/// Polls the parts of a session in turn, as far as its pace allows in one poll.
async fn drive<D>(
    session: &Session<D>,
    reader: impl Future<Output = Result<Infallible, Fault>>,
    tasks: &Tasks<impl Future<Output = ()>>,
    bell: impl Future<Output = Infallible>,
    stop: &Stop,
) {
    let mut reader = pin!(Some(reader));
    let mut bell = pin!(bell);
    poll_fn(|context| {
        session.pace.renew();
        if stop.poll(context) {
            reader.set(None);
        }
        if stop.is_cut() {
            return Poll::Ready(());
        }
        for _ in 0..ROUNDS_MAX {
            if let Some(running) = reader.as_mut().as_pin_mut()
                && let Poll::Ready(Err(fault)) = running.poll(context)
            {
                session.fault.set(Some(fault));
            }
            let mut ended = tasks.poll_new(context);
            session.pace.note_ended(ended);
            while !tasks.are_done() && session.pace.may_end() && tasks.poll_one(context) {
                session.pace.note_ended(1);
                ended += 1;
            }
            if session.fault.get().is_some() {
                reader.set(None);
            }
            if ended == 0 {
                break;
            }
        }
        session.notify();
        if session.memory.is_lost() {
            return Poll::Ready(());
        }
        let Poll::Pending = bell.as_mut().poll(context);
        let is_told = !session.must_ring.get() && !session.is_ringing.get();
        if reader.is_none() && tasks.are_done() && is_told {
            return Poll::Ready(());
        }
        if session.pace.has_put_off() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// Notifies the guest (call eventfd) each time `must_ring` is set.
async fn ring_bell<D, H: Host>(session: &Session<D>, host: &H, call: &Mutex<Option<Arc<OwnedFd>>>) -> Infallible {
    loop {
        poll_fn(|_| if session.must_ring.take() { Poll::Ready(()) } else { Poll::Pending }).await;
        let event = call.lock().clone();
        if let Some(event) = event {
            session.is_ringing.set(true);
            if let Err(error) = host.ring(&event).await {
                tracing::debug!(%error, "a guest cannot be notified");
            }
            session.is_ringing.set(false);
        }
    }
}

/// A request that cannot be answered at once.
struct Begun {
    head: u16,
    request: Request,
    cost: u64,
}

/// Takes requests until a fault occurs. Passes each request that cannot be answered at once to `start`.
async fn take_requests<D: Disk, H: Host>(
    session: &Session<D>,
    host: &H,
    kick: &Arc<OwnedFd>,
    under_way: Vec<u16>,
    start: impl Fn(Begun),
) -> Result<Infallible, Fault> {
    for head in under_way {
        session.turn().await;
        begin(session, head, &start).await?;
    }
    session.ring.borrow_mut().disarm()?;
    let mut polling = BusyPoll::new(session.shared.busy_poll_max);
    loop {
        session.turn().await;
        let head = session.ring.borrow_mut().pop()?;
        match head {
            Some(head) => begin(session, head, &start).await?,
            None if polling.finds_request(session).await? => {}
            None => {
                while !session.ring.borrow_mut().arm()? {
                    // Without the eventfd there are no more requests: the queue waits to be stopped.
                    if host.wait(kick).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
                session.ring.borrow_mut().disarm()?;
            }
        }
    }
}

/// Polls for requests for a time before the queue waits for a kick. The time doubles after a success and halves after a
/// failure, between a sixteenth of `time_max` and `time_max`.
struct BusyPoll {
    time_max: Duration,
    time: Duration,
}

impl BusyPoll {
    fn new(time_max: Duration) -> Self {
        Self { time_max, time: time_max }
    }

    /// Polls; returns whether a request has arrived.
    async fn finds_request<D>(&mut self, session: &Session<D>) -> Result<bool, Fault> {
        if self.time_max.is_zero() {
            return Ok(false);
        }
        let until = Instant::now() + self.time;
        loop {
            if session.ring.borrow().has_more()? {
                self.time = (self.time * 2).clamp(self.time_max / 16, self.time_max);
                return Ok(true);
            }
            if Instant::now() >= until {
                // The minimum is enough to detect that polling succeeds again.
                self.time = (self.time / 2).max(self.time_max / 16);
                return Ok(false);
            }
            nitro_port::yielding::yield_now().await;
        }
    }
}

async fn begin<D: Disk>(session: &Session<D>, head: u16, start: &impl Fn(Begun)) -> Result<(), Fault> {
    let chain = session.ring.borrow().chain(head)?;
    let request = {
        let mut info = session.info.borrow_mut();
        info.size_bytes = session.shared.size_bytes.load(Ordering::Relaxed);
        Request::parse(&session.memory, chain, &info)?
    };
    if session.memory.is_lost() {
        return Err(Fault::Lost);
    }
    let status = request.status;
    let shared = &session.shared;
    match &request.action {
        Action::Refuse(refusal) => return session.answer_at_once(head, status, *refusal, 0),
        Action::Identify { into } => {
            let len = total(into).min(ID_BYTES as u64) as usize;
            copy_into(&session.memory, into, 0, &shared.id[..len])?;
            return session.answer_at_once(head, status, Status::Ok, len as u32);
        }
        _ if shared.has_lost.load(Ordering::SeqCst) => {
            return session.answer_at_once(head, status, Status::IoError, 0);
        }
        Action::Read { offset, into } => {
            let len = total(into);
            if len <= STEP_BYTES
                && let Some(result) = shared.disk.try_read(shared.requester, *offset, len as u32)
            {
                let result = match result {
                    Ok(pieces) => put_pieces(&session.memory, into, len, &pieces)?,
                    Err(error) => Err(error),
                };
                let written = if result.is_ok() { len as u32 } else { 0 };
                return session.answer_at_once(head, status, result.into(), written);
            }
        }
        _ => {}
    }
    let cost = cost(&request.action, session.info.borrow().block_preferred_bytes);
    if cost > 0 {
        session.share.take(cost).await;
    }
    start(Begun { head, request, cost });
    Ok(())
}

/// Bytes of memory that a request takes: those of the units of the disk that one of its steps touches.
fn cost(action: &Action, unit: u32) -> u64 {
    let (offset, len) = match action {
        Action::Read { offset, into } => (*offset, total(into)),
        Action::Write { offset, from } => (*offset, total(from)),
        _ => return 0,
    };
    memory_bytes(offset, len.min(STEP_BYTES), unit)
}

/// Runs one request and completes it. Requests other than reads run in a boxed future: unboxed, the largest of them
/// would determine the size of this future, also for reads.
fn execute<D: Disk>(session: &Session<D>, begun: Begun) -> impl Future<Output = ()> {
    let Begun { head, request: Request { action, status }, cost } = begun;
    match action {
        Action::Read { offset, into } => Either::Left(read(session, head, offset, into, status, cost)),
        action => Either::Right(change(session, head, action, status, cost)),
    }
}

/// Reads into the guest's memory.
async fn read<D: Disk>(session: &Session<D>, head: u16, mut offset: u64, into: Spans, status: GuestAddress, cost: u64) {
    let len = total(&into);
    let mut left = into;
    let mut result = Ok(());
    while result.is_ok() && !left.is_empty() {
        let step = total(&left).min(STEP_BYTES) as u32;
        let mut buffers = Buffers { memory: &session.memory, spans: &left, len: step, fault: None };
        let read = session.shared.disk.read_into(session.shared.requester, offset, &mut buffers).await;
        result = match (buffers.fault, read) {
            (None, Ok(true)) => Ok(()),
            (_, Err(error)) => Err(error),
            _ => Err(DiskError::Io),
        };
        offset += u64::from(step);
        skip(&mut left, step);
    }
    session.end(head, status, result, len, cost);
}

/// Runs a request other than a read.
fn change<D: Disk>(
    session: &Session<D>,
    head: u16,
    action: Action,
    status: GuestAddress,
    cost: u64,
) -> LocalBoxFuture<'_, ()> {
    async move {
        let (disk, from) = (&*session.shared.disk, session.shared.requester);
        let fua = session.always_durable;
        let result = match action {
            Action::Write { offset, from } => write(session, offset, from).await,
            Action::Flush => {
                let mark = session.unflushed.mark();
                let flushed = disk.flush(from).await;
                if flushed.is_ok() && session.unflushed.flushed(mark).is_err() {
                    session.fault.set(Some(Fault::Inflight));
                }
                flushed
            }
            Action::Discard(ranges) => {
                let mut result = Ok(());
                for Range { offset, len, .. } in ranges {
                    result = match result {
                        Ok(()) => disk.trim(from, offset, len, fua).await,
                        error => error,
                    };
                }
                session.changed(result)
            }
            Action::WriteZeroes(ranges) => {
                let mut result = Ok(());
                for Range { offset, len, may_unmap } in ranges {
                    let flags = ZeroFlags { fua, no_hole: !may_unmap, fast: false };
                    result = match result {
                        Ok(()) => disk.write_zeroes(from, offset, len, flags).await,
                        error => error,
                    };
                }
                session.changed(result)
            }
            // Not reached: `execute` runs reads, and `begin` has answered the others.
            Action::Read { .. } | Action::Identify { .. } | Action::Refuse(_) => Err(DiskError::Unsupported),
        };
        session.end(head, status, result, 0, cost);
    }
    .boxed_local()
}

/// Writes data of the guest's memory. Each byte is read only once, since the guest may change it meanwhile.
async fn write<D: Disk>(session: &Session<D>, mut offset: u64, from: Spans) -> Result<(), DiskError> {
    let (mut at, len) = (0, total(&from));
    while at < len {
        let step = (len - at).min(STEP_BYTES);
        let mut data = BufMut::with_len(step as usize);
        copy_from(&session.memory, &from, at, &mut data).map_err(|_| DiskError::Io)?;
        if session.memory.is_lost() {
            return Err(DiskError::Io);
        }
        let requester = session.shared.requester;
        session.shared.disk.write(requester, offset, data.freeze(), session.always_durable).await?;
        at += step;
        offset += step;
    }
    session.changed(Ok(()))
}

impl<D: Disk> Session<D> {
    /// Records that a change is about to be acknowledged, unless it is durable or survives the end of the process.
    fn changed(&self, result: Result<(), DiskError>) -> Result<(), DiskError> {
        if result.is_ok() && !self.always_durable && !self.shared.disk.keeps_writes() {
            self.unflushed.note().map_err(|_| DiskError::Io)?;
        }
        result
    }
}

impl<D> Session<D> {
    /// Waits until the queue's pace permits another request, in this poll or a later one.
    async fn turn(&self) {
        poll_fn(|_| if self.pace.may_begin() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    fn answer_at_once(&self, head: u16, at: GuestAddress, status: Status, written: u32) -> Result<(), Fault> {
        self.pace.note_answered();
        self.give_back(head, at, status, written)
    }

    /// Completes a request that `start` began; `len` bytes were read, if it succeeded.
    fn end(&self, head: u16, at: GuestAddress, result: Result<(), DiskError>, len: u64, cost: u64) {
        if cost > 0 {
            self.share.give(cost);
        }
        let written = if result.is_ok() { u32::try_from(len).unwrap_or(u32::MAX - 1) } else { 0 };
        if let Err(fault) = self.give_back(head, at, result.into(), written) {
            self.fault.set(Some(fault));
        }
    }

    fn give_back(&self, head: u16, at: GuestAddress, status: Status, written: u32) -> Result<(), Fault> {
        self.memory.guest().write_slice(&[status as u8], at).map_err(|_| Fault::Address)?;
        self.has_completed.set(true);
        self.ring.borrow_mut().complete(head, written + 1)
    }

    /// Checks whether the guest needs a notification of completed requests.
    fn notify(&self) {
        if self.has_completed.take() {
            match self.ring.borrow_mut().must_ring() {
                Ok(must_ring) => self.must_ring.set(self.must_ring.get() || must_ring),
                Err(fault) => self.fault.set(Some(fault)),
            }
        }
    }
}

/// Copies read data into the guest's memory, if they have the requested length. The inner error: they do not.
fn put_pieces(
    memory: &Memory,
    into: &[Span],
    len: u64,
    pieces: &[bytes::Bytes],
) -> Result<Result<(), DiskError>, Fault> {
    if pieces.iter().map(|piece| piece.len() as u64).sum::<u64>() != len {
        tracing::error!(len, "the disk returned the wrong number of bytes");
        return Ok(Err(DiskError::Io));
    }
    let mut at = 0;
    for piece in pieces {
        copy_into(memory, into, at, piece)?;
        at += piece.len() as u64;
    }
    Ok(Ok(()))
}

/// The guest's memory into which a step of a read is copied.
struct Buffers<'a> {
    memory: &'a Memory,
    spans: &'a [Span],
    len: u32,
    fault: Option<Fault>,
}

impl Scatter for Buffers<'_> {
    fn len(&self) -> u32 {
        self.len
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Err(fault) = copy_into(self.memory, self.spans, at as u64, bytes) {
            self.fault = Some(fault);
        }
    }
}
