//! The insertion queue: bounded in bytes, so that clients never wait for the SSD or the CPU.
//!
//! With *staging*, content waits in it until so much has come that there is no room for more of it, or nothing new has come for a
//! while: what is overwritten meanwhile never reaches the SSD, and leaves no hole in a write-evict unit (the paper's NVRAM does the same,
//! Nitro §4).

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
    /// Jobs that wait for nothing: extents of which a part comes from the SSD are not served meanwhile.
    urgent: VecDeque<Job>,
    jobs: VecDeque<Job>,
    /// Jobs pushed since those that became void were last taken out.
    unsifted: usize,
    /// Somebody waits for the jobs.
    hurried: usize,
    /// Nothing new has come for a while: those that wait are to be done.
    flushing: bool,
    /// Jobs pushed when that was last looked at.
    pushed_before: u64,
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
        self.urgent.is_empty() && self.jobs.is_empty() && self.at_work == 0
    }

    /// Takes out the jobs that became void, if so many came that it is worth it.
    fn sift(&mut self) -> Vec<Job> {
        self.unsifted += 1;
        if self.unsifted <= self.jobs.len() {
            return Vec::new();
        }
        self.unsifted = 0;
        let (void, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|j| j.token.is_void());
        self.jobs = left.into();
        self.finished += void.len() as u64;
        void
    }
}

/// There was no job to take.
struct Empty {
    closed: bool,
}

/// Somebody waits for the jobs of a queue.
struct Hurry<'a>(&'a InsertQueue);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.state.lock().hurried -= 1;
    }
}

/// The queue. Any thread may push; any number of workers take.
pub(crate) struct InsertQueue {
    state: Mutex<State>,
    /// What its jobs, waiting and at work, keep alive.
    held: Arc<Meter>,
    /// So many bytes wait, unless somebody waits for them.
    staging_bytes: u64,
    pushed: Event,
    /// No job waits or is at work; or one is done, and somebody waits for that.
    idle: Event,
}

impl InsertQueue {
    /// Of at most so many bytes, beside those that are staged.
    pub(crate) fn new(bytes_max: u64, staging_bytes: u64) -> Self {
        Self {
            state: Mutex::default(),
            held: Meter::new(bytes_max + staging_bytes),
            staging_bytes,
            pushed: Event::new(),
            idle: Event::new(),
        }
    }

    /// Whether the jobs that are staged are to be done.
    fn is_due(&self, state: &State) -> bool {
        self.staging_bytes == 0
            || state.closed
            || state.flushing
            || state.hurried > 0
            || self.held.bytes() > self.staging_bytes
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

    /// Room for what is in RAM anyhow.
    pub(crate) fn admit_over(&self, bytes: u64) -> Arc<Room> {
        self.held.take(bytes)
    }

    /// Adds a job for which there is room, and gives the number of those that were taken out since they had become void; gives the job
    /// back if the queue is closed.
    pub(crate) fn push(&self, job: Job) -> Result<u64, Job> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(job);
        }
        state.pushed += 1;
        let is_urgent = matches!(job.content, Content::Merge { .. });
        if is_urgent {
            state.urgent.push_back(job)
        } else {
            state.jobs.push_back(job)
        }
        let void = if self.staging_bytes > 0 { state.sift() } else { Vec::new() };
        let is_due = is_urgent || self.is_due(&state);
        drop(state);
        if is_due {
            self.pushed.notify(1);
        }
        Ok(void.len() as u64)
    }

    /// Has staged jobs done if nothing new has come since the last call; to be called now and then.
    pub(crate) fn flush_if_quiet(&self) {
        let mut state = self.state.lock();
        if state.pushed == state.pushed_before && !state.jobs.is_empty() {
            state.flushing = true;
            self.pushed.notify(usize::MAX);
        }
        state.pushed_before = state.pushed;
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
        let is_due = self.is_due(&state);
        let staged = |state: &mut State| if is_due { state.jobs.pop_front() } else { None };
        let job = state.urgent.pop_front().or_else(|| staged(&mut state)).ok_or(Empty { closed: state.closed })?;
        state.at_work += 1;
        state.flushing &= !state.jobs.is_empty();
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

    /// Has staged jobs done as long as somebody waits for them.
    fn hurry(&self) -> Hurry<'_> {
        self.state.lock().hurried += 1;
        self.pushed.notify(usize::MAX);
        Hurry(self)
    }

    /// Ends when no job waits or is at work.
    pub(crate) async fn drained(&self) {
        let _hurry = self.hurry();
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
