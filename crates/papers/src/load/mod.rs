//! The load of an index: entries that follow from their numbers, and threads that insert and look them up.

mod behind;
pub mod bench;

pub use behind::{Behind, Measured};

use hdrhistogram::Histogram;
use nitro_console::error::Error;
use nitro_device::{ReactorThread, spawn_thread};
use nitro_index::{FlashIndex, Shape};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of operations that a task claims at a time.
const GRAB: u64 = 64;

/// The finaliser of SplitMix64.
pub fn mix(n: u64) -> u64 {
    let z = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// Fills `bytes` with a pseudo-random sequence of `n` and `salt`.
fn fill(bytes: &mut [u8], n: u64, salt: u64) {
    let mut state = mix(n.wrapping_add(salt));
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
        state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
    }
}

type Bytes = SmallVec<[u8; 32]>;

/// The entries of a shape, by number.
#[derive(Clone, Copy)]
pub struct Entries(pub Shape);

impl Entries {
    /// The key of entry `n`; different entries have different keys.
    pub fn key(self, n: u64) -> Bytes {
        let mut key = Bytes::from_elem(0, self.0.key_bytes.into());
        fill(&mut key, n, 0x6B65_7900);
        // The finaliser is a bijection: different numbers have different keys.
        key[..8].copy_from_slice(&mix(n.wrapping_add(1)).to_le_bytes());
        key
    }

    /// The value of entry `n`.
    pub fn value(self, n: u64) -> Bytes {
        let mut value = Bytes::from_elem(0, self.0.value_bytes.into());
        fill(&mut value, n, 0x7661_6C00);
        value
    }
}

/// Latencies of operations, with a precision of two digits.
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    /// An empty histogram.
    fn default() -> Self {
        // The bounds are valid: from 1 ns to an hour, with two digits.
        Self(Histogram::new_with_bounds(1, 3_600_000_000_000, 2).unwrap_or_else(|e| unreachable!("{e}")))
    }
}

impl Latencies {
    /// Adds the latency of one operation.
    pub fn add(&mut self, elapsed: Duration) {
        self.add_many(elapsed, 1);
    }

    /// Adds `operations` operations that each took `elapsed`.
    fn add_many(&mut self, elapsed: Duration, operations: u64) {
        self.0.saturating_record_n(elapsed.as_nanos() as u64, operations);
    }

    fn merge(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// The quantile `share` of the latencies, in microseconds.
    pub fn quantile_us(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1000.0
    }

    /// The mean latency, in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.0.mean() / 1000.0
    }

    /// The share of the operations that took at most `limit_us` microseconds.
    pub fn share_within_us(&self, limit_us: f64) -> f64 {
        self.0.count_between(0, (limit_us * 1000.0) as u64) as f64 / self.0.len().max(1) as f64
    }

    /// The longest latency, in microseconds.
    pub fn max_us(&self) -> f64 {
        self.0.max() as f64 / 1000.0
    }
}

/// The results of a load.
pub struct Outcome {
    /// The time from the start of the first operation to the end of the last.
    pub elapsed: Duration,
    /// The latencies of the operations.
    pub latencies: Latencies,
    /// Operations with the right result.
    pub right: u64,
    /// Operations with a wrong result.
    pub wrong: u64,
}

impl Outcome {
    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        (self.right + self.wrong) as f64 / self.elapsed.as_secs_f64()
    }

    /// Adds the results of a later part of the load.
    pub fn add(&mut self, part: &Self) {
        self.elapsed += part.elapsed;
        self.latencies.merge(&part.latencies);
        self.right += part.right;
        self.wrong += part.wrong;
    }
}

/// The concurrency of a load.
#[derive(Clone, Copy)]
pub struct Drive {
    /// The number of threads.
    pub threads: usize,
    /// Operations in progress, of all threads.
    pub depth: usize,
}

