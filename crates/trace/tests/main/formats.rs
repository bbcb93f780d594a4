//! Formats by small examples: those without samples, bad records, compression, and columns that the user describes.

use nitro_trace::format::{BlockEvent, Columns};
use nitro_trace::{BadRecords, ErrorKind, Format, Merged, ObjectName, Op, Options, Place, Reader, Request, TraceError};
use nitro_trace::{Origin, SameDisks, open, open_stream, summarize};
use nitro_units::Fingerprint;
use proptest::prelude::*;
use std::io::{Cursor, Read, Write};

fn stream(bytes: impl Into<Vec<u8>>, options: &Options) -> Result<Box<dyn Reader>, TraceError> {
    open_stream(Cursor::new(bytes.into()), options)
}

/// All requests, recognised by content.
fn read(bytes: impl Into<Vec<u8>>) -> Vec<Request> {
    stream(bytes, &Options::default()).unwrap().requests().map(Result::unwrap).collect()
}

fn bare(time_ns: u64, op: Op, object: u32, offset: u64, len: u64) -> Request {
    Request { time_ns, op, object, offset, len, ..Request::default() }
}

#[test]
fn alibaba() {
    let text = "3,R,126703644672,4096,1577808000000626\n725,W,8192,16384,1577808000000668\n";
    let expected = [
        bare(1_577_808_000_000_626_000, Op::Read, 3, 126_703_644_672, 4096),
        bare(1_577_808_000_000_668_000, Op::Write, 725, 8192, 16_384),
    ];
    assert_eq!(read(text), expected);
}

#[test]
fn spc() {
    let text = "0,303567,3584,w,0.026214\n1,55590,3072,R,0.5,a field of its own\n";
    let expected =
        [bare(26_214_000, Op::Write, 0, 303_567 * 512, 3584), bare(500_000_000, Op::Read, 1, 55_590 * 512, 3072)];
    assert_eq!(read(text), expected);
}

#[test]
fn disksim_counts_milliseconds_where_there_is_a_point() {
    assert_eq!(read("1.5 0 8 16 1\n2.0 3 9 1 0\n")[0], bare(1_500_000, Op::Read, 0, 8 * 512, 8192));
    assert_eq!(read("15 0 8 16 1\n20 3 9 1 0\n")[1], bare(20_000, Op::Write, 3, 9 * 512, 512));
}

const BLKPARSE: &str = "\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kworker/3:1 x]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002197     0  m   N cfq697S / alloced
  8,16   1       11     0.009507758     0  C   R 223490 + 8 [0]
  8,0    3        4     0.000003513   697  P   N [kjournald]
  8,0    3        5     1.000005023   697  Q  DS 64 + 128 [fstrim]
  8,0    3        6     1.000005724   697  Q FWS [sync]
  8,0    3        7     1.000006000   697  Q FWS 8 + 8 [sync]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           3,       12KiB
";

#[test]
fn blkparse() {
    let expected = [
        bare(0, Op::Write, 8 << 20, 223_490 * 512, 4096),
        bare(1_000_005_023, Op::Trim, 8 << 20, 64 * 512, 65_536),
        bare(1_000_005_724, Op::Flush, 8 << 20, 0, 0),
        bare(1_000_006_000, Op::Write, 8 << 20, 4096, 4096),
    ];
    assert_eq!(read(BLKPARSE), expected);
    let completed = Options { event: BlockEvent::Completed, ..Options::default() };
    let requests: Vec<_> = stream(BLKPARSE, &completed).unwrap().requests().map(Result::unwrap).collect();
    assert_eq!(requests, [bare(9_507_758, Op::Read, 8 << 20 | 16, 223_490 * 512, 4096)]);
}

const FIO_3: &str = "\
fio version 3 iolog
25 /dev/sdb add
157 /dev/sdb open
162 /dev/sdb read 0 4096
200421 /dev/my disk write 45056 8192
200435 /dev/sdb trim 4096 65536
200500 /dev/sdb datasync 45056 8192
1605865 /dev/sdb close
";

