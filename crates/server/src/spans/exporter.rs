//! The thread that sends spans. It looks for them at intervals: the threads that serve clients wake nobody.

use super::collector::{ANSWER_BYTES_MAX, Collector, Failure};
use super::{Counts, Span, otlp};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

/// Maximum number of spans in a request to the collector.
const BATCH_MAX: usize = 512;
/// How often spans are sent, and how often a collector that did not accept any is tried again.
const INTERVAL: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// RAM of a span while it is encoded: twice its text, with the name of its volume, and what is encoded.
const ENCODED_BYTES: usize = 4 << 10;

/// The maximum RAM of the thread, in bytes.
pub(super) const RAM_BYTES: u64 = (BATCH_MAX * ENCODED_BYTES + 2 * ANSWER_BYTES_MAX) as u64;

/// What the thread has.
pub(super) struct Exporter {
    waiting: Receiver<Span>,
    collector: Collector,
    counts: Arc<Counts>,
    /// The spans that are sent next.
    batch: Vec<Span>,
    /// The collector did not accept the last spans.
    is_failing: bool,
}

impl Exporter {
    pub(super) fn new(waiting: Receiver<Span>, collector: Collector, counts: Arc<Counts>) -> Self {
        Self { waiting, collector, counts, batch: Vec::with_capacity(BATCH_MAX), is_failing: false }
    }

    /// Sends spans until the server ends.
    pub(super) fn run(mut self) {
        self.send_all();
        self.collector.close();
    }

    fn send_all(&mut self) {
        loop {
            let is_ending = self.counts.ending.load(Ordering::SeqCst);
            let room = BATCH_MAX - self.batch.len();
            self.batch.extend(self.waiting.try_iter().take(room));
            let is_full = self.batch.len() == BATCH_MAX;
            self.send();
            if is_ending && (self.is_failing || !is_full) {
                return self.drop_rest();
            }
            if self.is_failing {
                thread::park_timeout(RETRY_INTERVAL);
            } else if !is_full {
                thread::park_timeout(INTERVAL);
            }
        }
    }

    /// Sends the batch. If the collector is away, the batch waits.
    fn send(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let answer = match otlp::body(&self.batch) {
            Ok(body) => self.collector.post(body),
            Err(error) => Err(Failure::Refused(error.to_string())),
        };
        match answer {
            Ok(rejected) => {
                self.drop_batch(rejected);
                self.recovered();
            }
            Err(Failure::Away(why)) => self.failed(&why),
            Err(Failure::Refused(why)) => {
                self.drop_batch(self.batch.len() as u64);
                self.failed(&why);
            }
        }
    }

    /// Removes the batch, of which some spans were not accepted.
    fn drop_batch(&mut self, rejected: u64) {
        let all = self.batch.len() as u64;
        let rejected = rejected.min(all);
        self.counts.sent.fetch_add(all - rejected, Ordering::Relaxed);
        self.counts.dropped.fetch_add(rejected, Ordering::Relaxed);
        self.batch.clear();
    }

    fn failed(&mut self, why: &str) {
        if !self.is_failing {
            let url = &self.collector.url;
            tracing::warn!(
                "the collector {url} does not accept spans: {why}; volumes are served, spans may be dropped"
            );
        }
        self.is_failing = true;
    }

    fn recovered(&mut self) {
        if self.is_failing {
            let dropped = self.counts.dropped.load(Ordering::Relaxed);
            tracing::info!(
                "the collector {} accepts spans again; {dropped} were dropped since the start",
                self.collector.url
            );
        }
        self.is_failing = false;
    }

    /// Counts what is not sent any more.
    fn drop_rest(&mut self) {
        let rest = self.batch.len() + self.waiting.try_iter().count();
        self.counts.dropped.fetch_add(rest as u64, Ordering::Relaxed);
    }
}
