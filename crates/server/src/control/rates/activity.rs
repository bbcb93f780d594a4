//! What volumes and caches did between two states of the server. All programs and pages that show rates take them from here.

use super::super::protocol::{Cache, Latency, Status, Volume};
use super::super::quantile::{Cumulative, quantile_us};
use nitro_cache::Missed;
use nitro_engine::metrics::LATENCY_BOUNDS_US;

/// Counters of a volume and of a cache, or the sums of all of them.
#[derive(Clone, Copy)]
pub(crate) struct Sample<'a> {
    pub(crate) volume: &'a Volume,
    pub(crate) cache: &'a Cache,
}

/// The time between two states of one server, in seconds.
pub(crate) fn seconds(before: &Status, now: &Status) -> f64 {
    (now.server.uptime_seconds - before.server.uptime_seconds).max(1e-3)
}

/// A volume in an earlier state; `None`: it was not there, or it was removed and added again, so that its counters began at 0.
pub(crate) fn earlier<'a>(before: &'a Status, now: &Volume) -> Option<&'a Volume> {
    let requests = |v: &Volume| (v.counters.reads, v.counters.writes, v.counters.read_extents());
    let is_later = |then: &&Volume| {
        let (then, now) = (requests(then), requests(now));
        then.0 <= now.0 && then.1 <= now.1 && then.2 <= now.2
    };
    before.volumes.iter().find(|then| then.name == now.name).filter(is_later)
}

/// A cache in an earlier state, in the same sense.
pub(crate) fn earlier_cache<'a>(before: &'a Status, now: &Cache) -> Option<&'a Cache> {
    let is_later = |then: &&Cache| then.counters.ssd_read_bytes <= now.counters.ssd_read_bytes;
    before.caches.iter().find(|then| then.name == now.name).filter(is_later)
}

/// The sums of volumes and of caches.
fn sums<'a>(volumes: impl Iterator<Item = &'a Volume>, caches: impl Iterator<Item = &'a Cache>) -> (Volume, Cache) {
    let sum = |sum: Cache, c: &Cache| Cache { counters: sum.counters.plus(&c.counters), ..sum };
    (volumes.fold(Volume::default(), sum_volumes), caches.fold(Cache::default(), sum))
}

fn sum_volumes(sum: Volume, v: &Volume) -> Volume {
    Volume {
        counters: sum.counters.plus(&v.counters),
        missed: sum_missed(sum.missed, v.missed),
        destaged_bytes: sum.destaged_bytes + v.destaged_bytes,
        waits: sum.waits.plus(&v.waits),
        read_hit_latency: sum_latencies(sum.read_hit_latency, v.read_hit_latency),
        read_miss_latency: sum_latencies(sum.read_miss_latency, v.read_miss_latency),
        write_latency: sum_latencies(sum.write_latency, v.write_latency),
        flush_latency: sum_latencies(sum.flush_latency, v.flush_latency),
        ..sum
    }
}

fn sum_missed(a: Missed, b: Missed) -> Missed {
    Missed {
        cold: a.cold + b.cold,
        evicted: a.evicted + b.evicted,
        overwritten: a.overwritten + b.overwritten,
        refused: a.refused + b.refused,
        dropped: a.dropped + b.dropped,
        invalidated: a.invalidated + b.invalidated,
        stream: a.stream + b.stream,
    }
}

/// Mean and counts of two latencies; percentiles are not computed.
fn sum_latencies(a: Latency, b: Latency) -> Latency {
    let count = a.count + b.count;
    let total_us = a.mean_us * a.count as f64 + b.mean_us * b.count as f64;
    let mut at_most = a.at_most;
    at_most.iter_mut().zip(b.at_most).for_each(|(sum, more)| *sum += more);
    Latency { count, mean_us: if count > 0 { total_us / count as f64 } else { 0.0 }, at_most, ..Latency::default() }
}

/// The times of the requests between two states, in microseconds; `None`: none was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) mean_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

impl Times {
    fn between(then: &Latency, now: &Latency) -> Self {
        let count = now.count.saturating_sub(then.count);
        let total_us = |l: &Latency| l.mean_us * l.count as f64;
        let quantile = |share| quantile_us(counts(then), counts(now), share);
        Self {
            mean_us: (count > 0).then(|| ((total_us(now) - total_us(then)) / count as f64).max(0.0)),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
        }
    }
}

fn counts(latency: &Latency) -> Cumulative<'_> {
    Cumulative { at_most: &latency.at_most, all: latency.count }
}

/// What was done between two states. Counters are per second, in the units of their names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Activity {
    pub(crate) seconds: f64,
    pub(crate) reads: f64,
    pub(crate) writes: f64,
    pub(crate) read_bytes: f64,
    pub(crate) write_bytes: f64,
    pub(crate) read_hit_extents: f64,
    pub(crate) read_not_hit_extents: f64,
    /// Percentage of the read extents that were hits; `None`: nothing was read.
    pub(crate) hit_percent: Option<f64>,
    pub(crate) origin_reads: f64,
    pub(crate) origin_writes: f64,
    pub(crate) destaged_bytes: f64,
    pub(crate) ssd_read_bytes: f64,
    pub(crate) ssd_written_bytes: f64,
    pub(crate) fills_dropped: f64,
    /// Extents that were missed, in the order of [`Missed`].
    pub(crate) missed: [f64; 7],
    /// Requests that waited, in the mean of the interval: for limits, for dirty data, for the journal, for RAM.
    pub(crate) waiting: [f64; 4],
    pub(crate) read_hit: Times,
    pub(crate) read_miss: Times,
    /// Hits and misses together.
    pub(crate) read: Times,
    pub(crate) write: Times,
    pub(crate) flush: Times,
}

