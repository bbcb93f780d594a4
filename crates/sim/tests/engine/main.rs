//! The server's engine and the simulator decide alike (Nitro §5.1: "we confirmed"): the same trace, one request after the
//! other, gives the same hits, duplicates, stored bytes and evictions, extent by extent.
//!
//! What the simulator does not model is off in the engine: the RAM cache, sequential detection with reading ahead.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bytes_of;
mod real;
#[path = "../../../engine/tests/main/simulation/mod.rs"]
#[expect(dead_code, unused_imports, reason = "others use more of it")]
mod simulation;

use nitro_cache::admission::AdmissionKind;
use nitro_cache::eviction::EvictionKind;
use nitro_sim::{Settings, simulate, workload};
use nitro_trace::synth::{FiuLike, RandomReads};
use nitro_trace::{Op, Reader, Request, Split, TraceError};
use std::sync::Arc;

/// What both count of one extent's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    read_hits: u64,
    read_misses: u64,
    inserted_bytes: u64,
    unique_bytes: u64,
    stored_bytes: u64,
    evictions: u64,
    forwarded: u64,
    fingerprints_evicted: u64,
    cached_extents: u64,
}

/// A trace in memory.
struct Kept {
    requests: Arc<Vec<Request>>,
    next: usize,
}

impl Reader for Kept {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let Some(kept) = self.requests.get(self.next) else { return Ok(false) };
        request.clone_from(kept);
        self.next += 1;
        Ok(true)
    }
}

/// The reads and writes of a trace within a volume, cut into requests of one extent each, a nanosecond apart.
fn requests(reader: impl Reader, settings: &Settings, count: usize) -> Vec<Request> {
    let pieces = Split::new(reader, settings.extent_bytes.into()).requests().map(Result::unwrap);
    let wanted = pieces.filter(|request| matches!(request.op, Op::Read | Op::Write)).take(count);
    let mut requests: Vec<_> = wanted.collect();
    pack(&mut requests, settings.extent_bytes.into());
    for (number, request) in requests.iter_mut().enumerate() {
        request.time_ns = number as u64;
        if settings.compress {
            request.compressed_bytes = Some(bytes_of::compressed_bytes(request));
        }
    }
    requests
}

/// Moves extents together, in the order of their first use, so that the volume is small.
fn pack(requests: &mut [Request], extent_bytes: u64) {
    let mut places = std::collections::HashMap::new();
    for request in requests {
        let next = places.len() as u64;
        let place = *places.entry(request.offset / extent_bytes).or_insert(next);
        request.offset = place * extent_bytes + request.offset % extent_bytes;
    }
}

fn simulated(requests: &Arc<Vec<Request>>, settings: &Settings) -> Vec<Counted> {
    let open =
        || -> Result<Box<dyn Reader>, TraceError> { Ok(Box::new(Kept { requests: Arc::clone(requests), next: 0 })) };
    let settings = Settings { period_ns: 1, ..*settings };
    let mut pieces = workload::live(&open, settings.extent_bytes).unwrap();
    let outcome = simulate(&mut pieces, &settings, &mut |_| true).unwrap();
    let counted = |m: &nitro_sim::Measures| Counted {
        read_hits: m.read_extent_hits,
        read_misses: m.read_extents - m.read_extent_hits,
        inserted_bytes: m.inserted_bytes,
        unique_bytes: m.unique_bytes,
        stored_bytes: m.stored_bytes,
        evictions: m.evictions,
        forwarded: m.forwarded_extents,
        fingerprints_evicted: m.fingerprints_evicted,
        cached_extents: m.cached_extents,
    };
    outcome.periods.iter().map(counted).collect()
}

fn sum(all: &[Counted], of: impl Fn(&Counted) -> u64) -> u64 {
    all.iter().map(of).sum()
}

/// Runs both: the requests, what the simulator counts of each, and what the engine does.
fn both(reader: impl Reader, settings: &Settings, count: usize) -> (Arc<Vec<Request>>, Vec<Counted>, Vec<Counted>) {
    let requests = Arc::new(requests(reader, settings, count));
    let simulated = simulated(&requests, settings);
    let real = real::replay(&requests, settings);
    assert_eq!((simulated.len(), real.len()), (requests.len(), requests.len()));
    // A comparison of two caches that do nothing would say nothing.
    assert!(sum(&real, |c| c.evictions) > 20 && sum(&real, |c| c.read_hits) > 500, "{:?}", real.last());
    (requests, simulated, real)
}

