//! One connection: a reader that takes requests in, the tasks that carry them out, and a writer that sends replies.
//!
//! They are parts of one future, which polls all of them again as long as one [changed](Connection::note_change) state
//! for which another may wait. Therefore they need no wakers among themselves.

use crate::transport::WriteHalf;
use crate::{Batch, Cost, Disk, OutQueue, Pace, RequestMemory, Requester, Share, Tasks, Turn};
use futures_util::future::FusedFuture;
use nitro_port::yielding::yield_now;
use std::cell::{Cell, RefCell, RefMut};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

/// Rounds in one poll, so that other tasks run even if a client is always ready.
const ROUNDS_MAX: usize = 16;

/// The state that the parts of a connection share, in any protocol.
#[derive(Debug)]
pub struct Connection {
    /// Its memory for requests.
    pub share: Share,
    /// How much is done in one poll.
    pub pace: Pace,
    /// The counters of the client.
    pub counts: Counts,
    queue: RefCell<OutQueue>,
    is_leaving: Cell<bool>,
    more_to_come: Cell<bool>,
    changed: Cell<bool>,
}

/// A number that grows.
#[derive(Debug, Default)]
pub struct Count(Cell<u64>);

impl Count {
    /// Adds to it.
    pub fn add(&self, more: u64) {
        self.0.set(self.0.get() + more);
    }
}

/// Counters of a client so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests.
    pub requests: Count,
    /// Bytes sent to the client.
    pub bytes_read: Count,
    /// Bytes received from the client.
    pub bytes_written: Count,
}

/// Counters of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Requests.
    pub requests: u64,
    /// Bytes sent to the client.
    pub bytes_read: u64,
    /// Bytes received from the client.
    pub bytes_written: u64,
}

/// What a protocol adds to its connections.
pub trait Protocol {
    /// The reason for the end of a connection without an error.
    type End;
    /// The error of a connection.
    type Error;

    /// The end of a connection that was told to stop.
    const STOPPED: Self::End;

    /// The common state of the connection.
    fn connection(&self) -> &Connection;

    /// Checks in each poll for requests to the connection, and registers to be woken for them. If it returns an end,
    /// nothing is read or sent any more.
    fn look(&self, _context: &Context<'_>, _is_reading: bool) -> Option<Self::End> {
        None
    }

    /// Notes that no requests will arrive any more; called once.
    fn left(&self) {}

    /// Notes that replies were sent and their requests are no longer in flight. Their memory has been released.
    fn sent(&self, settles: Cost);

    /// The end of a connection whose client took too long while others waited for its memory.
    fn overdue(&self, is_reading: bool) -> Self::Error;

    /// Replies could not be sent.
    fn unsent(&self, source: io::Error) -> Self::Error;
}

impl Connection {
    /// A connection with its share of `memory`.
    #[must_use]
    pub fn new(memory: &Arc<RequestMemory>) -> Self {
        Self {
            share: Share::new(memory),
            pace: Pace::default(),
            counts: Counts::default(),
            queue: RefCell::default(),
            is_leaving: Cell::new(false),
            more_to_come: Cell::new(true),
            changed: Cell::new(false),
        }
    }

    /// Notes a change for which a part may wait.
    pub fn note_change(&self) {
        self.changed.set(true);
    }

    /// Whether the client has disconnected, or has to: requests that need not be finished are cancelled.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// The queue to which parts of a reply are appended. It must not be held across an await.
    pub fn queue(&self) -> RefMut<'_, OutQueue> {
        self.queue.borrow_mut()
    }

    /// Ends a reply: when it is sent, `cost` is no longer in flight.
    pub fn end_reply(&self, cost: Cost) {
        self.queue().end_reply(cost);
        self.note_change();
    }

    /// Appends a reply by `put` and ends it.
    pub fn reply(&self, cost: Cost, put: impl FnOnce(&mut OutQueue)) {
        let mut queue = self.queue();
        put(&mut queue);
        queue.end_reply(cost);
        self.note_change();
    }

    fn work(&self) -> Work {
        let Counts { requests, bytes_read, bytes_written } = &self.counts;
        Work { requests: requests.0.get(), bytes_read: bytes_read.0.get(), bytes_written: bytes_written.0.get() }
    }

    /// The next batch of replies; `None`: there will be none any more.
    async fn next_batch(&self) -> Option<Batch> {
        poll_fn(|_| match self.queue().pop() {
            Some(batch) => Poll::Ready(Some(batch)),
            None if self.more_to_come.get() => Poll::Pending,
            None => Poll::Ready(None),
        })
        .await
    }
}

