//! The insertion queue: bounded in bytes, so that clients never wait for the SSD or the CPU.

use crate::volume::{Flights, Token};
use bytes::Bytes;
use event_listener::Event;
use nitro_cache::{ExtentKey, Fingerprint, Location};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Whose bytes are to be inserted.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// A whole extent; with its fingerprint, where that is known.
    Whole(Bytes, Option<Fingerprint>),
    /// What is cached at `base`, with `patch` over it from byte `at`.
    Merge { base: Location, at: usize, patch: Bytes },
}

/// One extent on its way into the cache.
pub(crate) struct Job {
    pub(crate) key: ExtentKey,
    pub(crate) content: Content,
    /// Void once the extent has been written to again.
    pub(crate) token: Arc<Token>,
    /// Where to say that it is done.
    pub(crate) flights: Arc<Flights>,
}

impl Job {
    /// Bytes that the job keeps in RAM.
    fn bytes(&self) -> u64 {
        match &self.content {
            Content::Whole(bytes, _) => bytes.len() as u64,
            Content::Merge { patch, .. } => patch.len() as u64,
        }
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: u64,
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
    bytes_max: u64,
    pushed: Event,
    /// The queue is half empty, or closed.
    roomy: Event,
    /// No job waits or is at work; or one is done, and somebody waits for that.
    idle: Event,
}

impl InsertQueue {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { state: Mutex::default(), bytes_max, pushed: Event::new(), roomy: Event::new(), idle: Event::new() }
    }

    /// Adds a job if there is room.
    pub(crate) fn push(&self, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        let full = state.bytes > 0 && state.bytes + job.bytes() > self.bytes_max;
        if state.closed || full {
            return Err(job);
        }
        state.bytes += job.bytes();
        state.pushed += 1;
        state.jobs.push_back(job);
        drop(state);
        self.pushed.notify(1);
        Ok(())
    }

    /// Adds a job whose bytes are in RAM anyhow, whether or not there is room.
    pub(crate) fn push_over(&self, job: Job) {
        let mut state = self.state.lock();
        state.bytes += job.bytes();
        state.pushed += 1;
        state.jobs.push_back(job);
        drop(state);
        self.pushed.notify(1);
    }

    /// Adds a job as soon as there is room; gives it back if the queue is closed.
    pub(crate) async fn push_wait(&self, mut job: Job) -> Result<(), Job> {
        loop {
            let roomy = self.roomy.listen();
            match self.push(job) {
                Ok(()) => return Ok(()),
                Err(back) if self.state.lock().closed => return Err(back),
                Err(back) => job = back,
            }
            roomy.await;
        }
    }

    /// The next job; `None` once the queue is closed and empty. Each job is followed by [`done`](Self::done).
    pub(crate) async fn take(&self) -> Option<Job> {
        loop {
            let pushed = self.pushed.listen();
            match self.try_take() {
                Ok(job) => return Some(job),
                Err(Empty { closed: true }) => return None,
                Err(Empty { closed: false }) => pushed.await,
            }
        }
    }

    fn try_take(&self) -> Result<Job, Empty> {
        let mut state = self.state.lock();
        let job = state.jobs.pop_front().ok_or(Empty { closed: state.closed })?;
        state.bytes -= job.bytes();
        state.at_work += 1;
        // Waking is dear across threads: not for every job.
        if state.bytes <= self.bytes_max / 2 {
            self.roomy.notify(usize::MAX);
        }
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
        loop {
            let idle = self.idle.listen();
            if self.state.lock().is_idle() {
                return;
            }
            idle.await;
        }
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
        loop {
            let idle = self.idle.listen();
            {
                let mut state = self.state.lock();
                if state.finished >= mark {
                    state.marks -= 1;
                    return;
                }
            }
            idle.await;
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.pushed.notify(usize::MAX);
        self.roomy.notify(usize::MAX);
    }
}
