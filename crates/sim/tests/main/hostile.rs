//! Traces with any addresses, lengths and times: a result or an error, never a panic.

use nitro_cache::destage::Watermarks;
use nitro_sim::mrc::{Sampling, Shards};
use nitro_sim::policies::{Feed, PolicyKind, each_name};
use nitro_sim::timing::{Load, Timing};
use nitro_sim::workload::{self, Pieces, Stored};
use nitro_sim::{Error, Settings, Variant, simulate};
use nitro_trace::{Listed, Op, Reader, Request, TraceError, summarize};
use nitro_units::{ClassId, Fingerprint};
use proptest::prelude::*;
use std::collections::HashSet;

fn open(requests: &[Request]) -> Result<Box<dyn Reader>, TraceError> {
    Ok(Box::new(Listed::new(requests.to_vec())))
}

/// A number near a power of two.
fn number(bits_max: u32) -> impl Strategy<Value = u64> {
    (0..=bits_max, -2i64..=2).prop_map(|(bits, by)| (1u64 << bits).wrapping_add_signed(by))
}

/// Any request that a reader may return; most are short.
fn request() -> impl Strategy<Value = Request> {
    let op = prop::sample::select(Op::ALL.to_vec());
    let len = prop_oneof![16 => 0u64..40_000, 2 => number(24), 1 => 1u64 << 60..=i64::MAX as u64];
    let time = prop_oneof![number(63), any::<u64>()];
    let object = prop_oneof![0u32..4, number(31).prop_map(|object| object as u32), any::<u32>()];
    let kinds = (any::<bool>(), prop::option::of(any::<u32>()), 0u8..32);
    (op, time, object, number(63), len, kinds).prop_map(
        |(op, time_ns, object, offset, len, (prints, compressed, class))| {
            let offset = offset.min(i64::MAX as u64);
            // Requests other than trims are shorter than 4 GiB; here even shorter, to be quick.
            let len = if op == Op::Trim { len } else { len.min(2 << 20) }.min(i64::MAX as u64 - offset);
            let blocks = if prints && len < 1 << 20 && op != Op::Trim { len.div_ceil(4096) } else { 0 };
            let fingerprints: Vec<_> = (0..blocks).map(|block| Fingerprint([block as u8; 20])).collect();
            Request {
                time_ns,
                op,
                object,
                offset,
                len,
                class: ClassId::new(class).unwrap_or_default(),
                block_bytes: if fingerprints.is_empty() { 0 } else { 4096 },
                fingerprints,
                compressed_bytes: compressed,
            }
        },
    )
}

/// Settings that use every part of the simulator.
fn all_settings(extent_bytes: u32) -> Vec<Settings> {
    let plain = Settings { extent_bytes, ..Settings::new(16 << 20) };
    let front = Settings { ram_bytes: 1 << 20, sequential_bytes: 1 << 20, patterns: true, ..plain };
    let back = Settings { write_back: Some(Watermarks::USUAL), ..front };
    let timed = Settings { timing: Some(Timing { load: Load::Open(1.0), ..Timing::default() }), ..back };
    let closed = Settings { timing: Some(Timing { load: Load::Closed(4), ..Timing::default() }), ..plain };
    let others = [
        Variant::Weu,
        Variant::Extent { ways: 0 },
        Variant::Extent { ways: 1 },
        Variant::ExtentLruMod,
        Variant::Naive,
        Variant::Policy(PolicyKind::Lru),
        Variant::Belady,
        Variant::None,
    ];
    let others = others.into_iter().map(|variant| Settings { variant, ..plain });
    [front, back, timed, closed].into_iter().chain(others).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_requests_give_results_or_errors(
        requests in prop::collection::vec(request(), 1..40),
        extent_bytes in prop::sample::select(vec![4096u32, 8192, 128 << 10]),
    ) {
        for settings in all_settings(extent_bytes) {
            let stored = match workload::stored(&|| open(&requests), extent_bytes) {
                Ok(stored) => stored,
                Err(error) => {
                    prop_assert!(error.to_string().contains("a trim of"), "{error}");
                    break;
                }
            };
            if settings.check().is_err() {
                continue;
            }
            match simulate(&mut stored.replay(), &settings, &mut |_| true) {
                Ok(outcome) => prop_assert!(outcome.measured.read_extent_hits <= outcome.measured.read_extents),
                Err(error) => prop_assert!(matches!(error, Error::Setting(_)), "{error}"),
            }
        }
        let summary = summarize(&mut *open(&requests).unwrap()).unwrap();
        prop_assert_eq!(summary.requests, requests.len() as u64);
        let mut shards = Shards::new(Sampling::Objects(64)).unwrap();
        let mut pieces = workload::without_contents(open(&requests).unwrap(), extent_bytes).unwrap();
        let mut batch = Vec::new();
        while let Ok(true) = pieces.next_batch(&mut batch) {
            batch.iter().for_each(|piece| shards.access(piece.key.raw()));
        }
        prop_assert!(shards.curve().points.iter().all(|point| point.miss_ratio <= 1.0));
        for block_bytes in [None, Some(1 << 20)] {
            let mut policy = PolicyKind::ALL[0].build(16);
            let mut feed = Feed::new(&mut *policy);
            if let Err(error) = each_name(&mut *open(&requests).unwrap(), block_bytes, |name| feed.push(name)) {
                prop_assert!(error.to_string().contains("blocks"), "{error}");
            }
        }
    }
}