#[test]
fn fio_of_version_3_has_times_in_microseconds() {
    let expected = [
        bare(162_000, Op::Read, 0, 0, 4096),
        bare(200_421_000, Op::Write, 1, 45_056, 8192),
        bare(200_435_000, Op::Trim, 0, 4096, 65_536),
        bare(200_500_000, Op::Flush, 0, 0, 0),
    ];
    assert_eq!(read(FIO_3), expected);
    let mut reader = stream(FIO_3, &Options::default()).unwrap();
    while reader.next(&mut Request::default()).unwrap() {}
    assert_eq!(reader.object_name(1), ObjectName::Local("file:/dev/my disk".into()));
    assert_eq!(reader.others().to_string(), "1 headers, 3 files added, opened, closed and unlinked");
}

#[test]
fn fio_of_version_2_has_no_times() {
    let text = "fio version 2 iolog\n/dev/sdb add\n/dev/sdb open\n/dev/sdb wait 1000 0\n/dev/sdb write 512 4096\n/dev/sdb sync 0 0\n";
    let expected = [bare(0, Op::Write, 0, 512, 4096), bare(0, Op::Flush, 0, 0, 0)];
    assert_eq!(read(text), expected);
    // Joined with `cat`.
    let both = read([text, FIO_3].concat());
    assert_eq!((both.len(), both[3].time_ns, both[3].object), (6, 200_421_000, 1));
}

#[test]
fn fio_of_another_version_is_refused_by_its_name() {
    for format in [None, Some(Format::Fio)] {
        let options = Options { format, ..Options::default() };
        let error = stream("fio version 4 iolog\n1 /dev/sdb read 0 4096\n", &options).err().unwrap();
        assert_eq!(error.to_string(), "line 1: a log of fio of version 4; versions 2 and 3 are read");
        assert_eq!(error.kind, ErrorKind::Version);
    }
    let options = Options { format: Some(Format::Fio), ..Options::default() };
    let error = summarize(&mut stream("1 /dev/sdb read 0 4096\n", &options).unwrap()).unwrap_err();
    assert!(error.to_string().contains("header: missing"), "{error}");
    let bad = "fio version 3 iolog\n1 /dev/sdb erase 0 4096\n";
    let error = summarize(&mut stream(bad, &Options::default()).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "line 2: action: unknown");
}

/// The byte order mark of UTF-8.
const MARK: &str = "\u{FEFF}";

#[test]
fn the_byte_order_mark_is_no_part_of_the_first_field() {
    let md5 = "2c4787c7671c2f638777c4ab72859ce1";
    let fiu = format!("89 4257 p 8 8 R 6 1 {md5}\n");
    let systor = "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,3,0,512\n";
    for text in [
        "3,R,126703644672,4096,1577808000000626\n",
        "0,303567,3584,w,0.026214\n",
        "15 0 8 16 1\n",
        "128166372003061629,hm,0,Read,0,512,1\n",
        &fiu,
        systor,
        BLKPARSE,
        FIO_3,
    ] {
        let marked = [MARK, text].concat();
        assert_eq!(read(marked.clone()), read(text), "{text}");
        assert_eq!(read([&*marked, &*marked].concat()).len(), 2 * read(text).len(), "joined: {text}");
    }
    assert_eq!(columns("offset=0", &[MARK, "1\n2\n"].concat()).len(), 2);
    assert_eq!(columns("offset=0,skip=1", &[MARK, "9\n1\n2\n"].concat()).len(), 2);
}

/// A record of blktrace in either byte order, followed by a payload.
fn blktrace(big_endian: bool, action: u32, sector: u64, len: u32, payload: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |value: u64, width: usize| {
        let le = value.to_le_bytes();
        if big_endian { bytes.extend(le[..width].iter().rev()) } else { bytes.extend(&le[..width]) }
    };
    put(0x6561_7407, 4);
    put(1, 4);
    put(77, 8);
    put(sector, 8);
    [len, action, 42, 8 << 20 | 1, 0].into_iter().for_each(|value| put(value.into(), 4));
    put(0, 2);
    put(payload.into(), 2);
    bytes.resize(bytes.len() + usize::from(payload), b'x');
    bytes
}