/// A client has gone without awaiting its answers: its requests that have not begun need not begin. After other tasks had a
/// turn, so that what it has sent last waits, too.
pub async fn leave(disk: &impl Disk, from: Requester) {
    yield_now().await;
    disk.leave(from);
}

/// Serves a connection until the reader ends or `stop` fires; then finishes the requests in flight, and sends replies
/// as long as the client receives them. Polls the parts in turn, as far as the pace allows in one poll: requests first,
/// so that replies leave together.
pub async fn drive<P: Protocol>(
    protocol: &P,
    reader: impl Future<Output = Result<P::End, P::Error>>,
    tasks: &Tasks<impl Future<Output = ()>>,
    mut writer: impl WriteHalf,
    mut stop: Pin<&mut impl FusedFuture<Output = ()>>,
) -> (Result<P::End, P::Error>, Work) {
    let connection = protocol.connection();
    let mut result = Ok(P::STOPPED);
    let mut is_overdue = false;
    {
        let mut reader = pin!(Some(reader));
        let mut replies = pin!(Some(write_replies(protocol, &mut writer)));
        poll_fn(|context| {
            connection.pace.renew();
            if !stop.is_terminated() && stop.as_mut().poll(context).is_ready() {
                reader.set(None);
            }
            if let Some(end) = protocol.look(context, reader.is_some()) {
                result = Ok(end);
                reader.set(None);
                replies.set(None);
            }
            if replies.is_some() && connection.share.is_overdue(context) {
                result = Err(protocol.overdue(reader.is_some()));
                is_overdue = true;
                replies.set(None);
                reader.set(None);
            }
            for _ in 0..ROUNDS_MAX {
                if let Some(running) = reader.as_mut().as_pin_mut()
                    && let Poll::Ready(end) = running.poll(context)
                {
                    result = end;
                    reader.set(None);
                }
                if reader.is_none() && !connection.is_leaving.replace(true) {
                    protocol.left();
                }
                connection.pace.note_ended(tasks.poll_new(context));
                while !tasks.are_done() && connection.pace.may_end() && tasks.poll_one(context) {
                    connection.pace.note_ended(1);
                }
                if reader.is_none() && tasks.are_done() {
                    connection.more_to_come.set(false);
                }
                if let Some(running) = replies.as_mut().as_pin_mut()
                    && let Poll::Ready(end) = running.poll(context)
                {
                    if let Err(source) = end
                        && result.is_ok()
                    {
                        result = Err(protocol.unsent(source));
                    }
                    replies.set(None);
                    reader.set(None);
                }
                // Without a client, what it asked for is still finished: a write must not stop halfway.
                if replies.is_none() && tasks.are_done() {
                    return Poll::Ready(());
                }
                if !connection.changed.take() {
                    if connection.pace.has_put_off() || replies.is_some() && connection.share.is_overdue(context) {
                        context.waker().wake_by_ref();
                    }
                    return Poll::Pending;
                }
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
    // A client that took too long may not take the end of the stream either.
    if !is_overdue {
        writer.shutdown().await;
    }
    (result, connection.work())
}

/// Sends replies until there will be no more.
async fn write_replies<P: Protocol>(protocol: &P, writer: &mut impl WriteHalf) -> io::Result<()> {
    let connection = protocol.connection();
    while let Some(batch) = connection.next_batch().await {
        let turn = connection.share.turn(Turn::Replies, batch.bytes());
        let (result, emptied) = writer.write_all(batch.pieces).await;
        drop(turn);
        result?;
        connection.queue().recycle(emptied);
        connection.share.give(batch.settles.bytes);
        protocol.sent(batch.settles);
        connection.note_change();
    }
    Ok(())
}
