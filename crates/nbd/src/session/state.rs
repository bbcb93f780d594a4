//! The state that the reader, the requests and the writer of one connection share.

use super::End;
use super::check::{Facts, Refusal};
use crate::errno::NbdErrno;
use crate::error::{NbdError, Phase};
use crate::handshake::{Negotiated, request_bytes_min};
use crate::limits::Limits;
use crate::protocol::{Answered, Headers, Request, put_error, put_none, put_offset_data, put_simple};
use crate::server::ServerOptions;
use nitro_frontend::{Connection, Cost, Pieces, Protocol};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

/// The state of one connection in the transmission phase.
pub(super) struct Session<'a, E> {
    pub(super) negotiated: &'a Negotiated<E>,
    pub(super) limits: &'a Limits,
    pub(super) connection: Connection,
    in_flight: Cell<Cost>,
}

impl<'a, E> Session<'a, E> {
    pub(super) fn new(negotiated: &'a Negotiated<E>, options: &'a ServerOptions) -> Self {
        Self {
            negotiated,
            limits: &options.limits,
            connection: Connection::new(&options.memory),
            in_flight: Cell::default(),
        }
    }

    pub(super) fn facts(&self) -> Facts<'a> {
        let Negotiated { info, headers, contexts, knows_blocks, .. } = self.negotiated;
        let block_bytes = if *knows_blocks { request_bytes_min(info) } else { 1 };
        Facts { info, headers: *headers, has_contexts: !contexts.is_empty(), block_bytes }
    }

    /// Waits until the connection's pace permits another request, in this poll or a later one.
    pub(super) async fn turn(&self) {
        poll_fn(|_| if self.connection.pace.may_begin() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// Waits until the limits admit a request and there is memory for it, and takes both. They are released when the
    /// reply has been sent.
    pub(super) async fn admit(&self, cost: Cost) {
        poll_fn(|_| if self.try_admit(cost) { Poll::Ready(()) } else { Poll::Pending }).await;
        self.connection.share.take(cost.bytes).await;
    }

    fn try_admit(&self, cost: Cost) -> bool {
        let now = self.in_flight.get();
        let sum = now + cost;
        let fits = sum.requests <= self.limits.in_flight_requests_max && sum.bytes <= self.limits.in_flight_bytes_max;
        // If none is in flight, a request is admitted whatever its size; otherwise it would wait forever.
        if fits || now.requests == 0 {
            self.in_flight.set(sum);
            self.connection.counts.requests.add(1);
        }
        fits || now.requests == 0
    }

    /// The headers of requests and replies.
    pub(super) fn headers(&self) -> Headers {
        self.negotiated.headers
    }

    /// What the chunks of a reply begin with.
    pub(super) fn answered(&self, request: &Request) -> Answered {
        Answered::new(self.headers(), request)
    }

    /// Refuses a request.
    pub(super) fn reply_error(&self, cost: Cost, request: &Request, refusal: Refusal) {
        self.connection.reply(cost, |queue| match self.headers() {
            Headers::Simple => put_simple(queue.headers(), request.cookie, Some(refusal.errno)),
            _ => put_error(queue.headers(), self.answered(request), refusal.errno, refusal.message),
        });
    }

    /// Answers a command without data.
    pub(super) fn reply_done(&self, cost: Cost, request: &Request, result: Result<(), NbdErrno>) {
        match result {
            Ok(()) => self.connection.reply(cost, |queue| match self.headers() {
                Headers::Extended => put_none(queue.headers(), self.answered(request)),
                _ => put_simple(queue.headers(), request.cookie, None),
            }),
            Err(errno) => self.reply_error(cost, request, errno.into()),
        }
    }

    /// Answers a read of 0 bytes. Once structured replies are negotiated, simple replies to reads are not allowed.
    pub(super) fn reply_empty_read(&self, cost: Cost, request: &Request) {
        self.connection.reply(cost, |queue| match self.headers() {
            Headers::Simple => put_simple(queue.headers(), request.cookie, None),
            _ => put_none(queue.headers(), self.answered(request)),
        });
    }

    /// Answers a read.
    pub(super) fn reply_read(&self, cost: Cost, request: &Request, result: Result<Pieces, NbdErrno>) {
        let Request { offset, len, .. } = *request;
        let pieces = match result {
            Ok(pieces) => pieces,
            Err(errno) => return self.reply_error(cost, request, errno.into()),
        };
        let got: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        if got != len {
            // Data of another length than announced would desynchronize the stream.
            tracing::error!(offset, len, got, "the export returned the wrong number of bytes");
            return self.reply_error(cost, request, NbdErrno::Io.into());
        }
        self.connection.counts.bytes_read.add(got);
        self.connection.reply(cost, |queue| {
            match self.headers() {
                Headers::Simple => put_simple(queue.headers(), request.cookie, None),
                // A read is no longer than the longest request.
                _ => put_offset_data(queue.headers(), self.answered(request), offset, len as u32),
            }
            pieces.into_iter().filter(|piece| !piece.is_empty()).for_each(|piece| queue.push(piece));
        });
    }
}

impl<E> Protocol for Session<'_, E> {
    type End = End;
    type Error = NbdError;

    const STOPPED: End = End::Stopped;

    fn connection(&self) -> &Connection {
        &self.connection
    }

    fn sent(&self, settles: Cost) {
        self.in_flight.set(self.in_flight.get() - settles);
    }

    fn overdue(&self, is_reading: bool) -> NbdError {
        NbdError::Overdue { phase: if is_reading { Phase::Receive } else { Phase::Send } }
    }

    fn unsent(&self, source: io::Error) -> NbdError {
        NbdError::Io { phase: Phase::Send, source }
    }
}

impl From<NbdErrno> for Refusal {
    fn from(errno: NbdErrno) -> Self {
        Self { errno, message: errno.as_str() }
    }
}
