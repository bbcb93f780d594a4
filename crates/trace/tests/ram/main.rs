//! Parquet files that claim, or unfold to, far more than they are: whatever they contain, reading them takes little RAM. It
//! is measured in processes of their own, by proc(5).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use nitro_trace::parquet::ParquetReader;
use nitro_trace::{BadRecords, Op, Reader, Request};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::env;
use std::fs;
use std::process::Command;
use std::sync::Arc;

/// The name of the file that the child reads.
const FILE: &str = "NITRO_TEST_FILE";
/// The most RAM that a file may take.
const MOST_BYTES: u64 = 256 << 20;

const SCHEMA: &str = "message request { REQUIRED INT64 time; REQUIRED BYTE_ARRAY op (UTF8); REQUIRED INT64 offset;
    REQUIRED INT64 length; OPTIONAL BYTE_ARRAY fingerprint; }";

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap()))
}

/// A file with `ops` and `prints` in a row each, all else being 0.
fn file(properties: WriterProperties, ops: &[ByteArray], prints: &[ByteArray]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let zeroes = vec![0; ops.len()];
    for number in 0..5 {
        let mut column = group.next_column().unwrap().unwrap();
        match number {
            1 => column.typed::<ByteArrayType>().write_batch(ops, None, None).unwrap(),
            4 => column.typed::<ByteArrayType>().write_batch(prints, Some(&vec![1; ops.len()]), None).unwrap(),
            _ => column.typed::<Int64Type>().write_batch(&zeroes, None, None).unwrap(),
        };
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// Fingerprints of `rows` requests, of `bytes` each, in pages of one row.
fn large_pages(rows: usize, bytes: usize) -> Vec<u8> {
    let zeroes = ByteArray::from(Bytes::from(vec![0; bytes]));
    let properties =
        properties().set_dictionary_enabled(false).set_data_page_row_count_limit(1).set_write_batch_size(1);
    file(properties.build(), &vec!["read".into(); rows], &vec![zeroes; rows])
}

/// Replaces the first `from` by `to`, of the same length.
fn replaced(mut bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    bytes
}

/// A schema of groups in each other.
fn nested() -> Vec<u8> {
    let (groups, columns) = (4000u32, 4000u32);
    let count = groups + columns + 1;
    let varint = |mut number: u32| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    // version, and a list of so many structures
    let mut metadata = vec![0x15, 2, 0x19, 0xFC];
    metadata.extend(varint(count));
    for group in 0..=groups {
        // name, and number of children
        metadata.extend([0x48, 1, b'g', 0x15]);
        metadata.extend(varint(2 * if group == groups { columns } else { 1 }));
        metadata.push(0);
    }
    for _ in 0..columns {
        // type, repetition, name
        metadata.extend([0x15, 4, 0x25, 0, 0x18, 1, b'c', 0]);
    }
    // rows, and an empty list of row groups
    metadata.extend([0x16, 0, 0x19, 0x0C, 0]);
    let len = (metadata.len() as u32).to_le_bytes();
    [b"PAR1", &metadata[..], &len, b"PAR1"].concat()
}

/// A dictionary whose header claims more entries than its bytes can hold.
fn dictionary() -> Vec<u8> {
    let ops: Vec<ByteArray> = (0..200).map(|number: u32| number.to_string().as_str().into()).collect();
    let whole = file(properties().build(), &ops, &vec!["".into(); 200]);
    // The number of entries in the page's header: 200, and 8191.
    replaced(whole, &[0x4C, 0x15, 0x90, 0x03, 0x15], &[0x4C, 0x15, 0xFE, 0x7F, 0x15])
}

/// Texts of which each may repeat the whole text before.
fn prefixes() -> Vec<u8> {
    let prints = vec![ByteArray::from(Bytes::from(vec![0; 20])); 100];
    let encoding = Encoding::DELTA_BYTE_ARRAY;
    let properties = properties().set_dictionary_enabled(false).set_column_encoding("fingerprint".into(), encoding);
    file(properties.build(), &vec!["read".into(); prints.len()], &prints)
}

fn made(name: &str) -> Vec<u8> {
    match name {
        "large pages" => large_pages(300, 4 << 20),
        "huge page" => large_pages(1, 300 << 20),
        "nested groups" => nested(),
        "dictionary" => dictionary(),
        _ => prefixes(),
    }
}

fn peak_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
#[ignore = "run by files_that_unfold_take_little_ram, with a file"]
fn child() {
    let bytes = Bytes::from(fs::read(env::var(FILE).unwrap()).unwrap());
    let mut count = 0;
    let read = ParquetReader::new(bytes, BadRecords::Skip).and_then(|mut reader| {
        let mut request = Request::default();
        while reader.next(&mut request)? {
            assert_eq!(request.op, Op::Read);
            count += 1;
        }
        Ok(reader.skipped().count)
    });
    println!("measured {} {count} {}", peak_bytes(), read.map_or_else(|error| error.to_string(), |n| n.to_string()));
}

#[test]
fn files_that_unfold_take_little_ram() {
    let folder = tempfile::tempdir().unwrap();
    for (name, said) in [
        ("large pages", "0 300"),
        ("huge page", "a page of"),
        ("nested groups", "too many columns or groups"),
        ("dictionary", "damaged: a dictionary"),
        ("prefixes", "the encoding DELTA_BYTE_ARRAY is not read"),
    ] {
        let path = folder.path().join("hostile.parquet");
        fs::write(&path, made(name)).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 4 << 20, "{name}: it is small");
        let mut child = Command::new(env::current_exe().unwrap());
        let ran = child.args(["--exact", "child", "--ignored", "--nocapture"]).env(FILE, &path).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout);
        let line =
            text.lines().find_map(|line| line.split_once("measured ")).unwrap_or_else(|| panic!("{name}: {text}")).1;
        let (peak, rest) = line.split_once(' ').unwrap();
        assert!(peak.parse::<u64>().unwrap() < MOST_BYTES, "{name}: {line}");
        assert!(rest.contains(said), "{name}: {line}");
    }
}
