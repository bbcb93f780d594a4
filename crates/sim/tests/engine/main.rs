//! The server's engine and the simulator decide alike (Nitro §5.1: "we confirmed"): the same trace, one request after the
//! other, gives the same hits, duplicates, stored bytes and evictions, extent by extent.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bytes_of;
mod mixed;
mod origin;
mod real;
mod streams;

use nitro_cache::IndexKind;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::builtin;
use nitro_cache::class::{Allocation, Band, ClassPolicy, Comparison, Condition, Join, Rule, Rules};
use nitro_cache::destage::Watermarks;
use nitro_cache::eviction::EvictionKind;
use nitro_sim::workload::{Classified, Precedence};
use nitro_sim::{Settings, simulate, workload};
use nitro_trace::synth::{FiuLike, RandomReads};
use nitro_trace::{Listed, Op, Reader, Request, Split, TraceError};
use nitro_units::ClassId;
use std::sync::Arc;

/// What both count of one extent's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    read_hits: u64,
    read_misses: u64,
    content_hits: u64,
    flushes: u64,
    inserted_bytes: u64,
    unique_bytes: u64,
    stored_bytes: u64,
    evictions: u64,
    forwarded: u64,
    fingerprints_evicted: u64,
    cached_extents: u64,
    destaged_extents: u64,
    destage_writes: u64,
    around_extents: u64,
    ram_hits: u64,
    readahead_hits: u64,
    readahead_extents: u64,
    bypassed_extents: u64,
    /// In write-through.
    partial_writes: [u64; 3],
}

impl Counted {
    /// Extents that were read and are to be inserted.
    fn missed(&self) -> u64 {
        self.read_misses + self.content_hits
    }

    /// What was counted since `before`; what is cached is not a sum.
    fn since(&self, before: &Self) -> Self {
        Self {
            read_hits: self.read_hits - before.read_hits,
            read_misses: self.read_misses - before.read_misses,
            content_hits: self.content_hits - before.content_hits,
            flushes: self.flushes - before.flushes,
            inserted_bytes: self.inserted_bytes - before.inserted_bytes,
            unique_bytes: self.unique_bytes - before.unique_bytes,
            stored_bytes: self.stored_bytes - before.stored_bytes,
            evictions: self.evictions - before.evictions,
            forwarded: self.forwarded - before.forwarded,
            fingerprints_evicted: self.fingerprints_evicted - before.fingerprints_evicted,
            cached_extents: self.cached_extents,
            destaged_extents: self.destaged_extents - before.destaged_extents,
            destage_writes: self.destage_writes - before.destage_writes,
            around_extents: self.around_extents - before.around_extents,
            ram_hits: self.ram_hits - before.ram_hits,
            readahead_hits: self.readahead_hits - before.readahead_hits,
            readahead_extents: self.readahead_extents - before.readahead_extents,
            bypassed_extents: self.bypassed_extents - before.bypassed_extents,
            partial_writes: [0, 1, 2].map(|what| self.partial_writes[what] - before.partial_writes[what]),
        }
    }
}

/// Whether a request reads or writes.
fn has_contents(request: &Request) -> bool {
    matches!(request.op, Op::Read | Op::Write)
}

/// The reads and writes of a trace within a volume, cut into requests of one extent each, a nanosecond apart.
fn requests(reader: impl Reader, settings: &Settings, count: usize) -> Vec<Request> {
    let pieces = Split::new(reader, settings.extent_bytes.into()).requests().map(Result::unwrap);
    let wanted = pieces.filter(has_contents).take(count);
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
    let open = || -> Result<Box<dyn Reader>, TraceError> { Ok(Box::new(Listed::new(requests.as_ref().clone()))) };
    let settings = Settings { period_ns: 1, ..*settings };
    let mut pieces = workload::live(&open, settings.extent_bytes).unwrap();
    let outcome = simulate(&mut pieces, &settings, &mut |_| true).unwrap();
    let counted = |m: &nitro_sim::Measures| Counted {
        read_hits: m.read_extent_hits,
        read_misses: m.read_extents - m.read_extent_hits,
        content_hits: m.content_hits,
        flushes: m.flushes,
        inserted_bytes: m.inserted_bytes,
        unique_bytes: m.unique_bytes,
        stored_bytes: m.stored_bytes,
        evictions: m.evictions,
        forwarded: m.forwarded_extents,
        fingerprints_evicted: m.fingerprints_evicted,
        cached_extents: m.cached_extents,
        destaged_extents: m.destaged_extents,
        destage_writes: m.destage_writes,
        around_extents: m.around_extents,
        ram_hits: m.ram_hits,
        readahead_hits: m.readahead_hits,
        readahead_extents: m.readahead_extents,
        bypassed_extents: m.bypassed_extents,
        partial_writes: match settings.write_back {
            None => [m.merged_extents, m.completed_extents, m.fetched_extents],
            Some(_) => [0; 3],
        },
    };
    outcome.periods.iter().map(counted).collect()
}

