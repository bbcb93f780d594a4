//! Compressed traces: damaged streams end in errors, and good ones in their last record.
//! Input: one byte, how; then the stream (0), or lines to compress with gzip, zstd, bzip2 or xz (1 to 4).
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use nitro_fuzz::trace::{drain, read_both_ways};
use nitro_trace::{BadRecords, Format, Options, open_stream};
use std::io::{Cursor, Read};

fn compressed(how: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut result = Vec::new();
    let read = match how {
        1 => flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut result),
        2 => zstd::stream::read::Encoder::new(bytes, 1).and_then(|mut encoder| encoder.read_to_end(&mut result)),
        3 => bzip2::read::BzEncoder::new(bytes, bzip2::Compression::fast()).read_to_end(&mut result),
        _ => liblzma::read::XzEncoder::new(bytes, 0).read_to_end(&mut result),
    };
    read.is_ok().then_some(result)
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((&how, bytes)) = data.split_first() else { return Corpus::Reject };
    let how = how % 5;
    let options = Options { format: Some(Format::Arc), bad_records: BadRecords::Skip, ..Options::default() };
    if how == 0 {
        read_both_ways(bytes, &options);
        return Corpus::Keep;
    }
    let read = |bytes| {
        let mut reader = open_stream(Cursor::new(bytes), &options).expect("the stream is whole");
        (drain(&mut reader).expect("the stream is whole"), reader.skipped().count)
    };
    // Bytes that are compressed themselves are taken out of one wrapping only.
    let whole = compressed(how, bytes).expect("anything can be compressed");
    let text = bytes.split(|&byte| byte == b'\n').count();
    let (requests, skipped) = read(whole);
    assert!(requests + skipped <= text as u64);
    Corpus::Keep
});
