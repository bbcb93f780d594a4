//! The insertion queue: bounded in bytes, so that clients never wait for the SSD or the CPU.
//!
//! With *staging*, content waits in the queue until the staging memory is full, or until no new content has arrived for
//! a while. Content that is overwritten meanwhile never reaches the SSD, and leaves no hole in a write-evict unit (the
//! paper's NVRAM does the same, Nitro §4).

use super::patch::Merge;
use crate::kept::{Kept, Meter, Room};
use crate::volume::{Flights, Token};
use event_listener::Event;
use nitro_cache::admission::Provenance;
use nitro_cache::staging::Staging;
use nitro_port::yielding::attempt_at;
use nitro_units::{ExtentKey, Fingerprint};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A worker that takes a job calls another one if at least this number of jobs wait: to wake a thread for fewer costs more than
/// it brings.
const CALL_MIN: usize = 4;

/// The bytes to insert.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A whole extent, with its fingerprint if known.
    Whole(Kept, Option<Fingerprint>),
    /// An extent on the SSD that was overwritten in part. Until it is inserted, further parts may join.
    Merge(Arc<Merge>),
}

/// One extent that waits for insertion.
pub(crate) struct Job {
    pub(crate) key: ExtentKey,
    pub(crate) content: Content,
    /// The provenance of the content.
    pub(crate) from: Provenance,
    /// It becomes void when the extent is written to again.
    pub(crate) token: Arc<Token>,
    /// The flights to notify when it is done.
    pub(crate) flights: Arc<Flights>,
    /// The memory that the jobs of its request keep alive; `None`: another job holds it.
    pub(crate) room: Option<Arc<Room>>,
}

#[derive(Default)]
struct State {
    /// Jobs that are not staged yet: a merge with an extent on the SSD cannot be served from the queue.
    urgent: VecDeque<Job>,
    jobs: Staging<Job>,
    /// Number of tasks that wait for the jobs.
    hurried: usize,
    /// No new job has arrived for a while: staged jobs have to be processed.
    flushing: bool,
    /// Jobs pushed at the last check.
    pushed_before: u64,
    /// Jobs taken and not done.
    at_work: usize,
    /// A worker found as many at work as there may be.
    is_full: bool,
    /// Number of jobs taken so far.
    taken: u64,
    /// Number of workers that take jobs.
    workers: usize,
    closed: bool,
    /// Total number of jobs pushed.
    pushed: u64,
    finished: u64,
    /// Number of tasks that wait for the jobs pushed so far, not for all jobs.
    marks: usize,
}

impl State {
    fn is_idle(&self) -> bool {
        self.urgent.is_empty() && self.jobs.is_empty() && self.at_work == 0
    }
}

/// There was no job to take.
struct Empty {
    closed: bool,
}

/// A task that waits for the jobs of a queue.
struct Hurry<'a>(&'a InsertQueue);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.state.lock().hurried -= 1;
    }
}

/// A worker of a queue.
pub(crate) struct Member<'a> {
    queue: &'a InsertQueue,
    has_left: bool,
}

impl Member<'_> {
    fn end(&mut self) -> bool {
        self.has_left = true;
        let mut state = self.queue.state.lock();
        state.workers -= 1;
        state.workers == 0
    }

    /// Ends its membership; returns whether it was the last one.
    pub(crate) fn leave(mut self) -> bool {
        self.end()
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        if !self.has_left {
            self.end();
        }
    }
}

/// The queue. Any thread may push; any number of workers take.
pub(crate) struct InsertQueue {
    state: Mutex<State>,
    /// Maximum number of jobs taken and not done.
    at_work_max: usize,
    /// The memory that its jobs, waiting and in progress, keep alive.
    held: Arc<Meter>,
    pushed: Event,
    /// The queue is idle, or a job for which a task waits is done.
    idle: Event,
}

impl InsertQueue {
    /// A queue of at most `bytes_max`, in addition to staged bytes. At most `at_work_max` jobs are taken and not done.
    pub(crate) fn new(bytes_max: u64, staging_bytes: u64, at_work_max: usize) -> Self {
        Self {
            at_work_max,
            state: Mutex::new(State { jobs: Staging::new(staging_bytes), ..State::default() }),
            held: Meter::new(bytes_max + staging_bytes),
            pushed: Event::new(),
            idle: Event::new(),
        }
    }

    /// Whether content waits until the staging memory is full.
    pub(crate) fn stages(&self) -> bool {
        self.state.lock().jobs.is_used()
    }

    /// Whether staged jobs have to be processed.
    fn is_due(&self, state: &mut State) -> bool {
        state.jobs.is_due(self.held.bytes()) || state.closed || state.flushing || state.hurried > 0
    }

    /// Room for jobs that keep `bytes` alive together; `None`: there is none, or the queue is closed.
    pub(crate) fn admit(&self, bytes: u64) -> Option<Arc<Room>> {
        if self.is_closed() { None } else { self.held.try_take(bytes) }
    }