const QUEUED: u32 = 1;
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const NOTIFY: u32 = 1 << 26;

#[test]
fn blktrace_of_either_byte_order() {
    for big_endian in [false, true] {
        let trace = [
            blktrace(big_endian, NOTIFY, 0, 0, 12),
            blktrace(big_endian, READ | QUEUED, 10, 4096, 0),
            blktrace(big_endian, WRITE | 7, 10, 4096, 3),
            blktrace(big_endian, WRITE | QUEUED, 20, 512, 5),
        ];
        let expected = [bare(77, Op::Read, 8 << 20 | 1, 5120, 4096), bare(77, Op::Write, 8 << 20 | 1, 10_240, 512)];
        assert_eq!(read(trace.concat()), expected, "big endian: {big_endian}");
    }
}

#[test]
fn blktrace_with_control_groups_has_the_same_requests() {
    const CGROUP: u32 = 1 << 8;
    for big_endian in [false, true] {
        let trace = [
            blktrace(big_endian, NOTIFY | CGROUP, 0, 0, 20),
            blktrace(big_endian, READ | QUEUED | CGROUP, 10, 4096, 8),
            blktrace(big_endian, READ | 7 | CGROUP, 10, 4096, 8),
            blktrace(big_endian, WRITE | QUEUED | CGROUP, 20, 512, 24),
            blktrace(big_endian, READ | 8, 10, 4096, 0),
        ];
        let expected = [bare(77, Op::Read, 8 << 20 | 1, 5120, 4096), bare(77, Op::Write, 8 << 20 | 1, 10_240, 512)];
        assert_eq!(read(trace.concat()), expected, "big endian: {big_endian}");
    }
}

#[test]
fn records_that_are_no_requests_are_counted_by_kind() {
    let others = |bytes: Vec<u8>| {
        let mut reader = stream(bytes, &Options::default()).unwrap();
        while reader.next(&mut Request::default()).unwrap() {}
        reader.others()
    };
    let kinds = [NOTIFY, READ | 7, READ | 7 | 1 << 8, READ | 8, 99, QUEUED];
    let binary = others(kinds.map(|action| blktrace(false, action, 10, 4096, 8)).concat());
    let expected = "1 notes on processes and the recording, 2 issued (D), 1 completed (C), 1 events of other kinds, \
                    1 events without an operation";
    assert_eq!((binary.to_string().as_str(), binary.count()), (expected, 6));
    assert!(binary.contains(BlockEvent::Issued.kind()) && !binary.contains(BlockEvent::Queued.kind()));
    let text = others(BLKPARSE.into());
    let expected = "1 allocations of requests (G, S), 1 messages (m), 1 completed (C), 1 plugs and unplugs (P, U, T), \
                    2 lines of summaries";
    assert_eq!(text.to_string(), expected);
}

#[test]
fn blktrace_goes_on_behind_a_damaged_record() {
    let good = blktrace(false, READ | QUEUED, 10, 4096, 0);
    let trace = [good.clone(), vec![0xEE; 61], good.clone(), good[..20].to_vec()].concat();
    let skip = Options { bad_records: BadRecords::Skip, ..Options::default() };
    let mut reader = stream(trace, &skip).unwrap();
    assert_eq!(summarize(&mut reader).unwrap().requests, 2);
    let skipped = reader.skipped();
    assert_eq!((skipped.count, skipped.first[0].place), (2, Place::Record(2)));
}

