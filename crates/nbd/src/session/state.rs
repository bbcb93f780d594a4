//! What the reader, the commands and the writer of one connection share.
//!
//! They are parts of one future, which polls each again as long as one of them [changed](Session::changed) what another
//! may wait for. So they need no wakers among themselves.

use super::check::{Facts, Refusal};
use crate::errno::NbdErrno;
use crate::handshake::Negotiated;
use crate::limits::Limits;
use crate::protocol::{Cookie, Request, put_error, put_none, put_offset_data, put_simple};
use crate::server::ServerOptions;
use bytes::Bytes;
use nitro_frontend::{Batch, Cost, OutQueue, Pace, Pieces, Share};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::Poll;

/// The state of one connection in the transmission phase.
pub(super) struct Session<'a, E> {
    pub(super) negotiated: &'a Negotiated<E>,
    pub(super) limits: &'a Limits,
    pub(super) counts: Counts,
    queue: RefCell<OutQueue>,
    in_flight: Cell<Cost>,
    pub(super) share: Share,
    pub(super) pace: Pace,
    is_leaving: Cell<bool>,
    more_to_come: Cell<bool>,
    changed: Cell<bool>,
}

/// What was done for the client.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: Cell<u64>,
    pub(super) bytes_read: Cell<u64>,
    pub(super) bytes_written: Cell<u64>,
}

/// Adds to a counter.
pub(super) fn count(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl<'a, E> Session<'a, E> {
    pub(super) fn new(negotiated: &'a Negotiated<E>, options: &'a ServerOptions) -> Self {
        Self {
            negotiated,
            limits: &options.limits,
            counts: Counts::default(),
            queue: RefCell::default(),
            in_flight: Cell::default(),
            share: Share::new(&options.memory),
            pace: Pace::default(),
            is_leaving: Cell::new(false),
            more_to_come: Cell::new(true),
            changed: Cell::new(false),
        }
    }

    pub(super) fn facts(&self) -> Facts<'a> {
        let Negotiated { info, structured, contexts, .. } = self.negotiated;
        Facts { info, structured: *structured, has_contexts: !contexts.is_empty() }
    }

    /// Whether something changed since the last call.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.take()
    }

    /// Waits until another request may be begun in this poll, or in the next one.
    pub(super) async fn turn(&self) {
        poll_fn(|_| if self.pace.may_begin() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits until the limits leave room for a request, and there is memory for it, and takes both. The reply gives them back
    /// when it is sent.
    pub(super) async fn admit(&self, cost: Cost) {
        poll_fn(|_| if self.try_admit(cost) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.share.take(cost.bytes).await;
    }

    /// No requests come any more.
    pub(super) fn leave(&self) {
        self.is_leaving.set(true);
    }

    /// Whether the client has left, or is to leave: what need not be finished is given up.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    fn try_admit(&self, cost: Cost) -> bool {
        let now = self.in_flight.get();
        let sum = now + cost;
        let fits = sum.requests <= self.limits.in_flight_requests_max && sum.bytes <= self.limits.in_flight_bytes_max;
        // A single request always fits, or it would wait forever.
        if fits || now.requests == 0 {
            self.in_flight.set(sum);
            count(&self.counts.requests, 1);
        }
        fits || now.requests == 0
    }

    /// No reply will come any more but those that are queued.
    pub(super) fn end_replies(&self) {
        self.more_to_come.set(false);
    }

    /// The next batch of replies; `None` when there will be none any more.
    pub(super) async fn next_batch(&self) -> Option<Batch> {
        poll_fn(|_| match self.queue.borrow_mut().pop() {
            Some(batch) => Poll::Ready(Some(batch)),
            None if self.more_to_come.get() => Poll::Pending,
            None => Poll::Ready(None),
        })
        .await
    }

    /// A batch was sent.
    pub(super) fn sent(&self, settles: Cost, emptied: Vec<Bytes>) {
        self.queue.borrow_mut().recycle(emptied);
        self.in_flight.set(self.in_flight.get() - settles);
        self.share.give(settles.bytes);
        self.changed.set(true);
    }

    /// Appends a reply by `put` and ends it.
    pub(super) fn reply(&self, cost: Cost, put: impl FnOnce(&mut OutQueue)) {
        let mut queue = self.queue.borrow_mut();
        put(&mut queue);
        queue.end_reply(cost);
        self.changed.set(true);
    }

    /// Refuses a request.
    pub(super) fn reply_error(&self, cost: Cost, cookie: Cookie, refusal: Refusal) {
        self.reply(cost, |queue| match self.negotiated.structured {
            true => put_error(queue.headers(), cookie, refusal.errno, refusal.message),
            false => put_simple(queue.headers(), cookie, Some(refusal.errno)),
        });
    }

    /// Answers a command without data.
    pub(super) fn reply_done(&self, cost: Cost, cookie: Cookie, result: Result<(), NbdErrno>) {
        match result {
            Ok(()) => self.reply(cost, |queue| put_simple(queue.headers(), cookie, None)),
            Err(errno) => self.reply_error(cost, cookie, errno.into()),
        }
    }

    /// Answers a read of no bytes, to which structured replies allow no simple answer.
    pub(super) fn reply_empty_read(&self, cost: Cost, cookie: Cookie) {
        self.reply(cost, |queue| match self.negotiated.structured {
            true => put_none(queue.headers(), cookie),
            false => put_simple(queue.headers(), cookie, None),
        });
    }

    /// Answers a read.
    pub(super) fn reply_read(&self, cost: Cost, request: &Request, result: Result<Pieces, NbdErrno>) {
        let Request { cookie, offset, len, .. } = *request;
        let pieces = match result {
            Ok(pieces) => pieces,
            Err(errno) => return self.reply_error(cost, cookie, errno.into()),
        };
        let got: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if got != u64::from(len) {
            // Sending it would put the stream out of step.
            tracing::error!(offset, len, got, "the export returned the wrong number of bytes");
            return self.reply_error(cost, cookie, NbdErrno::Io.into());
        }
        count(&self.counts.bytes_read, got);
        self.reply(cost, |queue| {
            match self.negotiated.structured {
                true => put_offset_data(queue.headers(), cookie, offset, len),
                false => put_simple(queue.headers(), cookie, None),
            }
            pieces.into_iter().filter(|piece| !piece.is_empty()).for_each(|piece| queue.push(piece));
        });
    }
}

impl From<NbdErrno> for Refusal {
    fn from(errno: NbdErrno) -> Self {
        Self { errno, message: errno.as_str() }
    }
}
