//! System calls that may block for long, on a few threads for each device: a device that hangs delays no other device
//! and no reactor.

use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Default number of concurrent calls of one device.
pub(super) const THREADS_MAX: usize = 4;
/// A thread without work ends after this time, unless it is one of those that stay.
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// No further jobs will come.
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    pushed: Condvar,
    /// The number of threads that stay without work.
    kept: usize,
}

/// Threads for the blocking calls of one device, or of one folder. Some are started with it and stay; further ones are
/// started when they are needed, and missing ones only make calls wait: no call fails because the system refuses a thread.
pub struct Blocking {
    shared: Arc<Shared>,
    threads_max: usize,
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("Blocking").field("waiting", &state.jobs.len()).field("threads", &state.threads).finish()
    }
}

impl Blocking {
    /// At most `threads_max` calls are in progress at once; further calls wait their turn, in order, without a thread.
    /// One thread stays.
    ///
    /// # Errors
    /// The system refuses the thread that stays.
    pub fn new(threads_max: usize) -> io::Result<Self> {
        Self::keeping(1, threads_max)
    }

    /// As [`new`](Self::new), with `kept` threads that stay; at least one.
    ///
    /// # Errors
    /// The system refuses one of these threads.
    pub fn keeping(kept: usize, threads_max: usize) -> io::Result<Self> {
        let kept = kept.max(1);
        let shared = Arc::new(Shared { kept, ..Shared::default() });
        let blocking = Self { shared, threads_max: threads_max.max(kept) };
        let mut state = blocking.shared.state.lock();
        (0..kept).try_for_each(|_| blocking.start(&mut state))?;
        drop(state);
        Ok(blocking)
    }

    /// Runs `work` on one of the threads. A call that is dropped before its turn is not made.
    ///
    /// # Errors
    /// `work` panicked.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move || {
            if !answer.is_canceled() {
                // The caller may have been dropped meanwhile.
                let _ = answer.send(work());
            }
        });
        self.push(job);
        answered.await.map_err(|_| io::Error::other("the thread of a blocking call panicked"))
    }

    fn push(&self, job: Job) {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && state.threads < self.threads_max {
            // Without a further thread, one of those that stay will run the job.
            let _ = self.start(&mut state);
        }
        self.shared.pushed.notify_one();
    }

    fn start(&self, state: &mut State) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name("nitro-blocking".to_owned()).spawn(move || work(&shared))?;
        state.threads += 1;
        Ok(())
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.pushed.notify_all();
    }
}

fn work(shared: &Shared) {
    let mut state = shared.state.lock();
    loop {
        while let Some(job) = state.jobs.pop_front() {
            drop(state);
            // A panic was reported by the hook; the caller gets an error.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = shared.state.lock();
        }
        if state.closed {
            break;
        }
        state.idle += 1;
        let timed_out = shared.pushed.wait_for(&mut state, IDLE_MAX).timed_out();
        state.idle -= 1;
        if timed_out && state.jobs.is_empty() && state.threads > shared.kept {
            break;
        }
    }
    // Under the lock, so that a job that is pushed later sees one thread less.
    state.threads -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use std::sync::mpsc;
    use std::thread::ThreadId;

    fn reactor() -> crate::Reactor {
        crate::Reactor::new().unwrap()
    }

    #[test]
    fn a_device_whose_calls_hang_takes_few_threads_and_no_turn_of_another() {
        let (hung, other) = (Blocking::new(THREADS_MAX).unwrap(), Blocking::new(THREADS_MAX).unwrap());
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        reactor().block_on(async {
            let mut calls: Vec<_> = (0..300)
                .map(|_| {
                    let released = Arc::clone(&released);
                    Box::pin(hung.run(move || released.lock().recv().is_err()))
                })
                .collect();
            assert!(calls.iter_mut().all(|call| call.now_or_never().is_none()));
            assert!(hung.shared.state.lock().threads <= THREADS_MAX);
            for number in 0..1000 {
                assert_eq!(other.run(move || number).await.unwrap(), number);
            }
            drop(release);
            assert!(join_all(calls).await.into_iter().all(|hung_up| hung_up.unwrap()));
        });
    }

    #[test]
    fn a_call_that_was_dropped_before_its_turn_is_not_made() {
        let blocking = Blocking::new(THREADS_MAX).unwrap();
        let (release, released) = mpsc::channel::<()>();
        let (made, calls) = mpsc::channel::<ThreadId>();
        let released = Arc::new(Mutex::new(released));
        reactor().block_on(async {
            let mut hung: Vec<_> = (0..THREADS_MAX)
                .map(|_| {
                    let released = Arc::clone(&released);
                    Box::pin(blocking.run(move || released.lock().recv().is_err()))
                })
                .collect();
            assert!(hung.iter_mut().all(|call| call.now_or_never().is_none()));
            assert!(blocking.run(move || made.send(std::thread::current().id())).now_or_never().is_none());
            drop(release);
            join_all(hung).await;
            blocking.run(|| ()).await.unwrap();
        });
        assert!(calls.recv().is_err(), "the call was made");
    }

    #[test]
    fn a_call_that_panics_is_an_error_and_the_next_one_is_made() {
        let blocking = Blocking::new(THREADS_MAX).unwrap();
        reactor().block_on(async {
            for _ in 0..2 * THREADS_MAX {
                assert!(blocking.run(|| panic!("on purpose")).await.is_err());
            }
            assert_eq!(blocking.run(|| 7).await.unwrap(), 7);
        });
    }

    #[test]
    fn no_call_needs_a_thread_that_is_started_for_it() {
        // As if the system refused every further thread.
        let blocking = Blocking::keeping(2, 2).unwrap();
        let number = |count: usize| blocking.shared.state.lock().threads == count;
        assert!(number(2));
        reactor().block_on(async {
            let calls = (0..100_usize).map(|number| blocking.run(move || number));
            let sum: usize = join_all(calls).await.into_iter().map(Result::unwrap).sum();
            assert_eq!(sum, 99 * 100 / 2);
        });
        assert!(number(2));
    }
}
