//! Our own format. Input: one byte, how; then a Parquet file (even), or requests to write and read back (odd).
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use bytes::Bytes;
use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::gauge;
use nitro_fuzz::trace::drain;
use nitro_trace::parquet::{ParquetReader, ParquetWriter};
use nitro_trace::{BadRecords, Op, Reader, Request};
use nitro_units::{ClassId, Fingerprint};

/// Pages of all columns, whatever their sizes are claimed to be.
const MEMORY_BYTES_MAX: usize = 256 << 20;

#[derive(Arbitrary, Debug)]
struct Row {
    time_ns: u64,
    op: u8,
    object: u32,
    offset: u64,
    len: u32,
    class: u8,
    block_bytes: u32,
    prints: Vec<[u8; 20]>,
    compressed_bytes: Option<u32>,
}

impl Row {
    fn request(self) -> Request {
        let fingerprints: Vec<_> = self.prints.into_iter().map(Fingerprint).collect();
        Request {
            time_ns: self.time_ns,
            op: Op::ALL[usize::from(self.op) % Op::ALL.len()],
            object: self.object,
            offset: self.offset,
            len: self.len.into(),
            class: ClassId::new(self.class % 32).unwrap_or_default(),
            block_bytes: if fingerprints.is_empty() { 0 } else { self.block_bytes },
            fingerprints,
            compressed_bytes: self.compressed_bytes,
        }
    }
}

fn there_and_back(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut bytes = Vec::new();
    let mut writer = ParquetWriter::new(&mut bytes, &[]).expect("memory can be written to");
    let mut kept = Vec::new();
    while !input.is_empty() {
        let Ok(row) = Row::arbitrary(&mut input) else { break };
        let request = row.request();
        // Requests that break their promises are refused.
        if writer.write(&request).is_ok() {
            kept.push(request);
        }
    }
    assert_eq!(writer.finish().expect("memory can be written to"), kept.len() as u64);
    let reader = ParquetReader::new(Bytes::from(bytes), BadRecords::Fatal).expect("it was just written");
    let back: Vec<_> = reader.requests().map(|request| request.expect("it was just written")).collect();
    assert_eq!(back, kept);
}

/// Panics of the `parquet` crate are turned into errors by the reader: only those that get past it, and our own, count.
fn leave_contained_panics() {
    let abort = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains("/registry/")) {
            abort(panic);
        }
    }));
}

fuzz_target!(init: leave_contained_panics(), |data: &[u8]| -> Corpus {
    let Some((how, data)) = data.split_first() else { return Corpus::Reject };
    if how % 2 == 1 {
        there_and_back(data);
    } else {
        let ((), peak) = gauge::peak_bytes(|| {
            if let Ok(mut reader) = ParquetReader::new(Bytes::copy_from_slice(data), BadRecords::Skip) {
                let _ = drain(&mut reader);
            }
        });
        assert!(peak < 64 * data.len() + MEMORY_BYTES_MAX, "{peak} bytes of memory for {}", data.len());
    }
    Corpus::Keep
});
