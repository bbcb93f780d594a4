//! Traces as extents.

use crate::{duplicates, run};
use nitro_cache::destage::Watermarks;
use nitro_sim::workload::{self, Piece, Pieces};
use nitro_sim::{Settings, Variant};
use nitro_trace::synth::FiuLike;
use nitro_trace::{Listed, Op, Reader, Request};
use std::collections::HashSet;

fn request(op: Op, object: u32, offset: u64, len: u64) -> Request {
    Request { time_ns: 7_000_000_000 + offset, op, object, offset, len, ..Request::default() }
}

fn pieces(requests: &[Request]) -> Vec<Piece> {
    let requests = requests.to_vec();
    let mut live = workload::live(&|| Ok(Box::new(Listed::new(requests.clone()))), 8192).unwrap();
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while live.next_batch(&mut batch).unwrap() {
        all.extend_from_slice(&batch);
    }
    all
}

#[test]
fn requests_are_cut_at_extents() {
    let all = pieces(&[
        request(Op::Write, 9, 4096, 16384),
        request(Op::Flush, 9, 0, 0),
        request(Op::Read, 5, 8192, 8192),
        request(Op::Trim, 9, 0, 512),
    ]);
    let told: Vec<_> =
        all.iter().map(|p| (p.op(), p.key.object().0, p.key.index().0, p.offset, p.len, p.is_last())).collect();
    let expected = [
        (Op::Write, 0, 0, 4096, 4096, false),
        (Op::Write, 0, 1, 0, 8192, false),
        (Op::Write, 0, 2, 0, 4096, true),
        (Op::Flush, 0, 0, 0, 0, true),
        (Op::Read, 1, 1, 0, 8192, true),
        (Op::Trim, 0, 0, 0, 512, true),
    ];
    assert_eq!(told, expected);
    assert_eq!((all[0].time_ns, all[4].time_ns), (0, 4096), "times begin with the trace");
}

#[test]
fn without_fingerprints_nothing_is_a_duplicate() {
    let reads: Vec<_> = (0..400).map(|n| request(Op::Read, 0, n % 100 * 8192, 8192)).collect();
    let prints: HashSet<_> = pieces(&reads).iter().map(|piece| piece.fingerprint.0).collect();
    assert_eq!(prints.len(), 400);
}

#[test]
fn many_volumes_keep_their_extents_apart() {
    let reads: Vec<_> = (0..70_000).map(|n| request(Op::Read, n * 3, 0, 8192)).collect();
    let keys: HashSet<_> = pieces(&reads).iter().map(|piece| piece.key).collect();
    assert_eq!(keys.len(), 70_000);
}

#[test]
fn duplicates_of_the_generator_are_found_whatever_its_block_size() {
    let workload = duplicates(20_000);
    let outcome = run(&workload, &Settings::new(128 << 20));
    // 8192 extents with 4096 contents; each extent is inserted once.
    let measured = outcome.measured;
    assert_eq!(measured.inserted_bytes / 8192, measured.read_extents - measured.read_extent_hits);
    assert!((measured.dedup_ratio - 2.0).abs() < 0.2, "{}", measured.dedup_ratio);
    assert!((measured.compression_ratio - 1.87).abs() < 0.05, "{}", measured.compression_ratio);
}

#[test]
fn pieces_kept_in_a_file_are_those_that_were_read() {
    // 48 bytes each: enough to leave RAM.
    let reader = || FiuLike::web_vm(0.2, 3).reader().map(|reader| Box::new(reader) as Box<dyn Reader>);
    let kept = workload::stored(&reader, 4096).unwrap();
    assert!(kept.pieces() * 48 > 64 << 20, "{} pieces", kept.pieces());
    let (mut live, mut again) = (workload::live(&reader, 4096).unwrap(), kept.replay());
    let (mut one, mut other) = (Vec::new(), Vec::new());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        if left.is_empty() && live.next_batch(&mut one).unwrap() {
            left = one.clone();
        }
        if right.is_empty() && again.next_batch(&mut other).unwrap() {
            right = other.clone();
        }
        let count = left.len().min(right.len());
        assert_eq!(left[..count], right[..count]);
        left.drain(..count);
        right.drain(..count);
        if count == 0 {
            break;
        }
    }
    assert_eq!((left.len(), right.len(), again.position()), (0, 0, kept.pieces()));
}

#[test]
fn two_runs_with_one_seed_are_identical_to_the_letter() {
    let told = |seed| {
        let reader = || FiuLike::mail(0.0003, 11).reader().map(|reader| Box::new(reader) as Box<dyn Reader>);
        let workload = workload::stored(&reader, 8192).unwrap();
        let variants = [Variant::Weu, Variant::WeuLruMod, Variant::ExtentLruTrim];
        let outcomes = variants.map(|variant| {
            let timing = Some(nitro_sim::timing::Timing::default());
            run(&workload, &Settings { variant, timing, seed, ..Settings::new(64 << 20) })
        });
        format!("{outcomes:?}")
    };
    assert_eq!(told(3), told(3));
    assert_ne!(told(3), told(4));
}

/// Writes of 8 KiB in a repeated order, each followed by the requests that `after` gives.
fn writes(after: &[Request]) -> workload::Stored {
    let write = |n: u64| Request { time_ns: n, ..request(Op::Write, 0, n * 7919 % 5000 * 8192, 8192) };
    let mut all = Vec::new();
    for n in 0..20_000 {
        all.push(write(n));
        all.extend(after.iter().map(|next| Request { time_ns: n, ..next.clone() }));
    }
    workload::stored(&|| Ok(Box::new(Listed::new(all.clone()))), 8192).unwrap()
}

#[test]
fn flushes_of_the_trace_make_writes_durable() {
    let settings = Settings { write_back: Some(Watermarks::USUAL), ..Settings::new(32 << 20) };
    let mut flushed = run(&writes(&[request(Op::Flush, 0, 0, 0)]), &settings).measured;
    assert_eq!((flushed.flushes, flushed.requests, flushed.writes), (20_000, 20_000, 20_000));
    flushed.flushes = 0;
    let by_setting = run(&writes(&[]), &Settings { flush_every: 1, ..settings }).measured;
    assert_eq!(flushed, by_setting);
    // Without flushes, extents take no whole blocks.
    let at_once = run(&writes(&[]), &settings).measured;
    assert!(at_once.ssd_bytes_written < flushed.ssd_bytes_written, "{at_once:?} {flushed:?}");
}

#[test]
fn a_trim_destages_what_is_dirty_in_its_range() {
    let settings = Settings { write_back: Some(Watermarks::USUAL), ..Settings::new(64 << 20) };
    let requests = vec![
        request(Op::Write, 0, 0, 3 * 8192),
        request(Op::Write, 0, 5 * 8192, 8192),
        request(Op::Trim, 0, 8192, 5 * 8192),
        request(Op::Read, 0, 0, 6 * 8192),
    ];
    for variant in [Variant::Weu, Variant::Policy(nitro_sim::policies::PolicyKind::Lru)] {
        let stored = workload::stored(&|| Ok(Box::new(Listed::new(requests.clone()))), 8192).unwrap();
        let measured = run(&stored, &Settings { variant, ..settings }).measured;
        assert_eq!((measured.destaged_extents, measured.destage_writes), (3, 2), "{variant}");
    }
    let stored = workload::stored(&|| Ok(Box::new(Listed::new(requests.clone()))), 8192).unwrap();
    assert_eq!(run(&stored, &settings).measured.read_extent_hits, 1, "the rest was trimmed");
}
