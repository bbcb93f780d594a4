//! Files that were joined with `cat`: all of them are read, or there is an error.

use bytes::Bytes;
use nitro_trace::parquet::{ParquetReader, ParquetWriter};
use nitro_trace::{BadRecords, Options, Reader, Request, TraceError, open_stream};
use std::io::{Cursor, Write};

fn count(bytes: &[u8], options: &Options) -> Result<usize, TraceError> {
    open_stream(Cursor::new(bytes.to_vec()), options)?.requests().try_fold(0, |count, next| next.map(|_| count + 1))
}

const BLKPARSE: &str = "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kj]
  8,0    3        2     1.000000000   697  Q   R 1000 + 8 [kj]
CPU0 (sda):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB
 Read depth:             1        \t Write depth:             1

Total (sda):
 Reads Queued:           1,        4KiB\t Writes Queued:           1,        4KiB

Throughput (R/W): 0KiB/s / 0KiB/s
Events (sda): 9 entries
Skips: 0 forward (0 -   0.0%)
";

#[test]
fn outputs_of_blkparse_are_all_read() {
    for parts in 1..4 {
        assert_eq!(count(BLKPARSE.repeat(parts).as_bytes(), &Options::default()).unwrap(), 2 * parts);
    }
    let damaged = BLKPARSE.to_owned() + "  8,0    3        1     0.0000";
    let error = count(damaged.as_bytes(), &Options::default()).unwrap_err().to_string();
    assert!(error.starts_with("line 13: "), "{error}");
}

#[test]
fn a_header_that_is_repeated_is_no_request() {
    let part = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n128166372003061629,hm,0,Read,0,512,1\n";
    assert_eq!(count(part.repeat(3).as_bytes(), &Options::default()).unwrap(), 3);
    let other = part.to_owned() + &part.replace("Size,ResponseTime", "ResponseTime,Size");
    assert!(count(other.as_bytes(), &Options::default()).is_err(), "another header may mean other columns");
    let options = |map: &str| Options { columns: Some(map.parse().unwrap()), ..Options::default() };
    let table = "time and place\nt;o\n1;512\n2;1024\n";
    assert_eq!(count(table.repeat(2).as_bytes(), &options("time=0,offset=1,sep=semicolon,skip=2")).unwrap(), 4);
    let named = "name;o\nvm;512\n";
    assert_eq!(count(named.repeat(2).as_bytes(), &options("object=0,offset=1,sep=semicolon")).unwrap(), 2);
    // Lines that were skipped, but are requests where they are repeated.
    assert_eq!(count(b"1;5\n2;5\n1;5\n", &options("time=0,offset=1,sep=semicolon,skip=1")).unwrap(), 2);
}

type Compress = fn(&[u8]) -> Vec<u8>;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

#[test]
fn compressed_streams_are_read_to_their_end_or_an_error() {
    let line = b"3,R,0,4096,1577808000000626\n";
    let all: [Compress; 4] = [gzip, bzip2, xz, zstd];
    for (number, compress) in all.into_iter().enumerate() {
        let part = compress(line);
        assert_eq!(count(&part.repeat(3), &Options::default()).unwrap(), 3, "{number}");
        for (behind, requests) in [(&[0; 5][..], 1), (&all[(number + 1) % 4](line), 2)] {
            assert_eq!(
                count(&[&part, behind].concat(), &Options::default()).unwrap(),
                requests,
                "{number}: {behind:?}"
            );
        }
        for behind in [&line[..], &part[..part.len() - 3]] {
            let joined = [&part, behind].concat();
            assert!(count(&joined, &Options::default()).is_err(), "{number}: {behind:?}");
        }
    }
}

/// A file with requests of `object`, complete or up to its last mark.
fn parquet(object: u32, requests: u64, recoverable: bool, complete: bool) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = ParquetWriter::create(file.path(), &[]).unwrap();
    let mut writer = if recoverable { writer.recoverable() } else { writer };
    for number in 0..requests {
        writer.write(&Request { time_ns: number, object, len: 4096, ..Request::default() }).unwrap();
        if number % 10 == 9 {
            writer.end_group().unwrap();
        }
    }
    let torn = std::fs::read(file.path()).unwrap();
    writer.finish().unwrap();
    if complete { std::fs::read(file.path()).unwrap() } else { torn }
}

#[test]
fn parquet_files_in_one_are_an_error() {
    let read = |bytes: &[u8]| -> Result<Vec<Request>, TraceError> {
        ParquetReader::new(Bytes::from(bytes.to_vec()), BadRecords::Fatal)?.requests().collect()
    };
    for recoverable in [false, true] {
        let (first, second) = (parquet(1, 20, recoverable, true), parquet(2, 20, recoverable, true));
        assert_eq!((read(&first).unwrap().len(), read(&second).unwrap()[0].object), (20, 2));
        // The metadata of the second would describe the first.
        for other in [&first, &parquet(1, 30, recoverable, true), &parquet(1, 10, recoverable, true)] {
            let error = read(&[&other[..], &second].concat()).unwrap_err().to_string();
            assert!(error.contains("several Parquet files"), "{error}");
        }
    }
    let (whole, torn) = (parquet(1, 20, true, true), parquet(2, 20, true, false));
    assert_eq!(read(&torn).unwrap().len(), 20);
    for joined in [[&whole[..], &torn].concat(), [&torn[..], &torn].concat(), [&torn[..], &whole].concat()] {
        let error = read(&joined).unwrap_err().to_string();
        assert!(error.contains("several Parquet files"), "{error}");
    }
}