/// Runs both, and gives what they agree on.
fn agreed(reader: impl Reader, settings: &Settings, count: usize) -> Vec<Counted> {
    let (requests, simulated, real) = both(reader, settings, count);
    for (number, (simulated, real)) in simulated.iter().zip(&real).enumerate() {
        let request = &requests[number];
        let (op, offset, len) = (request.op, request.offset, request.len);
        assert_eq!(simulated, real, "request {number}: {op:?} of {len} bytes at {offset}; simulated, then real");
    }
    real
}

fn random_reads(working_set_bytes: u64) -> RandomReads {
    RandomReads { working_set_bytes, dedup_ratio: 3.0, request_bytes: 4096, requests: 40_000, interval_ns: 1, seed: 7 }
}

/// A cache of eight write-evict units of 512 KiB.
fn small(dedup: bool, compress: bool, extent_bytes: u32) -> Settings {
    Settings { weu_bytes: 512 << 10, dedup, compress, extent_bytes, ..Settings::new(8 * (512 << 10)) }
}

#[test]
fn with_duplicates_and_parts_of_extents() {
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &small(true, false, 8192), 20_000);
    assert!(sum(&real, |c| c.inserted_bytes) > sum(&real, |c| c.unique_bytes) * 11 / 10);
}

#[test]
fn without_duplicates_or_compression() {
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &small(false, false, 8192), 20_000);
    assert_eq!(sum(&real, |c| c.inserted_bytes), sum(&real, |c| c.unique_bytes));
}

#[test]
fn with_duplicates_and_compression() {
    let real = agreed(FiuLike::homes(0.002, 4).reader().unwrap(), &small(true, true, 4096), 40_000);
    assert!(sum(&real, |c| c.unique_bytes) > sum(&real, |c| c.stored_bytes) * 15 / 10);
}

#[test]
fn with_compression_alone() {
    let real = agreed(FiuLike::homes(0.001, 5).reader().unwrap(), &small(false, true, 4096), 20_000);
    assert!(sum(&real, |c| c.unique_bytes) > sum(&real, |c| c.stored_bytes) * 15 / 10);
}

#[test]
fn with_half_of_the_fingerprints() {
    let half = Settings { fingerprint_index_percent: 50, ..small(true, true, 4096) };
    let (_, simulated, real) = both(random_reads(16 << 20).reader().unwrap(), &half, 40_000);
    // Which of two fingerprints goes depends on their bits, and the two do not name contents alike: the engine hashes bytes,
    // the simulator the trace's fingerprints. What comes of it must be the same but for chance.
    for (name, of, tolerance) in [
        ("read hits", (|c| c.read_hits) as fn(&Counted) -> u64, 0.05),
        ("unique bytes", |c| c.unique_bytes, 0.05),
        ("evictions", |c| c.evictions, 0.05),
        ("fingerprints evicted", |c| c.fingerprints_evicted, 0.15),
    ] {
        let (simulated, real) = (sum(&simulated, of) as f64, sum(&real, of) as f64);
        assert!((simulated / real - 1.0).abs() < tolerance, "{name}: {simulated} simulated, {real} real");
    }
    assert!(sum(&real, |c| c.fingerprints_evicted) > 1000);
}

/// The server's own policies, with enough units that extents are copied forward.
fn by_worth(dedup: bool, compress: bool, extent_bytes: u32) -> Settings {
    let small = small(dedup, compress, extent_bytes);
    Settings {
        cache_bytes: 3 * small.cache_bytes,
        admission: AdmissionKind::default(),
        eviction: EvictionKind::default(),
        ..small
    }
}

#[test]
fn with_copies_forward() {
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &by_worth(false, false, 8192), 20_000);
    assert!(sum(&real, |c| c.forwarded) > 100);
}

#[test]
fn with_copies_forward_of_duplicates_that_are_compressed() {
    let real = agreed(random_reads(96 << 20).reader().unwrap(), &by_worth(true, true, 4096), 40_000);
    assert!(sum(&real, |c| c.forwarded) > 100);
}

#[test]
fn with_random_reads_of_duplicates() {
    agreed(random_reads(48 << 20).reader().unwrap(), &small(true, true, 4096), 40_000);
}