/// All keys of requests, which touch an extent each.
fn keys(requests: &[Request]) -> HashSet<u64> {
    let stored: Stored = workload::stored(&|| open(requests), 4096).unwrap();
    let (mut replay, mut batch, mut keys) = (stored.replay(), Vec::new(), HashSet::new());
    while replay.next_batch(&mut batch).unwrap() {
        keys.extend(batch.iter().map(|piece| piece.key.raw()));
    }
    keys
}

#[test]
fn extents_of_different_disks_and_far_addresses_are_different() {
    let at = |object, offset| Request { op: Op::Read, object, offset, len: 512, ..Request::default() };
    // More disks than a key has numbers for; and of one, addresses that differ in their upper bits only.
    let mut requests: Vec<_> = (0..70_000).map(|object| at(object * 60_001, 4096)).collect();
    requests.extend((12..63).map(|bits| at(0, 1 << bits)));
    requests.extend((12..63).map(|bits| at(65_536, 1 << bits)));
    let distinct: HashSet<_> = requests.iter().map(|request| (request.object, request.offset)).collect();
    assert_eq!(keys(&requests).len(), distinct.len());
}

#[test]
fn a_long_trim_is_simulated_in_parts_and_one_without_end_is_an_error() {
    let trim = |len| Request { op: Op::Trim, len, ..Request::default() };
    let read = Request { op: Op::Read, offset: 20 << 30, len: 4096, ..Request::default() };
    let requests = [read.clone(), trim(40 << 30), read];
    let stored = workload::stored(&|| open(&requests), 128 << 10).unwrap();
    assert_eq!(stored.pieces(), 2 + (40 << 30 >> 17));
    let settings = Settings { extent_bytes: 128 << 10, ..Settings::new(64 << 20) };
    let outcome = simulate(&mut stored.replay(), &settings, &mut |_| true).unwrap();
    assert_eq!((outcome.measured.read_extents, outcome.measured.read_extent_hits), (2, 0), "it was trimmed");
    let error = workload::stored(&|| open(&[trim(i64::MAX as u64)]), 4096).unwrap_err().to_string();
    assert!(error.contains("a trim of 9223372036854775807 bytes at 0 of object 0"), "{error}");
}

#[test]
fn times_beyond_all_measure_are_an_error_where_time_counts() {
    let at = |time_ns| Request { time_ns, op: Op::Read, len: 4096, ..Request::default() };
    let stored = workload::stored(&|| open(&[at(0), at(u64::MAX)]), 8192).unwrap();
    let settings = Settings::new(64 << 20);
    assert_eq!(simulate(&mut stored.replay(), &settings, &mut |_| true).unwrap().measured.reads, 2);
    let timed = Settings { timing: Some(Timing { load: Load::Open(1.0), ..Timing::default() }), ..settings };
    let error = simulate(&mut stored.replay(), &timed, &mut |_| true).unwrap_err().to_string();
    assert!(error.contains("years"), "{error}");
}
