//! The state of a client, without I/O: which requests wait, which are under way, and what has to be sent again.
//!
//! | state | requests |
//! |---|---|
//! | down: there is no connection | wait; reads of what is in the buffer are answered from it |
//! | sending again, on a new connection | wait until the server has all that is in the buffer |
//! | up | are sent, as many as the lanes take |
//! | lost: what the server has is not what it acknowledged | fail |
//!
//! A change is sent when the buffer has room for it, and enters the buffer before its caller is answered. FLUSHes of the client's
//! own make room.

use super::counters::NbdMetrics;
use super::error::ClientError;
use super::export::Export;
use super::job::{Answer, Failure, Job, Op};
use super::unflushed::Unflushed;
use crate::protocol::{Command, Cookie, REQUEST_BYTES, Request};
use bytes::{Bytes, BytesMut};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The most that is kept to be sent again, in bytes of RAM.
pub(super) const BUFFER_BYTES_MAX: u64 = 32 << 20;
/// Most requests under way on one connection.
const IN_FLIGHT_MAX: usize = 64;
/// `ESHUTDOWN`: the server is shutting down; the request is to be sent to the next one.
const SHUTDOWN: u32 = 108;

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Down,
    Resending,
    Up,
    Lost(Arc<str>),
}

/// Whose request it is.
#[derive(Debug)]
enum Owner {
    Caller(Job),
    /// Sent again.
    Again(Op),
    /// A FLUSH that makes room.
    Room,
}

#[derive(Debug)]
struct Sent {
    owner: Owner,
    lane: usize,
    /// Of a FLUSH: what it covers.
    mark: u64,
}

impl Sent {
    fn op(&self) -> &Op {
        match &self.owner {
            Owner::Caller(job) => &job.op,
            Owner::Again(op) => op,
            Owner::Room => &Op::Flush,
        }
    }
}

/// What goes out on one connection.
#[derive(Debug, Default)]
struct Lane {
    out: Vec<Bytes>,
    in_flight: usize,
    waker: Option<Waker>,
}

/// What a reply to a request has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Data { offset: u64, len: u32 },
    Runs,
    Nothing,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    export: Export,
    state: State,
    /// Requests other than changes.
    queries: VecDeque<Job>,
    changes: VecDeque<Job>,
    again: VecDeque<Op>,
    in_flight: HashMap<u64, Sent>,
    next_cookie: u64,
    lanes: Vec<Lane>,
    unflushed: Unflushed,
    /// What the changes under way will count.
    reserved: u64,
    buffer_bytes_max: u64,
    is_making_room: bool,
    /// Why FLUSHes fail from now on.
    broken: Option<Arc<str>>,
    is_leaving: bool,
    /// Replies received so far.
    pub(super) replies: u64,
    pub(super) metrics: Arc<NbdMetrics>,
}

impl Core {
    pub(super) fn new(export: Export, buffer_bytes_max: u64, metrics: Arc<NbdMetrics>) -> Self {
        Self {
            export,
            state: State::Down,
            queries: VecDeque::new(),
            changes: VecDeque::new(),
            again: VecDeque::new(),
            in_flight: HashMap::new(),
            next_cookie: 1,
            lanes: Vec::new(),
            unflushed: Unflushed::default(),
            reserved: 0,
            buffer_bytes_max,
            is_making_room: false,
            metrics,
            broken: None,
            is_leaving: false,
            replies: 0,
        }
    }

    /// Takes a request.
    pub(super) fn take(&mut self, job: Job) {
        match job.op {
            Op::Change { .. } => self.changes.push_back(job),
            _ => self.queries.push_back(job),
        }
    }

