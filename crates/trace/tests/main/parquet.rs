//! Our own format: what is written is read back, and damage is told.

use bytes::Bytes;
use nitro_trace::parquet::{ParquetReader, ParquetWriter};
use nitro_trace::synth::FiuLike;
use nitro_trace::{BadRecords, ErrorKind, Op, Options, Reader, Request, TraceError, convert, open, summarize};
use nitro_units::{ClassId, Fingerprint};
use proptest::prelude::*;

fn written(requests: &[Request]) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ParquetWriter::new(&mut bytes, &[("source", "a test")]).unwrap();
    requests.iter().for_each(|request| writer.write(request).unwrap());
    assert_eq!(writer.finish().unwrap(), requests.len() as u64);
    bytes.into()
}

fn read(bytes: Bytes) -> Result<Vec<Request>, TraceError> {
    ParquetReader::new(bytes, BadRecords::Fatal)?.requests().collect()
}

fn request() -> impl Strategy<Value = Request> {
    let prints = prop::collection::vec(any::<[u8; 20]>().prop_map(Fingerprint), 0..4);
    (
        0..i64::MAX as u64,
        0..5usize,
        any::<u32>(),
        0..u64::from(u32::MAX),
        0u64..1 << 30,
        prints,
        any::<Option<u32>>(),
        0u8..32,
    )
        .prop_map(|(time_ns, op, object, offset, len, fingerprints, compressed_bytes, class)| {
            let block_bytes = if fingerprints.is_empty() { 0 } else { 4096 };
            let len = if fingerprints.is_empty() { len } else { fingerprints.len() as u64 * 4096 - len % 4096 };
            let (op, class) = (Op::ALL[op], ClassId::new(class).unwrap());
            Request { time_ns, op, object, offset, len, class, block_bytes, fingerprints, compressed_bytes }
        })
}

proptest! {
    #[test]
    fn requests_come_back(requests in prop::collection::vec(request(), 0..60)) {
        prop_assert_eq!(read(written(&requests)).unwrap(), requests);
    }
}

#[test]
fn a_trace_of_several_row_groups_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let generator = || FiuLike::homes(0.05, 1).reader().unwrap();
    let writer = ParquetWriter::create(&path, &[]).unwrap();
    let count = convert(&mut generator(), writer).unwrap();
    assert!(count > 1 << 17, "more than one row group: {count}");
    let mut back = open(&path, &Options::default()).unwrap().requests();
    for request in generator().requests() {
        assert_eq!(request.unwrap(), back.next().unwrap().unwrap());
    }
    assert!(back.next().is_none());
}

#[test]
fn a_flipped_bit_is_told_or_harmless() {
    let requests: Vec<_> =
        FiuLike::web_vm(0.0005, 1).reader().unwrap().requests().take(10).map(Result::unwrap).collect();
    let bytes = written(&requests).to_vec();
    let mut told = 0;
    for bit in (0..bytes.len() * 8).step_by(3) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        told += usize::from(read(flipped.into()).is_err());
    }
    // The pages have no checksums: a flip within values gives other values.
    assert!(told > bytes.len() / 2, "{told} of {} flips were told", bytes.len() * 8 / 3);
}

#[test]
fn notes_come_back_and_an_unknown_version_is_refused() {
    let bytes = written(&[]);
    assert_eq!(ParquetReader::new(bytes.clone(), BadRecords::Fatal).unwrap().note("source"), Some("a test"));
    assert_eq!(read(bytes.clone()).unwrap(), []);
    let key = b"nitro.trace";
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
    let version = at + bytes[at..].iter().position(|&byte| byte == b'1').unwrap();
    let mut other = bytes.to_vec();
    other[version] = b'7';
    let error = ParquetReader::new(Bytes::from(other), BadRecords::Fatal).err().unwrap();
    assert_eq!(error.kind, ErrorKind::Parquet);
    assert!(error.to_string().contains("version 7"), "{error}");
}

#[test]
fn a_request_that_breaks_its_promises_is_not_written() {
    let mut bytes = Vec::new();
    let mut writer = ParquetWriter::new(&mut bytes, &[]).unwrap();
    for bad in [
        Request { offset: i64::MAX as u64, len: 1, ..Request::default() },
        Request { time_ns: u64::MAX, ..Request::default() },
        Request { len: 4096, block_bytes: 4096, fingerprints: vec![Fingerprint([0; 20]); 2], ..Request::default() },
    ] {
        assert!(writer.write(&bad).is_err(), "{bad:?}");
    }
    writer.write(&Request::default()).unwrap();
    assert_eq!(writer.finish().unwrap(), 1);
    assert_eq!(summarize(&mut ParquetReader::new(Bytes::from(bytes), BadRecords::Fatal).unwrap()).unwrap().requests, 1);
}

/// Three groups of 40 requests, recoverable, and the length of the file behind each group.
fn in_groups(requests: &[Request]) -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let mut writer = ParquetWriter::create(&path, &[("source", "a test")]).unwrap().recoverable();
    let mut ends = Vec::new();
    for group in requests.chunks(40) {
        group.iter().for_each(|request| writer.write(request).unwrap());
        writer.end_group().unwrap();
        ends.push(std::fs::metadata(&path).unwrap().len() as usize);
    }
    writer.finish().unwrap();
    (std::fs::read(&path).unwrap(), ends)
}

#[test]
fn a_file_whose_writer_was_killed_is_read_up_to_its_last_whole_row_group() {
    let requests: Vec<_> =
        FiuLike::web_vm(0.0005, 1).reader().unwrap().requests().take(120).map(Result::unwrap).collect();
    let (whole, ends) = in_groups(&requests);
    assert_eq!(read(whole.clone().into()).unwrap(), requests);
    assert!(!ParquetReader::new(Bytes::from(whole.clone()), BadRecords::Fatal).unwrap().is_torn());
    for kept in (0..whole.len()).step_by(17).chain(ends.iter().flat_map(|&end| [end - 1, end, end + 1])) {
        let torn = Bytes::from(whole[..kept].to_vec());
        let groups = ends.iter().filter(|&&end| end <= kept).count();
        if groups == 0 {
            assert_eq!(read(torn).unwrap_err().kind, ErrorKind::Parquet, "{kept}");
            continue;
        }
        let reader = ParquetReader::new(torn.clone(), BadRecords::Fatal).unwrap();
        assert_eq!((reader.is_torn(), reader.note("source")), (true, Some("a test")));
        assert_eq!(read(torn).unwrap(), requests[..40 * groups], "{kept}");
    }
}

#[test]
fn flipped_bits_of_a_torn_file_are_told_or_harmless() {
    let requests: Vec<_> =
        FiuLike::web_vm(0.0005, 1).reader().unwrap().requests().take(80).map(Result::unwrap).collect();
    let (whole, ends) = in_groups(&requests);
    let mut other = 0;
    for bit in (0..ends[1] * 8).step_by(29) {
        let mut torn = whole[..ends[1]].to_vec();
        torn[bit / 8] ^= 1 << (bit % 8);
        other += usize::from(read(torn.into()).ok().as_deref() != Some(&requests));
    }
    assert!(other > 0, "some bit must count");
}
