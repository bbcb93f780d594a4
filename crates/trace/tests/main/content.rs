//! The content model: extents from blocks, and bytes against real LZ4 and gzip.

use crate::samples::reader;
use nitro_trace::content::{Compressibility, Contents, Extents, fill};
use nitro_trace::{Listed, Op, Reader, Request};
use nitro_units::{ClassId, Fingerprint};
use sha1::{Digest, Sha1};
use std::collections::HashSet;
use std::io::Read;

fn print(content: u8) -> Fingerprint {
    let mut print = [0; 20];
    print[..16].fill(content);
    Fingerprint(print)
}

fn request(op: Op, block: u64, contents: &[u8]) -> Request {
    let len = contents.len() as u64 * 4096;
    let fingerprints = contents.iter().map(|&content| print(content)).collect();
    Request { op, offset: block * 4096, len, block_bytes: 4096, fingerprints, ..Request::default() }
}

/// What the trace's requests read and write, extent by extent.
fn extents(trace: &[Request], extent_bytes: u64) -> Vec<Request> {
    let mut contents = Contents::new(extent_bytes).unwrap();
    contents.prepare(&mut Listed::new(trace.to_vec())).unwrap();
    Extents::new(Listed::new(trace.to_vec()), contents).requests().map(Result::unwrap).collect()
}

#[test]
fn an_extent_is_the_sha1_of_its_blocks() {
    let found = extents(&[request(Op::Write, 0, &[1, 2])], 8192);
    let expected: [u8; 20] = Sha1::digest([[1u8; 16], [2; 16]].concat()).into();
    assert_eq!(found[0].fingerprints, [Fingerprint(expected)]);
}

#[test]
fn every_extent_of_a_request_has_its_class() {
    let whole = Request { class: ClassId::new(5).unwrap(), ..request(Op::Write, 1, &[1, 2, 3]) };
    let found = extents(&[whole, request(Op::Read, 0, &[1])], 8192);
    assert_eq!(found.iter().map(|piece| piece.class.number()).collect::<Vec<_>>(), [5, 5, 0]);
}

#[test]
fn reads_tell_what_was_there_at_the_beginning() {
    // Block 1 is read last, but was there before block 0 was written: the first extent is 1, 2 from the beginning.
    let trace = [request(Op::Read, 0, &[1]), request(Op::Write, 0, &[3]), request(Op::Read, 1, &[2])];
    let found = extents(&trace, 8192);
    let same = extents(&[request(Op::Write, 10, &[1, 2]), request(Op::Write, 20, &[3, 2])], 8192);
    assert_eq!(found[0].fingerprints, same[0].fingerprints);
    assert_eq!(found[1].fingerprints, same[1].fingerprints);
    assert_eq!(found[2].fingerprints, same[1].fingerprints);
}

#[test]
fn what_is_written_first_was_unknown_before() {
    let trace = [request(Op::Read, 0, &[1]), request(Op::Write, 1, &[2]), request(Op::Read, 1, &[2])];
    let found = extents(&trace, 8192);
    assert_ne!(found[0].fingerprints, found[1].fingerprints, "block 1 was not 2 before it was written");
    assert_eq!(found[1].fingerprints, found[2].fingerprints);
    let elsewhere = extents(&[request(Op::Read, 4, &[1])], 8192);
    assert_ne!(found[0].fingerprints, elsewhere[0].fingerprints, "unknown blocks are unique");
}

#[test]
fn sectors_make_the_same_extents_wherever_they_lie() {
    let sectors = |block: u64| Request {
        op: Op::Write,
        offset: block * 4096,
        len: 4096,
        block_bytes: 512,
        fingerprints: (0..8).map(print).collect(),
        ..Request::default()
    };
    let found = extents(&[sectors(3), sectors(9)], 4096);
    assert_eq!(found[0].fingerprints, found[1].fingerprints);
    // A sector of it changes, and changes back.
    let sector =
        |content| Request { offset: 3 * 4096 + 512, len: 512, fingerprints: vec![print(content)], ..sectors(3) };
    let changed = extents(&[sectors(3), sector(77)], 4096);
    assert_ne!(changed[0].fingerprints, changed[1].fingerprints);
}

#[test]
fn requests_are_cut_at_extents_and_keep_their_addresses() {
    let found = extents(&[request(Op::Write, 1, &[1, 2, 3, 4])], 8192);
    let cut: Vec<_> = found.iter().map(|request| (request.offset, request.len, request.block_bytes)).collect();
    assert_eq!(cut, [(4096, 4096, 8192), (8192, 8192, 8192), (16384, 4096, 8192)]);
    assert!(found.iter().all(|request| request.fingerprints.len() == 1));
    assert!(Contents::new(6000).is_err() && Contents::new(2048).is_err());
}

#[test]
fn writes_without_fingerprints_are_unique() {
    let bare = |block| Request { fingerprints: Vec::new(), block_bytes: 0, ..request(Op::Write, block, &[0]) };
    let found = extents(&[bare(0), bare(0), bare(5)], 4096);
    let prints: HashSet<_> = found.iter().map(|request| request.fingerprints[0]).collect();
    assert_eq!(prints.len(), 3);
}