#[test]
fn vscsi_of_version_2() {
    let mut trace = Vec::new();
    for n in 0..3u64 {
        trace.extend(0x28u16.to_le_bytes());
        trace.extend([0, 2]);
        [7u32, 4096, 1].into_iter().for_each(|value| trace.extend(value.to_le_bytes()));
        [n, 1000 + n, 5].into_iter().for_each(|value| trace.extend(value.to_le_bytes()));
    }
    assert_eq!(read(trace)[2], bare(1_002_000, Op::Read, 0, 1024, 4096));
}

#[test]
fn objects_that_are_hashes_keep_different_addresses() {
    let mut trace = Vec::new();
    for object in [u64::MAX, u64::MAX >> 1, 1, 1 << 54] {
        trace.extend(5u32.to_le_bytes());
        trace.extend(object.to_le_bytes());
        trace.extend(100u32.to_le_bytes());
        trace.extend((-1i64).to_le_bytes());
    }
    let mut addresses: Vec<_> = read(trace).into_iter().map(|request| (request.object, request.offset)).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 4);
}

#[test]
fn msr_disks_are_numbered_as_they_come() {
    let line = |host: &str, disk| format!("128166372003061629,{host},{disk},Read,0,512,1\n");
    let trace = [line("src1", 0), line("src1", 1), line("hm", 0), line("src1", 0)].concat();
    assert_eq!(read(trace).iter().map(|request| request.object).collect::<Vec<_>>(), [0, 1, 2, 0]);
}

#[test]
fn processes_may_have_blanks_in_their_names() {
    let md5 = "2c4787c7671c2f638777c4ab72859ce1";
    let request = &read(format!("89 4257 my (own) process 8 8 R 6 1 {md5}\n"))[0];
    assert_eq!((request.offset, request.object, request.block_bytes), (4096, 6 << 20 | 1, 4096));
    let request = &read(format!("\t0\t1\n0\t89\t1\ta b\t8\t8\tW\t6\t0\t{md5}\n"))[0];
    assert_eq!((request.time_ns, request.op, request.fingerprints.len()), (89, Op::Write, 1));
    assert_eq!(request.fingerprints[0].0[..3], [0x2C, 0x47, 0x87]);
}

#[test]
fn operations_that_a_trace_does_not_tell_are_others() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,,3,0,512\n1.6,,R,3,0,512\n";
    assert_eq!(read(text).iter().map(|request| request.op).collect::<Vec<_>>(), [Op::Other, Op::Read]);
}

#[test]
fn a_bad_record_is_told_with_file_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    std::fs::write(&path, "1,R,0,512,1\n1,R,0,512,2\n1,R,zero,512,3\n1,W,0,512,4\n").unwrap();
    let mut reader = open(&path, &Options::default()).unwrap();
    let error = summarize(&mut reader).unwrap_err();
    assert_eq!(error.to_string(), format!("{}:3: offset: not a number", path.display()));
    assert_eq!((error.kind, error.place), (ErrorKind::BadRecord, Place::Line(3)));
    assert!(!reader.next(&mut Request::default()).unwrap(), "it is at its end");

    let skip = Options { bad_records: BadRecords::Skip, ..Options::default() };
    let mut reader = open(&path, &skip).unwrap();
    let summary = summarize(&mut reader).unwrap();
    assert_eq!((summary.requests, summary.skipped), (3, 1));
    assert_eq!(reader.skipped().first[0].to_string(), error.to_string());
}

#[test]
fn a_binary_trace_cut_short_is_told() {
    let trace: Vec<u8> =
        (0..5).flat_map(|_| [[5, 0, 0, 0], [1, 0, 0, 0], [0; 4], [9, 0, 0, 0], [255; 4], [255; 4]].concat()).collect();
    let options = Options { format: Some(Format::OracleGeneral), ..Options::default() };
    let error = summarize(&mut stream(&trace[..100], &options).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "record 5: record: cut short by the end of the file");
}

#[test]
fn ends_past_the_last_address_are_refused() {
    for text in ["1,R,9223372036854775807,512,1", "1,R,0,4294967296,1", "1,R,0,18446744073709551615,1"] {
        let options = Options { format: Some(Format::Alibaba), ..Options::default() };
        assert!(summarize(&mut stream(text, &options).unwrap()).is_err(), "{text}");
    }
}