fn sum(all: &[Counted], of: impl Fn(&Counted) -> u64) -> u64 {
    all.iter().map(of).sum()
}

/// Runs both: the requests, what the simulator counts of each, and what the engine does.
fn both(reader: impl Reader, settings: &Settings, count: usize) -> (Arc<Vec<Request>>, Vec<Counted>, Vec<Counted>) {
    both_of(requests(reader, settings, count), settings)
}

fn both_of(requests: Vec<Request>, settings: &Settings) -> (Arc<Vec<Request>>, Vec<Counted>, Vec<Counted>) {
    let requests = Arc::new(requests);
    let simulated = simulated(&requests, settings);
    let real = real::replay(&requests, settings);
    assert_eq!((simulated.len(), real.len()), (requests.len(), requests.len()));
    // A comparison of two caches that do nothing would say nothing.
    assert!(sum(&real, |c| c.evictions) > 20 && sum(&real, |c| c.read_hits) > 500, "{:?}", real.last());
    (requests, simulated, real)
}

/// Runs both, and gives what they agree on.
fn agreed(reader: impl Reader, settings: &Settings, count: usize) -> Vec<Counted> {
    compared(both(reader, settings, count))
}

fn compared((requests, simulated, real): (Arc<Vec<Request>>, Vec<Counted>, Vec<Counted>)) -> Vec<Counted> {
    // With the last request, the simulator packs what is still staged.
    for (number, (simulated, real)) in simulated.iter().zip(&real).enumerate().take(requests.len() - 1) {
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

#[test]
fn with_a_lean_index() {
    let lean = Settings { index: IndexKind::Lean, ..small(true, true, 4096) };
    let real = agreed(random_reads(96 << 20).reader().unwrap(), &lean, 40_000);
    assert!(sum(&real, |c| c.inserted_bytes) > sum(&real, |c| c.unique_bytes));
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

/// The first sixth of the volume in class 20, the next in 21, the next in 22.
fn by_place(requests: Vec<Request>, volume_bytes: u64) -> Vec<Request> {
    let rule = |class: u8, sixth: u64| {
        let until = Condition::Offset(Comparison::Lt, volume_bytes * sixth / 6);
        Rule { class: ClassId::new(class).unwrap(), conditions: vec![(Join::And, until)] }
    };
    let rules = Arc::new(Rules(vec![rule(20, 1), rule(21, 2), rule(22, 3)]));
    Classified::new(Listed::new(requests), rules, Precedence::Trace).requests().map(Result::unwrap).collect()
}

/// A cache with a class of the highest priority, one that is admitted at its second access, and one that is not admitted.
fn with_classes() -> Settings {
    let mut settings = Settings { cache_bytes: 72 * (512 << 10), ..small(false, false, 4096) };
    let usual = ClassPolicy::default();
    let highest = ClassPolicy { priority: Band::ALL[3], max_percent: 40, ..usual };
    let twice = ClassPolicy { allocation: Allocation::SecondAccess, min_percent: 5, ..usual };
    let never = ClassPolicy { allocation: Allocation::Never, ..usual };
    for (class, policy) in [(20, highest), (21, twice), (22, never)] {
        settings.classes.set(ClassId::new(class).unwrap(), policy);
    }
    settings
}

/// Hits by request of a class, counted by `count`, with and without the policies of classes.
fn hits_with_and_without(settings: &Settings, class: u8, count: impl Fn(&Counted) -> u64) -> (u64, u64) {
    let classed = by_place(requests(random_reads(96 << 20).reader().unwrap(), settings, 40_000), 96 << 20);
    let hits = |settings: &Settings| -> u64 {
        let real = compared(both_of(classed.clone(), settings));
        let of_class = real.iter().zip(&classed).filter(|(_, request)| request.class.number() == class);
        of_class.map(|(counted, _)| count(counted)).sum()
    };
    (hits(settings), hits(&Settings { classes: Default::default(), ..*settings }))
}

#[test]
fn with_policies_of_classes() {
    let (with, without) = hits_with_and_without(&with_classes(), 20, |c| c.read_hits);
    assert!(with > without, "{with} hits of the highest class, {without} where all deserve the same");
    assert_eq!(hits_with_and_without(&with_classes(), 22, |c| c.read_hits).0, 0);
}

/// The same cache with priorities for the classes that follow from the pattern of the requests.
fn with_patterns(settings: Settings) -> Settings {
    let mut settings = Settings { patterns: true, cache_bytes: 72 * (512 << 10), ..settings };
    for (class, priority) in [(builtin::SCAN, 0), (builtin::READ_ONCE, 1), (builtin::RANDOM, 3)] {
        settings.classes.set(class, ClassPolicy { priority: Band::ALL[priority], ..ClassPolicy::default() });
    }
    settings
}

#[test]
fn with_classes_by_pattern() {
    let trace = || random_reads(96 << 20).reader().unwrap();
    let plain = small(false, false, 4096);
    for settings in [plain, behind_ram(plain), staging(plain)] {
        let with = with_patterns(settings);
        let hits = |settings| sum(&agreed(trace(), &settings, 40_000), |c| c.read_hits);
        let (with, without) = (hits(with), hits(Settings { patterns: false, ..with }));
        assert_ne!(with, without, "the classes by pattern have no effect");
    }
}

#[test]
fn with_classes_by_pattern_of_writes() {
    let trace = || FiuLike::web_vm(0.02, 3).reader().unwrap();
    for settings in [small(false, false, 8192), writing_back(small(false, false, 8192))] {
        let real = agreed(trace(), &with_patterns(settings), 20_000);
        assert!(sum(&real, |c| c.evictions) > 20);
    }
}

#[test]
fn with_policies_of_classes_behind_a_ram_cache() {
    let (with, without) = hits_with_and_without(&behind_ram(with_classes()), 20, |c| c.ram_hits);
    assert!(
        with > without + without / 2,
        "{with} hits in RAM of the highest class, {without} where all deserve the same"
    );
}

/// The same cache in write-back; the age of what is dirty plays no part.
fn writing_back(settings: Settings) -> Settings {
    let marks = Watermarks { age_seconds: 1 << 30, ..Watermarks::USUAL };
    Settings { write_back: Some(marks), ..settings }
}

#[test]
fn in_write_back() {
    let settings = writing_back(by_worth(false, false, 8192));
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &settings, 20_000);
    let (extents, writes) = (sum(&real, |c| c.destaged_extents), sum(&real, |c| c.destage_writes));
    assert!(extents > 1000 && writes < extents, "{extents} extents destaged with {writes} writes");
}

/// Written extents of a class that is never cached, and the first of those of another, go around the cache.
#[test]
fn in_write_back_with_policies_of_classes() {
    let settings = writing_back(Settings { extent_bytes: 8192, ..with_classes() });
    let all = requests(FiuLike::web_vm(0.01, 3).reader().unwrap(), &settings, 20_000);
    let volume_bytes = all.iter().map(|request| request.offset + request.len).max().unwrap();
    let classed = by_place(all, volume_bytes);
    let real = compared(both_of(classed.clone(), &settings));
    let around = |number: u8| {
        let of_class = real.iter().zip(&classed).filter(|(_, request)| request.class.number() == number);
        of_class.map(|(counted, _)| counted.around_extents).sum::<u64>()
    };
    assert!(around(21) > 100 && around(22) > 100, "{} and {}", around(21), around(22));
    assert_eq!(around(20), 0);
    assert!(sum(&real, |c| c.destaged_extents) > 100);
}

#[test]
fn in_write_back_with_duplicates() {
    let settings = writing_back(by_worth(true, false, 4096));
    let real = agreed(FiuLike::homes(0.002, 4).reader().unwrap(), &settings, 30_000);
    assert!(sum(&real, |c| c.destaged_extents) > 1000);
    assert!(sum(&real, |c| c.inserted_bytes) > sum(&real, |c| c.unique_bytes) * 11 / 10);
}

#[test]
fn in_write_back_with_compression() {
    for flush_every in [1, 16] {
        let settings = Settings { flush_every, ..writing_back(by_worth(true, true, 4096)) };
        let real = agreed(FiuLike::homes(0.002, 4).reader().unwrap(), &settings, 30_000);
        assert!(sum(&real, |c| c.destaged_extents) > 1000);
        assert!(sum(&real, |c| c.unique_bytes) > sum(&real, |c| c.stored_bytes) * 15 / 10);
    }
}

/// The same cache behind RAM for some extents.
fn behind_ram(settings: Settings) -> Settings {
    Settings { ram_bytes: 512 << 10, ..settings }
}

#[test]
fn behind_a_ram_cache() {
    let settings = behind_ram(by_worth(false, false, 8192));
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &settings, 20_000);
    let (in_ram, all) = (sum(&real, |c| c.ram_hits), sum(&real, |c| c.read_hits));
    assert!(in_ram > 300 && all > in_ram + 300, "{in_ram} of {all} hits in RAM");
}

#[test]
fn behind_a_ram_cache_in_write_back() {
    let settings = writing_back(behind_ram(by_worth(true, false, 8192)));
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &settings, 20_000);
    assert!(sum(&real, |c| c.ram_hits) > 300 && sum(&real, |c| c.destaged_extents) > 1000);
}