#[test]
fn duplicates_of_a_real_trace_shrink_with_larger_extents() {
    let shares: Vec<f64> = [4096, 8192, 32_768]
        .into_iter()
        .map_while(|extent_bytes| {
            let mut contents = Contents::new(extent_bytes).unwrap();
            contents.prepare(&mut reader("fiu/smalltrace.tsv")?).unwrap();
            let extents = Extents::new(reader("fiu/smalltrace.tsv")?, contents);
            let keys: HashSet<_> = extents
                .requests()
                .map(|request| (request.as_ref().unwrap().offset / extent_bytes, request.unwrap().fingerprints[0]))
                .collect();
            let prints: HashSet<_> = keys.iter().map(|(_, print)| print).collect();
            Some(1.0 - prints.len() as f64 / keys.len() as f64)
        })
        .collect();
    if let [small, medium, large] = shares[..] {
        assert!(small > medium && medium >= large, "{small} {medium} {large}");
    }
}

fn fingerprints(count: u64) -> impl Iterator<Item = Fingerprint> {
    (0..count).map(|number| Fingerprint(Sha1::digest(number.to_le_bytes()).into()))
}

#[test]
fn ratios_are_normal_with_the_papers_mean_and_variance() {
    let model = Compressibility::default();
    let ratios: Vec<f64> = fingerprints(200_000).map(|print| model.ratio(&print)).collect();
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / count;
    // The cut below 1, two deviations down, moves 2.3 % of the ratios up a little.
    assert!((mean - 2.004).abs() < 0.01, "{mean}");
    assert!((variance - 0.246).abs() < 0.01, "{variance}");
    assert!(ratios.iter().all(|&ratio| ratio >= 1.0));
    let cut = ratios.iter().filter(|&&ratio| ratio == 1.0).count() as f64 / count;
    assert!((cut - 0.02275).abs() < 0.002, "{cut}");
    let within = ratios.iter().filter(|&&ratio| (ratio - 2.0).abs() < 0.5).count() as f64 / count;
    assert!((within - 0.6827).abs() < 0.005, "{within}");
}

#[test]
fn real_lz4_reaches_the_ratio_within_5_percent() {
    let model = Compressibility::default();
    for extent_bytes in [4096, 8192, 16_384, 32_768, 65_536, 131_072] {
        let mut bytes = vec![0; extent_bytes];
        let (mut whole, mut expected) = (0, 0.0);
        for print in fingerprints(300) {
            let ratio = model.ratio(&print);
            fill(&print, ratio, &mut bytes);
            let compressed = lz4::block::compress(&bytes, None, false).unwrap().len().min(extent_bytes);
            let reached = extent_bytes as f64 / compressed as f64;
            assert!((reached / ratio - 1.0).abs() < 0.05, "{extent_bytes} bytes: {reached} instead of {ratio}");
            whole += compressed;
            expected += extent_bytes as f64 / ratio;
        }
        assert!((whole as f64 / expected - 1.0).abs() < 0.02, "{extent_bytes}: {whole} {expected}");
    }
}

#[test]
fn any_ratio_from_1_to_8_is_reached() {
    let mut bytes = vec![0; 8192];
    for (step, print) in (0..).zip(fingerprints(141)) {
        let ratio = 1.0 + 0.05 * f64::from(step);
        fill(&print, ratio, &mut bytes);
        let reached = 8192.0 / lz4::block::compress(&bytes, None, false).unwrap().len().min(8192) as f64;
        assert!((reached / ratio - 1.0).abs() < 0.05, "{reached} instead of {ratio}");
    }
}

#[test]
fn gzip_is_denser_by_what_the_paper_found() {
    let model = Compressibility::default();
    let mut bytes = vec![0; 8192];
    let (mut lz4, mut gzip) = (0, 0);
    for print in fingerprints(200) {
        fill(&print, model.ratio(&print), &mut bytes);
        lz4 += lz4::block::compress(&bytes, None, false).unwrap().len();
        let mut packed = Vec::new();
        flate2::read::DeflateEncoder::new(&bytes[..], flate2::Compression::default()).read_to_end(&mut packed).unwrap();
        gzip += packed.len();
    }
    let denser = f64::from(lz4 as u32) / f64::from(gzip as u32) - 1.0;
    assert!((0.23..0.47).contains(&denser), "{denser}");
}

#[test]
fn bytes_are_a_function_of_the_fingerprint() {
    let made = |content, ratio| {
        let mut bytes = vec![0; 8192];
        fill(&print(content), ratio, &mut bytes);
        bytes
    };
    assert_eq!(made(1, 2.0), made(1, 2.0));
    assert_ne!(made(1, 2.0), made(2, 2.0));
    for len in [0, 1, 7, 100, 1025] {
        let mut bytes = vec![0; len];
        fill(&print(3), 2.0, &mut bytes);
    }
}