#[test]
fn what_is_no_trace_is_told() {
    for bytes in [
        &b""[..],
        b"\xEF\xBB\xBF",
        b"hello, world\n",
        &[0; 100],
        &[0xFF; 4096],
        b"\x1F\x8B",
        b"PAR1",
        b"# only a comment\n",
    ] {
        assert!(stream(bytes, &Options::default()).and_then(|mut reader| summarize(&mut reader)).is_err(), "{bytes:?}");
    }
    let error = "msrr".parse::<Format>().unwrap_err();
    assert!(error.to_string().contains("there are: parquet, fiu, msr"));
    assert!(Format::ALL.iter().all(|format| format.as_str().parse::<Format>().unwrap() == *format));
}

/// `bytes` in every compression, by real compressors.
fn compressed(bytes: &[u8]) -> [(&'static str, Vec<u8>); 5] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    let (mut bzip2, mut xz) = (Vec::new(), Vec::new());
    bzip2::read::BzEncoder::new(bytes, bzip2::Compression::default()).read_to_end(&mut bzip2).unwrap();
    liblzma::read::XzEncoder::new(bytes, 6).read_to_end(&mut xz).unwrap();
    let zstd = zstd::bulk::compress(bytes, 3).unwrap();
    [("none", bytes.to_vec()), ("gzip", gzip.finish().unwrap()), ("zstd", zstd), ("bzip2", bzip2), ("xz", xz)]
}

#[test]
fn compressed_traces_are_read_to_the_end_of_their_last_piece() {
    let half: String = (0..20_000).map(|n| format!("{},R,{},4096,{n}\n", n % 5, n * 4096)).collect();
    for (name, once) in compressed(half.as_bytes()) {
        let twice = [once.clone(), once.clone()].concat();
        assert_eq!(summarize(&mut stream(twice, &Options::default()).unwrap()).unwrap().requests, 40_000, "{name}");
        if name != "none" {
            let cut = once[..once.len() / 2].to_vec();
            let error = stream(cut, &Options::default()).and_then(|mut reader| summarize(&mut reader)).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Io | ErrorKind::UnknownFormat), "{name}: {error}");
        }
    }
}

/// Bytes in a zstd frame without compression, whose header says that it needs a window of 2^`log` bytes.
fn zstd_frame(log: u8, content: &[u8]) -> Vec<u8> {
    let block = (content.len() as u32) << 3 | 1;
    [&[0x28, 0xB5, 0x2F, 0xFD, 0, (log - 10) << 3], &block.to_le_bytes()[..3], content].concat()
}

const LINES: &str = "1,R,0,512,1\n1,R,0,512,2\n";

