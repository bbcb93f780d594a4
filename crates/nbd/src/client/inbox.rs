//! Requests on their way from the threads that make them to the one that carries them out.

use super::job::Job;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    jobs: Mutex<Vec<Job>>,
    waker: AtomicWaker,
    is_closed: AtomicBool,
}

impl Inbox {
    pub(super) fn put(&self, job: Job) {
        let is_first = {
            let mut jobs = self.jobs.lock();
            jobs.push(job);
            jobs.len() == 1
        };
        if is_first {
            self.waker.wake();
        }
    }

    /// No more requests come.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    /// Passes on the requests that have arrived. Ready when no more come.
    pub(super) fn poll(&self, context: &Context<'_>, take: impl FnOnce(Vec<Job>)) -> Poll<()> {
        self.waker.register(context.waker());
        // Before the requests: none is put after the end.
        let is_closed = self.is_closed.load(Ordering::SeqCst);
        let jobs = std::mem::take(&mut *self.jobs.lock());
        if !jobs.is_empty() {
            take(jobs);
        }
        if is_closed { Poll::Ready(()) } else { Poll::Pending }
    }
}
