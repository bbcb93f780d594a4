//! Response times by windows of virtual time.

use crate::Error;
use crate::outcome::{Latency, Pace};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The times for which devices have been busy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Busy {
    /// The sum over the origin's disks.
    pub(super) disks: Duration,
    /// The SSD.
    pub(super) ssd: Duration,
}

/// The response times of the requests that end in a window.
pub(super) struct Window {
    begin: Duration,
    busy: Busy,
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    last: Duration,
}

impl Window {
    /// A window that begins at `begin`, when devices have been busy for `busy`.
    pub(super) fn new(begin: Duration, busy: Busy) -> Result<Self, Error> {
        let histogram = || Histogram::new(3).map_err(|error| Error::Setting(error.to_string()));
        Ok(Self { begin, busy, reads: histogram()?, writes: histogram()?, last: begin })
    }

    /// Counts a request that started at `begun` and ends now.
    pub(super) fn note(&mut self, read: bool, begun: Duration, now: Duration) {
        let ns = now.saturating_sub(begun).as_nanos() as u64;
        let histogram = if read { &mut self.reads } else { &mut self.writes };
        // The histogram grows as needed; durations beyond 64 bits of nanoseconds do not occur.
        let _ = histogram.record(ns.max(1));
        self.last = now;
    }

    /// The results of the window.
    pub(super) fn pace(&self, busy: Busy, disks: u32) -> Pace {
        let seconds = self.last.saturating_sub(self.begin).as_secs_f64();
        let requests = self.reads.len() + self.writes.len();
        let per = |part: f64| if seconds > 0.0 { part / seconds } else { 0.0 };
        Pace {
            seconds,
            iops: per(requests as f64),
            read_response: latency(&self.reads),
            write_response: latency(&self.writes),
            disks_busy: per(busy.disks.saturating_sub(self.busy.disks).as_secs_f64() / f64::from(disks)).min(1.0),
            ssd_busy: per(busy.ssd.saturating_sub(self.busy.ssd).as_secs_f64()).min(1.0),
        }
    }
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    if histogram.is_empty() {
        return Latency::default();
    }
    let us = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e3;
    Latency {
        mean_us: histogram.mean() / 1e3,
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: histogram.max() as f64 / 1e3,
    }
}