#[test]
fn zstd_with_long_windows_is_read() {
    for log in [27, 28, 31] {
        assert_eq!(read(zstd_frame(log, LINES.as_bytes())).len(), 2, "--long={log}");
    }
    // Also where the first frame has a small window, and after a skippable one.
    let skippable = [&[0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let frames = [skippable, zstd::bulk::compress(LINES.as_bytes(), 3).unwrap(), zstd_frame(31, LINES.as_bytes())];
    assert_eq!(read(frames.concat()).len(), 4);
    let small = zstd_frame(20, LINES.as_bytes());
    for trace in [zstd_frame(32, LINES.as_bytes()), [small, zstd_frame(32, LINES.as_bytes())].concat()] {
        let error = stream(trace, &Options::default()).and_then(|mut reader| summarize(&mut reader)).unwrap_err();
        let (said, needed) =
            (error.to_string(), "needs a window of 4294967296 bytes, and at most 2147483648 bytes (--long=31)");
        assert!(said.contains(needed), "{said}");
    }
}

#[test]
fn zeroes_behind_compressed_data_are_padding_and_anything_else_is_an_error() {
    for (name, once) in compressed(LINES.as_bytes()).into_iter().skip(1) {
        let padding = vec![0; 300_001];
        assert_eq!(read([&once[..], &padding].concat()).len(), 2, "{name}");
        assert_eq!(read([&once[..], &padding, &once[..], &[0]].concat()).len(), 4, "{name}: joined");
        for gap in [0, 512] {
            let trace = [&once[..], &vec![0; gap], b"rubbish that is long"].concat();
            let error = stream(trace, &Options::default()).and_then(|mut reader| summarize(&mut reader)).unwrap_err();
            let said = error.to_string();
            let place = format!("no compressed data at byte {}, ", once.len() + gap);
            assert!(said.contains(&place) && said.contains("\"rubbish \""), "{name}: {said}");
        }
    }
    // Members of several compressions, joined with `cat`.
    let all: Vec<_> = compressed(LINES.as_bytes()).into_iter().skip(1).flat_map(|(_, bytes)| bytes).collect();
    assert_eq!(read(all).len(), 8);
}

fn columns(map: &str, text: &str) -> Vec<Request> {
    let options = Options { columns: Some(map.parse().unwrap()), ..Options::default() };
    stream(text, &options).unwrap().requests().map(Result::unwrap).collect()
}

#[test]
fn columns_as_the_user_describes_them() {
    let found = columns(
        "time=0:ms,op=3,offset=4:sectors,len=5:sectors,object=1,compressed=6",
        "ms,vm,x,op,lba,n,c\n1.5,7,,READ,8,16,4000\n2,8,,w,9,1,\n",
    );
    let first = Request { compressed_bytes: Some(4000), ..bare(1_500_000, Op::Read, 7, 4096, 8192) };
    assert_eq!(found, [first, bare(2_000_000, Op::Write, 8, 9 * 512, 512)]);

    let found = columns("offset=2:4kib,op=0:read0,sep=space,object=1", "0 sda 1\n1  sdb 2\n1 sda 3\n");
    assert_eq!(found.iter().map(|request| request.object - (1 << 31)).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!((found[2].op, found[2].offset, found[2].len), (Op::Write, 3 * 4096, 512));

    let md5s = "000102030405060708090a0b0c0d0e0f".repeat(2);
    let found = columns("offset=0,len=1,fingerprint=2,sep=pipe", &format!("0|8192|{md5s}\n4096|512|\n"));
    assert_eq!((found[0].block_bytes, found[0].fingerprints.len(), found[1].fingerprints.len()), (4096, 2, 0));

    let found = columns("time=0:filetime,op=1:scsi,offset=2,sep=tab", "116444736000000010\t2a\t5\n");
    assert_eq!(found, [bare(1000, Op::Write, 0, 5, 512)]);
    assert_eq!(columns("offset=0,skip=2", "1\n2\n\"3\"\n"), [bare(0, Op::Read, 0, 3, 512)]);
}

#[test]
fn maps_that_make_no_sense_are_refused() {
    for map in [
        "",
        "time=0",
        "offset=x",
        "offset=64",
        "offset=0:0",
        "offset=0,offset=1",
        "offset=0,len=0",
        "offset=0,sep=x",
        "what=1,offset=0",
        "offset",
        "offset=0,time=1:h",
        "offset=0,object=1:x",
    ] {
        let error = map.parse::<Columns>().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Setting, "{map}");
    }
}

#[test]
fn files_by_day_or_cpu_are_merged_by_time() {
    let reader = |text: &str| stream(text, &Options::default()).unwrap();
    let readers = [
        reader("1,R,0,512,1\n1,R,0,512,4\n"),
        reader("2,R,0,512,2\n2,R,0,512,4\n2,R,0,512,9\n"),
        reader("3,R,0,512,3\n"),
    ];
    let origin = |file| Origin { file, trace: file };
    let mut merged = Merged::new((0..).map(origin).zip(readers), SameDisks::Named);
    let mut found = Vec::new();
    let mut request = Request::default();
    while merged.next(&mut request).unwrap() {
        found.push((request.time_ns / 1000, request.object));
    }
    assert_eq!(found, [(1, 1), (2, 2), (3, 3), (4, 1), (4, 2), (9, 2)]);
}

/// What must hold of any request, whatever it was read from.
fn check(request: &Request) {
    assert!(request.offset.checked_add(request.len).is_some_and(|end| end <= i64::MAX as u64));
    assert!(request.len <= u32::MAX.into() || request.op == Op::Trim);
    if !request.fingerprints.is_empty() {
        assert_eq!(request.len.div_ceil(request.block_bytes.into()), request.fingerprints.len() as u64);
    }
}

fn options(format: Option<Format>, bad_records: BadRecords) -> Options {
    Options { format, bad_records, ..Options::default() }
}

fn drain(bytes: &[u8], options: &Options) {
    let Ok(mut reader) = stream(bytes, options) else { return };
    let mut request = Request::default();
    while let Ok(true) = reader.next(&mut request) {
        check(&request);
    }
}

/// A line of fields such as traces have, by any of their separators.
fn line() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        (0u32..300).prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        prop::sample::select(vec!["R", "W", "Read", "Write", "", "+", "2a", "28", "8,0", "Q", "C", "[0]", "-1", "é"])
            .prop_map(str::to_owned),
        "[0-9a-f]{32}",
    ];
    (prop::collection::vec(field, 0..11), prop::sample::select(vec![",", " ", "\t", "  "]))
        .prop_map(|(fields, separator)| fields.join(separator))
}