    /// Room for jobs that keep `bytes` alive together, as soon as there is some; `None`: the queue is closed.
    pub(crate) async fn admit_wait(&self, bytes: u64) -> Option<Arc<Room>> {
        if let Some(room) = self.admit(bytes) {
            return Some(room);
        }
        // What is staged may be all that keeps it waiting.
        let _hurry = self.hurry();
        attempt_at(&self.held.roomy, || match self.admit(bytes) {
            None if !self.is_closed() => None,
            room => Some(room),
        })
        .await
    }

    /// Room for data that are in RAM in any case.
    pub(crate) fn admit_over(&self, bytes: u64) -> Arc<Room> {
        self.held.take(bytes)
    }

    /// Adds a job for which there is room, and returns the number of void jobs that were removed; returns the job if
    /// the queue is closed.
    pub(crate) fn push(&self, job: Job) -> Result<u64, Job> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(job);
        }
        state.pushed += 1;
        let is_urgent = matches!(job.content, Content::Merge(_));
        if is_urgent {
            state.urgent.push_back(job)
        } else {
            state.jobs.push(job)
        }
        let void = state.jobs.sweep(|job| job.token.is_void());
        state.finished += void.len() as u64;
        let is_due = self.is_due(&mut state) || is_urgent;
        drop(state);
        if is_due {
            self.pushed.notify(1);
        }
        Ok(void.len() as u64)
    }

    /// Lets staged jobs be processed if no job was pushed since the last call; to be called from time to time.
    pub(crate) fn flush_if_quiet(&self) {
        let mut state = self.state.lock();
        if state.pushed == state.pushed_before && !state.jobs.is_empty() {
            state.flushing = true;
            self.pushed.notify(usize::MAX);
        }
        state.pushed_before = state.pushed;
    }

    /// Adds a worker.
    pub(crate) fn enter(&self) -> Member<'_> {
        self.state.lock().workers += 1;
        Member { queue: self, has_left: false }
    }

    /// Whether several workers take jobs.
    pub(crate) fn is_shared(&self) -> bool {
        self.state.lock().workers > 1
    }

    /// Maximum number of jobs taken and not done.
    pub(crate) const fn at_work_max(&self) -> usize {
        self.at_work_max
    }

    /// The next job, with its number, which begins with 0; `None` once the queue is closed and empty. Each job is followed
    /// by [`done`](Self::done).
    pub(crate) async fn take(&self) -> Option<(u64, Job)> {
        attempt_at(&self.pushed, || match self.try_take() {
            Ok(job) => Some(Some(job)),
            Err(Empty { closed }) => closed.then_some(None),
        })
        .await
    }

    fn try_take(&self) -> Result<(u64, Job), Empty> {
        let mut state = self.state.lock();
        if state.at_work >= self.at_work_max {
            state.is_full = true;
            return Err(Empty { closed: false });
        }
        let is_due = self.is_due(&mut state);
        let staged = |state: &mut State| if is_due { state.jobs.pop() } else { None };
        let job = state.urgent.pop_front().or_else(|| staged(&mut state)).ok_or(Empty { closed: state.closed })?;
        let number = state.taken;
        state.taken += 1;
        state.at_work += 1;
        state.flushing &= !state.jobs.is_empty();
        let waiting = state.urgent.len() + if is_due { state.jobs.len() } else { 0 };
        let calls = state.workers > 1 && waiting >= CALL_MIN;
        drop(state);
        if calls {
            self.pushed.notify(1);
        }
        Ok((number, job))
    }

    /// Notes that a worker has finished a job.
    pub(crate) fn done(&self) {
        let mut state = self.state.lock();
        state.at_work -= 1;
        state.finished += 1;
        // Waking is dear across threads: not for every job.
        if state.is_full && state.at_work <= self.at_work_max / 4 * 3 {
            state.is_full = false;
            self.pushed.notify(usize::MAX);
        }
        if state.is_idle() || state.marks > 0 {
            self.idle.notify(usize::MAX);
        }
    }

    /// Lets staged jobs be processed as long as the result exists.
    fn hurry(&self) -> Hurry<'_> {
        self.state.lock().hurried += 1;
        self.pushed.notify(usize::MAX);
        Hurry(self)
    }

    /// Waits until the queue is idle.
    pub(crate) async fn drained(&self) {
        let _hurry = self.hurry();
        attempt_at(&self.idle, || self.state.lock().is_idle().then_some(())).await;
    }

    /// Waits until all jobs pushed before are done; requires a single worker.
    pub(crate) async fn caught_up(&self) {
        let mark = {
            let mut state = self.state.lock();
            if state.finished >= state.pushed {
                return;
            }
            state.marks += 1;
            state.pushed
        };
        let reach = || {
            let mut state = self.state.lock();
            (state.finished >= mark).then(|| state.marks -= 1)
        };
        attempt_at(&self.idle, reach).await;
    }

    /// Bytes that its jobs keep alive.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.pushed.notify(usize::MAX);
        self.held.roomy.notify(usize::MAX);
    }
}
