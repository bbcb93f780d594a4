//! The names of objects for plain policies.

use nitro_trace::{Reader, Request, TraceError};
use std::collections::HashMap;

/// Most blocks of a request: 128 GiB of blocks of 512 bytes.
const BLOCKS_MAX: u64 = 1 << 28;

/// Calls `each` with the name of each request's object, or of each of its blocks: the offset, combined with the volume
/// if it is not the first.
///
/// # Errors
/// The errors of the trace, and a request of more than 2²⁸ blocks.
pub fn each_name(
    reader: &mut dyn Reader,
    block_bytes: Option<u64>,
    mut each: impl FnMut(u64),
) -> Result<(), TraceError> {
    let (mut request, mut volumes) = (Request::default(), HashMap::new());
    let mut last = (None, 0u64);
    while reader.next(&mut request)? {
        if last.0 != Some(request.object) {
            let next = volumes.len() as u64;
            last = (Some(request.object), *volumes.entry(request.object).or_insert(next));
        }
        let volume = last.1.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        match block_bytes {
            // A request without a length is for the block at its offset.
            Some(bytes) => {
                let first = request.offset / bytes;
                let blocks = first..request.end().div_ceil(bytes).max(first + 1);
                if blocks.end - blocks.start > BLOCKS_MAX {
                    return Err(too_long(&request, bytes));
                }
                blocks.for_each(|block| each(block ^ volume));
            }
            None => each(request.offset ^ volume),
        }
    }
    Ok(())
}

fn too_long(request: &Request, block_bytes: u64) -> TraceError {
    TraceError::setting(format_args!(
        "a request of {} bytes at {} has more than {BLOCKS_MAX} blocks of {block_bytes} bytes; choose larger blocks, or leave it \
         out of the trace",
        request.len, request.offset
    ))
}