proptest! {
    #[test]
    fn readers_of_text_never_panic(lines in prop::collection::vec(line(), 0..20), noise in prop::collection::vec(any::<u8>(), 0..40)) {
        let text = [lines.join("\n").into_bytes(), noise].concat();
        for format in Format::ALL.map(Some).into_iter().chain([None]) {
            drain(&text, &options(format, BadRecords::Skip));
            drain(&text, &options(format, BadRecords::Fatal));
        }
        let columns = Some("time=0,op=1,offset=2,len=3,object=4,fingerprint=5".parse().unwrap());
        drain(&text, &Options { columns, bad_records: BadRecords::Skip, ..Options::default() });
    }

    #[test]
    fn readers_of_records_never_panic(noise in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in [Format::Vscsi, Format::OracleGeneral, Format::Blktrace] {
            drain(&noise, &options(Some(format), BadRecords::Skip));
        }
        let magic = [0x07, 0x74, 0x61, 0x65];
        drain(&[&magic[..], &noise].concat(), &options(None, BadRecords::Skip));
    }

    #[test]
    fn maps_never_panic(map in "[a-z=0-9:,]{0,40}") {
        let _ = map.parse::<Columns>();
    }

    #[test]
    fn what_was_written_as_text_is_read_back(times in prop::collection::vec((any::<u32>(), any::<bool>(), 0u64..1 << 40, 0u32..1 << 20), 1..50)) {
        let text: String = times.iter().map(|(time, write, offset, len)| {
            format!("{},{},{offset},{len},{time}\n", time % 7, if *write { 'W' } else { 'R' })
        }).collect();
        let expected: Vec<_> = times.iter().map(|&(time, write, offset, len)| {
            bare(u64::from(time) * 1000, if write { Op::Write } else { Op::Read }, time % 7, offset, len.into())
        }).collect();
        let options = options(Some(Format::Alibaba), BadRecords::Fatal);
        let found: Vec<_> = stream(text, &options).unwrap().requests().map(Result::unwrap).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn digests_are_padded_with_zeroes() {
    let md5 = "ff".repeat(16);
    let request = &read(format!("1 2 p 0 8 W 1 1 {md5}\n"))[0];
    let mut expected = [0; 20];
    expected[..16].fill(0xFF);
    assert_eq!(request.fingerprints, [Fingerprint(expected)]);
}
