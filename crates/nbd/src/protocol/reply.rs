//! Replies of the transmission phase ("Simple reply message", "Structured reply chunk message" and "Extended reply chunk
//! message" in proto.md).

use super::constants::{
    CHUNK_BLOCK_STATUS, CHUNK_BLOCK_STATUS_EXTENDED, CHUNK_DONE, CHUNK_ERROR, CHUNK_MAGIC, CHUNK_NONE,
    CHUNK_OFFSET_DATA, EXTENDED_CHUNK_MAGIC, SIMPLE_REPLY_MAGIC,
};
use super::request::{Cookie, Headers, Request};
use crate::errno::NbdErrno;
use bytes::{BufMut as _, BytesMut};

/// Appends a simple reply; the data of a successful read follows it.
pub fn put_simple(out: &mut BytesMut, cookie: Cookie, error: Option<NbdErrno>) {
    out.put_u32(SIMPLE_REPLY_MAGIC);
    out.put_u32(error.map_or(0, NbdErrno::code));
    out.put_u64(cookie.0);
}

/// The request that chunks answer, and their headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    headers: Headers,
    cookie: Cookie,
    /// Only extended headers have it.
    offset: u64,
}

impl Answered {
    /// Of a request.
    #[must_use]
    pub const fn new(headers: Headers, request: &Request) -> Self {
        Self { headers, cookie: request.cookie, offset: request.offset }
    }
}

fn put_chunk(out: &mut BytesMut, kind: u16, done: bool, to: Answered, payload_bytes: u32) {
    let is_extended = to.headers == Headers::Extended;
    out.put_u32(if is_extended { EXTENDED_CHUNK_MAGIC } else { CHUNK_MAGIC });
    out.put_u16(if done { CHUNK_DONE } else { 0 });
    out.put_u16(kind);
    out.put_u64(to.cookie.0);
    if is_extended {
        out.put_u64(to.offset);
        out.put_u64(payload_bytes.into());
    } else {
        out.put_u32(payload_bytes);
    }
}

/// Appends a chunk without payload, which ends the reply: the request succeeded.
pub fn put_none(out: &mut BytesMut, to: Answered) {
    put_chunk(out, CHUNK_NONE, true, to, 0);
}

/// Appends the header of the only chunk with a read's data, of which `len` bytes must follow. `len + 8` must fit into
/// 32 bits.
pub fn put_offset_data(out: &mut BytesMut, to: Answered, offset: u64, len: u32) {
    put_chunk(out, CHUNK_OFFSET_DATA, true, to, 8 + len);
    out.put_u64(offset);
}

/// Appends an error chunk, the last of its reply.
pub fn put_error(out: &mut BytesMut, to: Answered, error: NbdErrno, message: &'static str) {
    put_chunk(out, CHUNK_ERROR, true, to, 4 + 2 + message.len() as u32);
    out.put_u32(error.code());
    out.put_u16(message.len() as u16);
    out.put_slice(message.as_bytes());
}

/// Appends a chunk with the status in one context, as runs of (length in bytes, flags), which fit into 32 bits unless the
/// headers are extended. `done` marks the last chunk of the reply.
pub fn put_block_status(out: &mut BytesMut, to: Answered, done: bool, context_id: u32, runs: &[(u64, u32)]) {
    if to.headers == Headers::Extended {
        put_chunk(out, CHUNK_BLOCK_STATUS_EXTENDED, done, to, 8 + 16 * runs.len() as u32);
        out.put_u32(context_id);
        out.put_u32(runs.len() as u32);
        for (len, flags) in runs {
            out.put_u64(*len);
            out.put_u64((*flags).into());
        }
        return;
    }
    put_chunk(out, CHUNK_BLOCK_STATUS, done, to, 4 + 8 * runs.len() as u32);
    out.put_u32(context_id);
    for (len, flags) in runs {
        out.put_u32(u32::try_from(*len).unwrap_or(u32::MAX));
        out.put_u32(*flags);
    }
}