/// The same cache, with RAM in which content waits before it is packed.
fn staging(settings: Settings) -> Settings {
    Settings { staging_bytes: 512 << 10, ..settings }
}

#[test]
fn with_staging_of_parts_of_extents() {
    let without = by_worth(false, false, 8192);
    let trace = || FiuLike::web_vm(0.004, 3).reader().unwrap();
    let real = agreed(trace(), &staging(without), 20_000);
    let unstaged = agreed(trace(), &without, 20_000);
    let written = [sum(&real, |c| c.unique_bytes), sum(&unstaged, |c| c.unique_bytes)];
    assert!(written[0] * 10 < written[1] * 9, "{written:?} bytes reach the SSD with and without staging");
}

#[test]
fn with_staging_of_duplicates_that_are_compressed() {
    let real = agreed(FiuLike::homes(0.002, 4).reader().unwrap(), &staging(by_worth(true, true, 4096)), 40_000);
    assert!(sum(&real, |c| c.inserted_bytes) > sum(&real, |c| c.unique_bytes) * 11 / 10);
}

#[test]
fn with_staging_in_write_back_behind_a_ram_cache() {
    let settings = staging(writing_back(behind_ram(by_worth(true, false, 8192))));
    let real = agreed(FiuLike::web_vm(0.004, 3).reader().unwrap(), &settings, 20_000);
    assert!(sum(&real, |c| c.ram_hits) > 300 && sum(&real, |c| c.destaged_extents) > 1000);
}

