//! Independent experiments on several threads.

use nitro_console::error::Error;
use parking_lot::Mutex;
use std::thread::{Builder, available_parallelism, scope};

/// Bytes of a thread's stack: as many as the main thread usually has.
const STACK_BYTES: usize = 8 << 20;

/// The threads to use: those that were asked for, or as many as the machine has cores.
pub(crate) fn threads_or_cores(asked: Option<u16>) -> usize {
    asked.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from)
}

/// Runs `each` on all jobs, at most `threads` at a time, in the order of the jobs; returns the results in the same order.
///
/// # Errors
/// A thread cannot be started. A panic of a job is passed on.
pub(crate) fn in_parallel<J: Send, R: Send>(
    threads: usize,
    jobs: Vec<J>,
    each: impl Fn(J) -> R + Sync,
) -> Result<Vec<R>, Error> {
    let count = jobs.len();
    let left = Mutex::new(jobs.into_iter().enumerate());
    let done = Mutex::new((0..count).map(|_| None).collect::<Vec<Option<R>>>());
    let work = || {
        loop {
            let next = left.lock().next();
            let Some((number, job)) = next else { break };
            let result = each(job);
            done.lock()[number] = Some(result);
        }
    };
    scope(|scope| {
        let start = |_| Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        let started: Vec<_> = (0..threads.clamp(1, count.max(1))).map(start).collect::<Result<_, _>>()?;
        started.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        Ok(())
    })
    .map_err(|e: std::io::Error| Error::new("threads", e).or("use fewer --threads"))?;
    let done = done.into_inner();
    Ok(done.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_jobs() {
        for threads in [1, 3, 100] {
            let squares = in_parallel(threads, (0..50u64).collect(), |n| n * n).unwrap();
            assert_eq!(squares, (0..50u64).map(|n| n * n).collect::<Vec<_>>());
        }
        assert!(in_parallel(2, Vec::<u64>::new(), |n| n).unwrap().is_empty());
    }
}
