//! The insertion queue: bounded in bytes, so that clients never wait for the SSD or the CPU.

use crate::kept::{Kept, Meter, Room};
use crate::volume::{Flights, Token};
use bytes::Bytes;
use event_listener::Event;
use nitro_cache::Location;
use nitro_cache::admission::Provenance;
use nitro_port::yielding::attempt_at;
use nitro_units::{ExtentKey, Fingerprint};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Whose bytes are to be inserted.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A whole extent; with its fingerprint, where that is known.
    Whole(Kept, Option<Fingerprint>),
    /// What is cached at `base`, with `patch` over it from byte `at`. The patch has memory of its own.
    Merge { base: Location, at: usize, patch: Bytes },
}

/// One extent on its way into the cache.
pub(crate) struct Job {
    pub(crate) key: ExtentKey,
    pub(crate) content: Content,
    /// Where the content comes from.
    pub(crate) from: Provenance,
    /// Void once the extent has been written to again.
    pub(crate) token: Arc<Token>,
    /// Where to say that it is done.
    pub(crate) flights: Arc<Flights>,
    /// The memory that it keeps alive, together with others of its request; `None`: another job holds it.
    pub(crate) _room: Option<Arc<Room>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    at_work: usize,
    closed: bool,
    /// Jobs pushed, and jobs done, ever.
    pushed: u64,
    finished: u64,
    /// How many wait for jobs pushed so far, not for all.
    marks: usize,
}

impl State {
    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.at_work == 0
    }
}

/// There was no job to take.
struct Empty {
    closed: bool,
}

/// The queue. Any thread may push; any number of workers take.
pub(crate) struct InsertQueue {
    state: Mutex<State>,
    /// What its jobs, waiting and at work, keep alive.
    held: Arc<Meter>,
    pushed: Event,
    /// No job waits or is at work; or one is done, and somebody waits for that.
    idle: Event,
}

impl InsertQueue {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { state: Mutex::default(), held: Meter::new(bytes_max), pushed: Event::new(), idle: Event::new() }
    }

    /// Room for jobs that keep `bytes` alive together; `None`: there is none, or the queue is closed.
    pub(crate) fn admit(&self, bytes: u64) -> Option<Arc<Room>> {
        if self.is_closed() { None } else { self.held.try_take(bytes) }
    }

    /// Room for jobs that keep `bytes` alive together, as soon as there is some; `None`: the queue is closed.
    pub(crate) async fn admit_wait(&self, bytes: u64) -> Option<Arc<Room>> {
        attempt_at(&self.held.roomy, || match self.admit(bytes) {
            None if !self.is_closed() => None,
            room => Some(room),
        })
        .await
    }

    /// Room for what is in RAM anyhow.
    pub(crate) fn admit_over(&self, bytes: u64) -> Arc<Room> {
        self.held.take(bytes)
    }

    /// Adds a job for which there is room; gives it back if the queue is closed.
    pub(crate) fn push(&self, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(job);
        }
        state.pushed += 1;
        state.jobs.push_back(job);
        drop(state);
        self.pushed.notify(1);
        Ok(())
    }

    /// The next job; `None` once the queue is closed and empty. Each job is followed by [`done`](Self::done).
    pub(crate) async fn take(&self) -> Option<Job> {
        attempt_at(&self.pushed, || match self.try_take() {
            Ok(job) => Some(Some(job)),
            Err(Empty { closed }) => closed.then_some(None),
        })
        .await
    }

    fn try_take(&self) -> Result<Job, Empty> {
        let mut state = self.state.lock();
        let job = state.jobs.pop_front().ok_or(Empty { closed: state.closed })?;
        state.at_work += 1;
        Ok(job)
    }

    /// A worker has finished a job.
    pub(crate) fn done(&self) {
        let mut state = self.state.lock();
        state.at_work -= 1;
        state.finished += 1;
        if state.is_idle() || state.marks > 0 {
            self.idle.notify(usize::MAX);
        }
    }

    /// Ends when no job waits or is at work.
    pub(crate) async fn drained(&self) {
        attempt_at(&self.idle, || self.state.lock().is_idle().then_some(())).await;
    }

    /// Ends when every job is done that had been pushed before; with one worker only.
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