/// The same cache before an origin that knows its contents by fingerprint.
fn with_recipes(settings: Settings) -> Settings {
    Settings { recipes: true, ..settings }
}

#[test]
fn with_recipes_of_the_origin() {
    let settings = with_recipes(by_worth(true, true, 4096));
    let real = agreed(FiuLike::homes(0.002, 4).reader().unwrap(), &settings, 40_000);
    assert!(sum(&real, |c| c.content_hits) > 50, "{}", sum(&real, |c| c.content_hits));
}

#[test]
fn with_recipes_of_the_origin_in_write_back_behind_a_ram_cache() {
    let settings = with_recipes(writing_back(behind_ram(by_worth(true, false, 8192))));
    let real = agreed(random_reads(48 << 20).reader().unwrap(), &settings, 20_000);
    assert!(sum(&real, |c| c.content_hits) > 1000, "{}", sum(&real, |c| c.content_hits));
    let real = agreed(FiuLike::homes(0.002, 4).reader().unwrap(), &settings, 20_000);
    assert!(sum(&real, |c| c.destaged_extents) > 1000);
}

#[test]
fn with_recipes_of_the_origin_and_staging() {
    let real =
        agreed(random_reads(48 << 20).reader().unwrap(), &staging(with_recipes(small(true, true, 4096))), 20_000);
    assert!(sum(&real, |c| c.content_hits) > 1000, "{}", sum(&real, |c| c.content_hits));
}

#[test]
fn with_random_reads_of_duplicates() {
    agreed(random_reads(48 << 20).reader().unwrap(), &small(true, true, 4096), 40_000);
}
