//! Threads that share the work of a command. No thread outlives its command.

use crate::cos::failed;
use futures_util::future::join_all;
use nitro_console::error::Error;
use nitro_device::{CompioClock, ReactorThread, spawn_thread};
use nitro_port::Clock;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a thread checks the progress of others.
const TURN: Duration = Duration::from_millis(2);

/// State that the threads share.
pub(super) trait Shared: Send + Sync + 'static {
    /// Lets all threads end soon: one failed, or the command was cancelled.
    fn end(&self);
}

/// Why a thread failed.
pub(super) enum Failed {
    Store(nitro_cos::Error),
    /// The file that is imported or exported.
    File(std::io::Error),
    /// Something that has words already.
    Other(Error),
}

impl From<nitro_cos::Error> for Failed {
    fn from(error: nitro_cos::Error) -> Self {
        Self::Store(error)
    }
}

impl Failed {
    /// The error, of the store at `store`, or of the file called `file`.
    pub(super) fn of(self, store: &Path, file: impl Display) -> Error {
        match self {
            Self::Store(error) => failed(store, &error),
            Self::File(error) => Error::new(file, error),
            Self::Other(error) => error,
        }
    }
}

/// Ends all threads if one panics or fails.
struct Guard<S: Shared> {
    shared: Arc<S>,
    is_well: bool,
}

impl<S: Shared> Drop for Guard<S> {
    fn drop(&mut self) {
        if !self.is_well {
            self.shared.end();
        }
    }
}

/// The threads of a command. When this is dropped, it ends the threads and waits for them.
pub(super) struct Workers<S: Shared> {
    name: &'static str,
    threads: Vec<ReactorThread<Result<(), Failed>>>,
    shared: Arc<S>,
}

impl<S: Shared> Workers<S> {
    /// Starts `count` threads; `work` returns the function that the thread of a number runs.
    pub(super) fn start<W, F>(
        name: &'static str,
        count: usize,
        shared: &Arc<S>,
        work: impl Fn(usize, Arc<S>) -> W,
    ) -> Result<Self, Error>
    where
        W: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<(), Failed>>,
    {
        let mut workers = Self { name, threads: Vec::new(), shared: Arc::clone(shared) };
        for number in 0..count {
            let work = work(number, Arc::clone(shared));
            let shared = Arc::clone(shared);
            let thread = spawn_thread(name, move || async move {
                let mut guard = Guard { shared, is_well: false };
                let done = work().await;
                guard.is_well = done.is_ok();
                done
            });
            workers.threads.push(thread.map_err(|e| Error::with_sources("threads", &e))?);
        }
        Ok(workers)
    }

    /// Waits for the threads, and calls `meanwhile` from time to time, and once more when they have ended. The first
    /// error of a thread is returned as an error of the store at `store`, or of the file called `file`.
    pub(super) async fn finish(
        mut self,
        (store, file): (&Path, impl Display),
        mut meanwhile: impl AsyncFnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            let ended = self.threads.iter().all(ReactorThread::is_finished);
            meanwhile().await?;
            if ended {
                break;
            }
            pause().await;
        }
        let done: Vec<_> = self.threads.drain(..).map(ReactorThread::join).collect();
        done.into_iter().try_for_each(|done| match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failed)) => Err(failed.of(store, &file)),
            Err(_) => Err(Error::new(self.name, "a thread panicked")),
        })
    }
}

impl<S: Shared> Drop for Workers<S> {
    fn drop(&mut self) {
        if self.threads.is_empty() {
            return;
        }
        self.shared.end();
        for thread in self.threads.drain(..) {
            // Whoever drops them has another error to tell.
            drop(thread.join());
        }
    }
}

/// Runs several copies of an operation concurrently: while some wait for the store, another works. When one fails, the
/// others are ended and waited for: a request in progress is never cancelled.
pub(super) async fn at_once<F: Future<Output = Result<(), Failed>>>(
    shared: &impl Shared,
    copies: usize,
    work: impl Fn() -> F,
) -> Result<(), Failed> {
    let each = (0..copies).map(|_| async {
        let done = work().await;
        if done.is_err() {
            shared.end();
        }
        done
    });
    join_all(each).await.into_iter().collect()
}

/// Waits until other threads may have made progress.
pub(in crate::cos) async fn pause() {
    CompioClock::new().sleep(TURN).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_device::Reactor;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

    #[derive(Default)]
    struct Flag {
        ended: AtomicBool,
        left: AtomicUsize,
    }

    impl Shared for Flag {
        fn end(&self) {
            self.ended.store(true, SeqCst);
        }
    }

    /// Works until it is ended.
    async fn endless(shared: &Flag) -> Result<(), Failed> {
        while !shared.ended.load(SeqCst) {
            pause().await;
        }
        shared.left.fetch_add(1, SeqCst);
        Ok(())
    }

    /// Three threads, of which the second does something else; the first is one that ends only when it is told to.
    fn start(other: fn() -> Result<(), Failed>) -> (Workers<Flag>, Arc<Flag>) {
        let shared = Arc::new(Flag::default());
        let workers = Workers::start("test", 3, &shared, move |number, shared| {
            move || async move { if number == 1 { other() } else { endless(&shared).await } }
        });
        (workers.unwrap(), shared)
    }

    fn finish(workers: Workers<Flag>, meanwhile: impl AsyncFnMut() -> Result<(), Error>) -> String {
        let done = Reactor::new().unwrap().block_on(workers.finish((Path::new("st"), "file"), meanwhile));
        done.unwrap_err().to_string()
    }

    #[test]
    fn a_thread_that_fails_ends_the_others() {
        let (workers, shared) = start(|| Err(Failed::File(std::io::ErrorKind::BrokenPipe.into())));
        let error = finish(workers, async || Ok(()));
        assert!(error.contains("file: broken pipe"), "{error}");
        assert_eq!(shared.left.load(SeqCst), 2);
    }

    #[test]
    fn a_thread_that_panics_ends_the_others() {
        let (workers, shared) = start(|| panic!("on purpose"));
        let error = finish(workers, async || Ok(()));
        assert!(error.contains("a thread panicked"), "{error}");
        assert_eq!(shared.left.load(SeqCst), 2);
    }

    #[test]
    fn an_error_of_whoever_waits_ends_the_threads() {
        let (workers, shared) = start(|| Ok(()));
        let error = finish(workers, async || Err(Error::new("test", "no")));
        assert!(error.contains("test: no"), "{error}");
        assert_eq!(shared.left.load(SeqCst), 2);
    }
}
