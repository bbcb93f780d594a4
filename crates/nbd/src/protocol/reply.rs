//! Replies of the transmission phase ("Simple reply message" and "Structured reply chunk message" in proto.md).

use super::constants::{
    CHUNK_BLOCK_STATUS, CHUNK_DONE, CHUNK_ERROR, CHUNK_MAGIC, CHUNK_NONE, CHUNK_OFFSET_DATA, SIMPLE_REPLY_MAGIC,
};
use super::request::Cookie;
use crate::errno::NbdErrno;
use bytes::{BufMut as _, BytesMut};

/// Appends a simple reply; the data of a successful read follows it.
pub fn put_simple(out: &mut BytesMut, cookie: Cookie, error: Option<NbdErrno>) {
    out.put_u32(SIMPLE_REPLY_MAGIC);
    out.put_u32(error.map_or(0, NbdErrno::code));
    out.put_u64(cookie.0);
}

fn put_chunk(out: &mut BytesMut, kind: u16, done: bool, cookie: Cookie, payload_bytes: u32) {
    out.put_u32(CHUNK_MAGIC);
    out.put_u16(if done { CHUNK_DONE } else { 0 });
    out.put_u16(kind);
    out.put_u64(cookie.0);
    out.put_u32(payload_bytes);
}

/// Appends a chunk without payload, which ends the reply: the request succeeded.
pub fn put_none(out: &mut BytesMut, cookie: Cookie) {
    put_chunk(out, CHUNK_NONE, true, cookie, 0);
}

/// Appends the header of the only chunk with a read's data, of which `len` bytes must follow. `len + 8` must fit into
/// 32 bits.
pub fn put_offset_data(out: &mut BytesMut, cookie: Cookie, offset: u64, len: u32) {
    put_chunk(out, CHUNK_OFFSET_DATA, true, cookie, 8 + len);
    out.put_u64(offset);
}

/// Appends an error chunk, the last of its reply.
pub fn put_error(out: &mut BytesMut, cookie: Cookie, error: NbdErrno, message: &'static str) {
    put_chunk(out, CHUNK_ERROR, true, cookie, 4 + 2 + message.len() as u32);
    out.put_u32(error.code());
    out.put_u16(message.len() as u16);
    out.put_slice(message.as_bytes());
}

/// Appends a chunk with the status in one context, as runs of (length in bytes, flags). `done` marks the last chunk of
/// the reply.
pub fn put_block_status(out: &mut BytesMut, cookie: Cookie, done: bool, context_id: u32, runs: &[(u32, u32)]) {
    put_chunk(out, CHUNK_BLOCK_STATUS, done, cookie, 4 + 8 * runs.len() as u32);
    out.put_u32(context_id);
    for (len, flags) in runs {
        out.put_u32(*len);
        out.put_u32(*flags);
    }
}
