//! What must hold of a trace, whatever it was read from.

use crate::gauge;
use nitro_trace::{BadRecords, Op, Options, Reader, Request, TraceError, open_stream};
use std::io::Cursor;

/// Readers take constant memory: windows, names and decompressors of any stream fit in this.
pub const MEMORY_BYTES_MAX: usize = 32 << 20;

/// Checks what a request's documentation promises.
pub fn check(request: &Request) {
    let end = request.offset.checked_add(request.len).expect("ends are addresses");
    assert!(i64::try_from(end).is_ok());
    assert!(request.len <= u32::MAX.into() || request.op == Op::Trim);
    if !request.fingerprints.is_empty() {
        assert_eq!(request.len.div_ceil(request.block_bytes.into()), request.fingerprints.len() as u64);
    }
}

/// Reads to the end; gives the number of requests.
///
/// # Errors
/// The reader's.
pub fn drain(reader: &mut dyn Reader) -> Result<u64, TraceError> {
    let mut request = Request::default();
    let mut count = 0;
    while reader.next(&mut request)? {
        check(&request);
        count += 1;
    }
    assert_eq!(reader.next(&mut request).ok(), Some(false), "the end is the end");
    Ok(count)
}

/// Reads a stream twice: bad records end it, or are left out.
pub fn read_both_ways(bytes: &[u8], options: &Options) {
    let read = |bad_records| {
        let input = Cursor::new(bytes.to_vec());
        let mut reader = open_stream(input, &Options { bad_records, ..options.clone() })?;
        let count = drain(&mut reader)?;
        Ok::<_, TraceError>((count, reader.skipped()))
    };
    let ((strict, lenient), peak) = gauge::peak_bytes(|| (read(BadRecords::Fatal), read(BadRecords::Skip)));
    assert!(peak < 4 * bytes.len() + MEMORY_BYTES_MAX, "{peak} bytes of memory for {}", bytes.len());
    match (strict, lenient) {
        (Ok((count, _)), lenient) => {
            let (same, skipped) = lenient.expect("nothing was bad");
            assert_eq!((count, 0), (same, skipped.count));
        }
        (Err(error), Ok((_, skipped))) => {
            assert_eq!(skipped.first.first().expect("something was bad").to_string(), error.to_string());
        }
        (Err(error), Err(_)) => assert!(!error.to_string().is_empty()),
    }
}