    /// Whether nothing waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.queries.is_empty() && self.changes.is_empty() && self.in_flight.is_empty() && self.again.is_empty()
    }

    pub(super) fn is_waiting_for_replies(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// The connections have ended: what was under way on them waits again, before what came later.
    pub(super) fn down(&mut self) {
        self.lanes.clear();
        self.again.clear();
        (self.reserved, self.is_making_room) = (0, false);
        let mut under_way: Vec<_> = self.in_flight.drain().collect();
        under_way.sort_by_key(|(cookie, _)| *cookie);
        for (_, sent) in under_way.into_iter().rev() {
            match sent.owner {
                Owner::Caller(job) if matches!(job.op, Op::Change { .. }) => self.changes.push_front(job),
                Owner::Caller(job) => self.queries.push_front(job),
                Owner::Again(_) | Owner::Room => {}
            }
        }
        if !matches!(self.state, State::Lost(_)) {
            self.state = State::Down;
        }
    }

    /// There are connections again, to what the server says is `export`. Returns the number of bytes that are sent again, or
    /// why the export is another one: from then on all requests fail.
    pub(super) fn up(&mut self, export: &Export, lanes: usize) -> Result<u64, Arc<str>> {
        if let Some(why) = self.export.differs_from(export) {
            return Err(self.lose(format!("the export is another one: {why}")));
        }
        self.export = *export;
        self.lanes.resize_with(lanes, Lane::default);
        self.again = self.unflushed.pieces().map(|(offset, len, content)| Op::again(offset, len, content)).collect();
        self.state = State::Resending;
        let bytes = self.again.iter().map(|op| if let Op::Change { len, .. } = op { u64::from(*len) } else { 0 }).sum();
        self.dispatch();
        Ok(bytes)
    }

    /// From now on all requests fail.
    fn lose(&mut self, why: String) -> Arc<str> {
        let why: Arc<str> = why.into();
        tracing::error!(
            "{why}: what it acknowledged since its last FLUSH may be lost; the volume has to be served anew"
        );
        self.state = State::Lost(Arc::clone(&why));
        self.dispatch();
        why
    }

    /// Whether all requests fail.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost(_))
    }

    /// Sends what can be sent, and answers what can be answered without the server.
    pub(super) fn dispatch(&mut self) {
        match &self.state {
            State::Down => self.answer_from_buffer(),
            State::Lost(why) => {
                let why = Arc::clone(why);
                for job in self.queries.drain(..).chain(self.changes.drain(..)) {
                    answer(job, Err(Failure::Lost(Arc::clone(&why))));
                }
            }
            State::Resending => {
                while let Some(lane) = self.free_lane()
                    && let Some(op) = self.again.pop_front()
                {
                    self.send(Owner::Again(op), lane);
                }
                if self.again.is_empty() && !self.in_flight.values().any(|sent| matches!(sent.owner, Owner::Again(_))) {
                    self.state = State::Up;
                    self.dispatch();
                }
            }
            State::Up => {
                self.make_room();
                loop {
                    let (query, change) = (self.send_query(), self.send_change());
                    if !query && !change {
                        break;
                    }
                }
            }
        }
        self.lanes
            .iter_mut()
            .filter(|lane| !lane.out.is_empty())
            .filter_map(|lane| lane.waker.take())
            .for_each(Waker::wake);
    }

    /// While there is no connection, the buffer has the newest content of what is in it.
    fn answer_from_buffer(&mut self) {
        for job in std::mem::take(&mut self.queries) {
            let known = match job.op {
                Op::Read { offset, len } => self.unflushed.read(offset, len.into()),
                _ => None,
            };
            match known {
                Some(data) => answer(job, Ok(Answer::Data(data))),
                None => self.queries.push_back(job),
            }
        }
    }

    /// Begins a FLUSH if the buffer is half full, or has no room for the next change.
    fn make_room(&mut self) {
        let bytes = self.unflushed.bytes();
        let is_full = self.changes.front().is_some_and(|job| !self.has_room(job.op.cost()));
        if self.is_making_room || bytes == 0 || !(is_full || bytes > self.buffer_bytes_max / 2) {
            return;
        }
        if let Some(lane) = self.free_lane() {
            self.is_making_room = true;
            self.metrics.own_flushes.add(1);
            self.send(Owner::Room, lane);
        }
    }

    fn has_room(&self, cost: u64) -> bool {
        let taken = self.unflushed.bytes() + self.reserved;
        taken == 0 || taken + cost <= self.buffer_bytes_max
    }

    /// Whether acknowledged changes are kept.
    fn keeps(&self) -> bool {
        self.export.flushes() && self.broken.is_none()
    }

    fn send_query(&mut self) -> bool {
        let Some(lane) = self.free_lane() else { return false };
        let Some(job) = self.queries.pop_front() else { return false };
        match (&job.op, &self.broken) {
            // Nobody waits for it any more.
            (Op::Read { .. } | Op::Status { .. }, _) if job.reply.is_canceled() => {}
            (Op::Flush, Some(why)) => {
                let why = Arc::clone(why);
                answer(job, Err(Failure::Lost(why)));
            }
            (Op::Flush, None) if !self.export.flushes() => answer(job, Ok(Answer::Done)),
            _ => self.send(Owner::Caller(job), lane),
        }
        true
    }

    fn send_change(&mut self) -> bool {
        let Some(lane) = self.free_lane() else { return false };
        let Some(job) = self.changes.front() else { return false };
        if self.keeps() && !self.has_room(job.op.cost()) {
            return false;
        }
        let Some(job) = self.changes.pop_front() else { return false };
        self.send(Owner::Caller(job), lane);
        true
    }

    /// The connection with the fewest requests, if it takes another one.
    fn free_lane(&self) -> Option<usize> {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| lane.in_flight < IN_FLIGHT_MAX);
        lanes.min_by_key(|(_, lane)| lane.in_flight).map(|(index, _)| index)
    }

    fn send(&mut self, owner: Owner, lane: usize) {
        let sent = Sent { owner, lane, mark: self.unflushed.mark() };
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        if matches!(sent.owner, Owner::Caller(_)) {
            self.reserved += sent.op().cost();
        }
        let to = &mut self.lanes[lane];
        sent.op().wire(cookie, self.export.needs_fua(), &mut to.out);
        to.in_flight += 1;
        self.in_flight.insert(cookie, sent);
    }

    /// What a reply on a connection has to have; `None`: no such request is under way there.
    pub(super) fn expected(&self, lane: usize, cookie: u64) -> Option<Expected> {
        let sent = self.in_flight.get(&cookie).filter(|sent| sent.lane == lane)?;
        Some(match *sent.op() {
            Op::Read { offset, len } => Expected::Data { offset, len },
            Op::Status { .. } => Expected::Runs,
            Op::Flush | Op::Change { .. } => Expected::Nothing,
        })
    }

    /// The reply to a request that is [expected](Self::expected).
    ///
    /// # Errors
    /// The connections have to be given up.
    pub(super) fn replied(&mut self, cookie: u64, result: Result<Answer, u32>) -> Result<(), ClientError> {
        if matches!(result, Err(SHUTDOWN)) {
            return Err(ClientError::ShuttingDown);
        }
        let Some(sent) = self.in_flight.remove(&cookie) else {
            return Err(ClientError::Violation("a reply to no request"));
        };
        self.replies += 1;
        if let Some(lane) = self.lanes.get_mut(sent.lane) {
            lane.in_flight -= 1;
        }
        match sent.owner {
            Owner::Caller(job) => self.answer_caller(job, sent.mark, result),
            Owner::Again(_) => {
                if let Err(errno) = result {
                    let why = Failure::Errno(errno).into_io();
                    self.lose(format!("the server does not take again what it acknowledged before: {why}"));
                }
            }
            Owner::Room => {
                self.is_making_room = false;
                self.flushed(sent.mark, &result);
            }
        }
        self.dispatch();
        Ok(())
    }

    fn answer_caller(&mut self, job: Job, mark: u64, result: Result<Answer, u32>) {
        match &job.op {
            Op::Change { offset, len, content } => {
                self.reserved -= job.op.cost();
                if result.is_ok() && self.keeps() {
                    self.unflushed.add(*offset, (*len).into(), content);
                }
            }
            Op::Flush => self.flushed(mark, &result),
            Op::Read { .. } | Op::Status { .. } => {}
        }
        answer(job, result.map_err(Failure::Errno));
    }

    /// The end of a FLUSH. After one that failed, a server may have dropped what it could not write, and say of the next FLUSH that it
    /// succeeded: nothing that was acknowledged before can be relied on.
    fn flushed(&mut self, mark: u64, result: &Result<Answer, u32>) {
        match result {
            Ok(_) => self.unflushed.flushed(mark),
            Err(errno) => {
                let why = format!("the server failed to flush: {}", Failure::Errno(*errno).into_io());
                tracing::error!("{why}: FLUSH fails until the volume is served anew");
                self.broken.get_or_insert_with(|| why.into());
                self.unflushed = Unflushed::default();
            }
        }
    }

    /// Takes leave of the server.
    pub(super) fn leave(&mut self) {
        self.is_leaving = true;
        for lane in &mut self.lanes {
            let mut header = BytesMut::with_capacity(REQUEST_BYTES);
            Request { flags: 0, command: Command::Disconnect, cookie: Cookie(0), offset: 0, len: 0 }.put(&mut header);
            lane.out.push(header.freeze());
            lane.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// What goes out on a connection; `None`: nothing more.
    pub(super) fn poll_out(&mut self, lane: usize, context: &Context<'_>) -> Poll<Option<Vec<Bytes>>> {
        let Some(lane) = self.lanes.get_mut(lane) else { return Poll::Ready(None) };
        if !lane.out.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut lane.out)));
        }
        if self.is_leaving {
            return Poll::Ready(None);
        }
        lane.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

fn answer(job: Job, result: Result<Answer, Failure>) {
    // Who gave up waiting gets no answer.
    let _ = job.reply.send(result);
}