impl Activity {
    /// Of one volume and its cache, or of the sums.
    pub(crate) fn between(then: Sample<'_>, now: Sample<'_>, seconds: f64) -> Self {
        let (Sample { volume: then, cache: cache_then }, Sample { volume: now, cache }) = (then, now);
        let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / seconds;
        let (c, o) = (&now.counters, &then.counters);
        let (waits, waited) = (&now.waits, &then.waits);
        let waiting = |then: u64, now: u64| rate(then, now) / 1e6;
        let missed = causes(now.missed).into_iter().zip(causes(then.missed));
        let mut missed_rates = [0.0; 7];
        missed_rates.iter_mut().zip(missed).for_each(|(sum, (now, then))| *sum = rate(then, now));
        let reads = |v: &Volume| sum_latencies(v.read_hit_latency, v.read_miss_latency);
        Self {
            seconds,
            reads: rate(o.reads, c.reads),
            writes: rate(o.writes, c.writes),
            read_bytes: rate(o.read_bytes, c.read_bytes),
            write_bytes: rate(o.write_bytes, c.write_bytes),
            read_hit_extents: rate(o.read_hit_extents, c.read_hit_extents),
            read_not_hit_extents: rate(o.read_not_hit_extents(), c.read_not_hit_extents()),
            hit_percent: Seen::of(now).since(&Seen::of(then)).hit_percent(),
            origin_reads: rate(o.origin_reads, c.origin_reads),
            origin_writes: rate(o.origin_writes, c.origin_writes),
            destaged_bytes: rate(then.destaged_bytes, now.destaged_bytes),
            ssd_read_bytes: rate(cache_then.counters.ssd_read_bytes, cache.counters.ssd_read_bytes),
            ssd_written_bytes: rate(cache_then.counters.ssd_written_bytes(), cache.counters.ssd_written_bytes()),
            fills_dropped: rate(cache_then.counters.fills_dropped, cache.counters.fills_dropped),
            missed: missed_rates,
            waiting: [
                waiting(waited.limit_waited_us, waits.limit_waited_us),
                waiting(waited.dirty_waited_us, waits.dirty_waited_us),
                waiting(waited.journal_waited_us, waits.journal_waited_us),
                waiting(waited.ram_waited_us, waits.ram_waited_us),
            ],
            read_hit: Times::between(&then.read_hit_latency, &now.read_hit_latency),
            read_miss: Times::between(&then.read_miss_latency, &now.read_miss_latency),
            read: Times::between(&reads(then), &reads(now)),
            write: Times::between(&then.write_latency, &now.write_latency),
            flush: Times::between(&then.flush_latency, &now.flush_latency),
        }
    }

    /// Of all volumes and caches that are there now.
    pub(crate) fn of_all(before: &Status, now: &Status) -> Self {
        let then = sums(
            now.volumes.iter().filter_map(|v| earlier(before, v)),
            now.caches.iter().filter_map(|c| earlier_cache(before, c)),
        );
        let sums = sums(now.volumes.iter(), now.caches.iter());
        let sample = |(volume, cache)| Sample { volume, cache };
        Self::between(sample((&then.0, &then.1)), sample((&sums.0, &sums.1)), seconds(before, now))
    }
}

/// The causes of misses, in a fixed order.
fn causes(missed: Missed) -> [u64; 7] {
    let Missed { cold, evicted, overwritten, refused, dropped, invalidated, stream } = missed;
    [cold, evicted, overwritten, refused, dropped, invalidated, stream]
}

/// What is kept of a volume for hours: hits, and the times of all reads and writes, since the server's start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) read_hit_extents: u64,
    pub(crate) read_extents: u64,
    at_most: [u64; LATENCY_BOUNDS_US.len()],
    timed: u64,
}

impl Seen {
    pub(crate) fn of(v: &Volume) -> Self {
        let requests = sum_latencies(sum_latencies(v.read_hit_latency, v.read_miss_latency), v.write_latency);
        let (hits, extents) = (v.counters.read_hit_extents, v.counters.read_extents());
        Self { read_hit_extents: hits, read_extents: extents, at_most: requests.at_most, timed: requests.count }
    }

    /// What was added since then. The counters of a volume that was removed and added again begin at 0.
    pub(crate) fn since(&self, then: &Self) -> Self {
        let mut added = *self;
        if then.read_extents <= self.read_extents && then.timed <= self.timed {
            added.read_hit_extents = self.read_hit_extents.saturating_sub(then.read_hit_extents);
            added.read_extents -= then.read_extents;
            added.timed -= then.timed;
            added.at_most.iter_mut().zip(then.at_most).for_each(|(now, then)| *now = now.saturating_sub(then));
        }
        added
    }

    /// Percentage of the extents that were hits; `None`: nothing was read.
    pub(crate) fn hit_percent(&self) -> Option<f64> {
        (self.read_extents > 0).then(|| 100.0 * self.read_hit_extents as f64 / self.read_extents as f64)
    }

    /// The time in microseconds that 99 % of the reads and writes did not exceed.
    pub(crate) fn p99_us(&self) -> Option<f64> {
        let none = Cumulative { at_most: &[0; LATENCY_BOUNDS_US.len()], all: 0 };
        quantile_us(none, Cumulative { at_most: &self.at_most, all: self.timed }, 0.99)
    }
}