impl Drive {
    /// Runs `operation` for each of `numbers`; it returns whether the result was right. `show` gets the number of the first one,
    /// plus that of the operations that have ended.
    pub fn run<I, O>(
        self,
        index: &Arc<I>,
        numbers: Range<u64>,
        operation: O,
        show: impl Fn(u64),
    ) -> Result<Outcome, Error>
    where
        I: FlashIndex + Send + Sync + 'static,
        O: AsyncFn(&I, u64) -> Result<bool, nitro_index::Error> + Clone + Send + 'static,
    {
        let one = async move |index: &I, n: Range<u64>| operation(index, n.start).await.map(u64::from);
        self.run_batches(index, numbers, 1, one, show)
    }

    /// Runs `operation` for `batch` of `numbers` at a time; it returns the number of right results. The latency of each
    /// operation is that of its batch.
    pub fn run_batches<I, O>(
        self,
        index: &Arc<I>,
        numbers: Range<u64>,
        batch: u64,
        operation: O,
        show: impl Fn(u64),
    ) -> Result<Outcome, Error>
    where
        I: FlashIndex + Send + Sync + 'static,
        O: AsyncFn(&I, Range<u64>) -> Result<u64, nitro_index::Error> + Clone + Send + 'static,
    {
        let next = Arc::new(AtomicU64::new(numbers.start));
        let ended = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let tasks = self.depth.div_ceil(self.threads);
        let threads: Vec<_> = (0..self.threads)
            .map(|_| {
                let (index, next, operation) = (Arc::clone(index), Arc::clone(&next), operation.clone());
                let (ended, end) = (Arc::clone(&ended), numbers.end);
                let progress =
                    move || async move { work(&*index, (&next, &ended), end, (tasks, batch), &operation).await };
                spawn_thread("load", progress).map_err(|e| Error::with_sources("threads", &e))
            })
            .collect::<Result<_, _>>()?;
        while !threads.iter().all(ReactorThread::is_finished) {
            show(numbers.start + ended.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(if begun.elapsed() < Duration::from_secs(1) { 2 } else { 10 }));
        }
        let mut outcome = Outcome { elapsed: begun.elapsed(), latencies: Latencies::default(), right: 0, wrong: 0 };
        for thread in threads {
            let part = thread.join().map_err(|_| Error::new("index", "a thread of the load panicked"))?;
            let part = part.map_err(|e| Error::with_sources("index", &e))?;
            outcome.latencies.merge(&part.latencies);
            outcome.right += part.right;
            outcome.wrong += part.wrong;
        }
        Ok(outcome)
    }
}

struct Part {
    latencies: Latencies,
    right: u64,
    wrong: u64,
}

async fn work<I: FlashIndex, O: AsyncFn(&I, Range<u64>) -> Result<u64, nitro_index::Error>>(
    index: &I,
    (next, ended): (&AtomicU64, &AtomicU64),
    end: u64,
    (tasks, batch): (usize, u64),
    operation: &O,
) -> Result<Part, nitro_index::Error> {
    let parts = futures_util::future::try_join_all((0..tasks).map(|_| async move {
        let mut part = Part { latencies: Latencies::default(), right: 0, wrong: 0 };
        loop {
            let from = next.fetch_add(GRAB, Ordering::Relaxed);
            if from >= end {
                return Ok::<_, nitro_index::Error>(part);
            }
            let to = (from + GRAB).min(end);
            for first in (from..to).step_by(batch as usize) {
                let numbers = first..(first + batch).min(to);
                let (begun, count) = (Instant::now(), numbers.end - numbers.start);
                let right = operation(index, numbers).await?;
                part.latencies.add_many(begun.elapsed(), count);
                ended.fetch_add(count, Ordering::Relaxed);
                part.right += right;
                part.wrong += count - right;
            }
        }
    }))
    .await?;
    let mut all = Part { latencies: Latencies::default(), right: 0, wrong: 0 };
    for part in parts {
        all.latencies.merge(&part.latencies);
        all.right += part.right;
        all.wrong += part.wrong;
    }
    Ok(all)
}
