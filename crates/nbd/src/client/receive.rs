//! Receives the replies on one connection.

use super::core::{Core, Expected};
use super::error::ClientError;
use super::job::{Answer, allocations};
use crate::link::Receiver;
use crate::protocol::{
    CHUNK_BLOCK_STATUS, CHUNK_ERROR_BIT, CHUNK_NONE, CHUNK_OFFSET_DATA, CHUNK_OFFSET_HOLE, ChunkHeader, Reply,
    chunk_errno, parse_runs,
};
use crate::transport::ReadHalf;
use bytes::Bytes;
use nitro_port::buf::BufMut;
use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;

/// The longest payload of a chunk other than data, in bytes.
const PAYLOAD_BYTES_MAX: u32 = 64 << 10;
/// The most parts of a read that are not next to each other.
const PARTS_MAX: usize = 1024;

/// What is received of a reply in chunks.
#[derive(Default)]
struct Partial {
    /// Data of a read, as long as it.
    data: Option<BufMut>,
    /// Which of them are there: ranges in order that do not touch.
    parts: Vec<(u32, u32)>,
    whole: Option<Bytes>,
    errno: Option<u32>,
    runs: Option<Vec<(u32, u32)>>,
}

impl Partial {
    /// Notes that a range of the data has arrived; refuses what arrives twice.
    fn note(&mut self, start: u32, end: u32) -> Result<(), ClientError> {
        let at = self.parts.partition_point(|part| part.1 <= start);
        if self.parts.get(at).is_some_and(|part| part.0 < end) {
            return Err(ClientError::Violation("data of a read arrive twice"));
        }
        let (mut range, mut joined) = ((start, end), at..at);
        if let Some(before) = at.checked_sub(1).and_then(|before| self.parts.get(before))
            && before.1 == start
        {
            (range.0, joined.start) = (before.0, at - 1);
        }
        if let Some(after) = self.parts.get(at)
            && after.0 == end
        {
            (range.1, joined.end) = (after.1, at + 1);
        }
        self.parts.splice(joined, [range]);
        if self.parts.len() > PARTS_MAX {
            return Err(ClientError::Violation("a read in too many parts"));
        }
        Ok(())
    }
}

/// Receives replies until the connection fails.
pub(super) async fn receive<R: ReadHalf>(
    core: &RefCell<Core>,
    lane: usize,
    is_structured: bool,
    mut receiver: Receiver<R>,
) -> Result<Infallible, ClientError> {
    let mut partial: HashMap<u64, Partial> = HashMap::new();
    loop {
        fill(&mut receiver, size_of::<u32>()).await?;
        let header_bytes = Reply::header_bytes(receiver.window())?;
        fill(&mut receiver, header_bytes).await?;
        let reply = Reply::parse(receiver.window())?;
        receiver.consume(header_bytes);
        match reply {
            Reply::Simple { errno, cookie } => {
                let expected = expected(core, lane, cookie.0)?;
                if partial.contains_key(&cookie.0) {
                    return Err(ClientError::Violation("a simple reply after a chunk"));
                }
                let result = match expected {
                    _ if errno != 0 => Err(errno),
                    Expected::Data { .. } if is_structured => {
                        return Err(ClientError::Violation("a simple reply to a read"));
                    }
                    Expected::Data { len, .. } => Ok(Answer::Data(payload(&mut receiver, len).await?)),
                    Expected::Runs => return Err(ClientError::Violation("a simple reply without a block status")),
                    Expected::Nothing => Ok(Answer::Done),
                };
                finish(core, cookie.0, result)?;
            }
            Reply::Chunk(_) if !is_structured => return Err(ClientError::Violation("a chunk that was not agreed on")),
            Reply::Chunk(header) => {
                let expected = expected(core, lane, header.cookie.0)?;
                let mut so_far = partial.remove(&header.cookie.0).unwrap_or_default();
                chunk(&mut receiver, header, expected, &mut so_far).await?;
                if header.done {
                    finish(core, header.cookie.0, outcome(so_far, expected)?)?;
                } else {
                    // No more than there are requests under way.
                    partial.insert(header.cookie.0, so_far);
                }
            }
        }
    }
}

fn expected(core: &RefCell<Core>, lane: usize, cookie: u64) -> Result<Expected, ClientError> {
    core.borrow().expected(lane, cookie).ok_or(ClientError::Violation("a reply to no request"))
}

fn finish(core: &RefCell<Core>, cookie: u64, result: Result<Answer, u32>) -> Result<(), ClientError> {
    core.borrow_mut().replied(cookie, result)
}

/// Receives the payload of a chunk.
async fn chunk<R: ReadHalf>(
    receiver: &mut Receiver<R>,
    header: ChunkHeader,
    expected: Expected,
    so_far: &mut Partial,
) -> Result<(), ClientError> {
    let ChunkHeader { kind, len, .. } = header;
    match (kind, expected) {
        (CHUNK_NONE, _) if len == 0 && header.done => Ok(()),
        (CHUNK_OFFSET_DATA, Expected::Data { offset, len: wanted }) => {
            fill(receiver, size_of::<u64>()).await?;
            let at = receiver.window().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            receiver.consume(size_of::<u64>());
            let (start, end) = within(offset, wanted, at, len.saturating_sub(size_of::<u64>() as u32))?;
            so_far.note(start, end)?;
            if (start, end) == (0, wanted) {
                so_far.whole = Some(payload(receiver, wanted).await?);
                return Ok(());
            }
            let data = so_far.data.take().unwrap_or_else(|| BufMut::zeroed(wanted as usize));
            let (is_there, data) = receiver.payload_into(data, start as usize, (end - start) as usize).await?;
            so_far.data = Some(data);
            if is_there { Ok(()) } else { Err(ClientError::Closed) }
        }
        (CHUNK_OFFSET_HOLE, Expected::Data { offset, len: wanted }) if len == 12 => {
            fill(receiver, 12).await?;
            let window = receiver.window();
            let at = window.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            let hole = window[size_of::<u64>()..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            receiver.consume(12);
            let (start, end) = within(offset, wanted, at, hole)?;
            so_far.note(start, end)?;
            so_far.data.get_or_insert_with(|| BufMut::zeroed(wanted as usize));
            Ok(())
        }
        (CHUNK_BLOCK_STATUS, Expected::Runs) if len <= PAYLOAD_BYTES_MAX => {
            fill(receiver, len as usize).await?;
            // Only one context was chosen.
            let (_, runs) = parse_runs(&receiver.window()[..len as usize])?;
            receiver.consume(len as usize);
            so_far.runs = Some(runs);
            Ok(())
        }
        (kind, _) if kind & CHUNK_ERROR_BIT != 0 && len <= PAYLOAD_BYTES_MAX => {
            fill(receiver, len as usize).await?;
            let errno = chunk_errno(&receiver.window()[..len as usize])?;
            receiver.consume(len as usize);
            // 0 is no error.
            so_far.errno.get_or_insert(errno.max(1));
            Ok(())
        }
        _ => Err(ClientError::Violation("a chunk that does not fit its request")),
    }
}

/// A part of a read, relative to its start.
fn within(offset: u64, wanted: u32, at: u64, len: u32) -> Result<(u32, u32), ClientError> {
    let start = at.checked_sub(offset).and_then(|start| u32::try_from(start).ok());
    match start.and_then(|start| Some((start, start.checked_add(len)?))) {
        Some((start, end)) if end <= wanted && start < end => Ok((start, end)),
        _ => Err(ClientError::Violation("data outside the range of their read")),
    }
}

/// The result of a reply whose last chunk has arrived.
fn outcome(so_far: Partial, expected: Expected) -> Result<Result<Answer, u32>, ClientError> {
    if let Some(errno) = so_far.errno {
        return Ok(Err(errno));
    }
    Ok(Ok(match expected {
        Expected::Nothing => Answer::Done,
        Expected::Runs => match so_far.runs {
            Some(runs) if !runs.is_empty() => Answer::Status(allocations(&runs)),
            _ => return Err(ClientError::Violation("a block status without runs")),
        },
        Expected::Data { len, .. } => match (so_far.whole, so_far.data) {
            (Some(whole), _) => Answer::Data(whole),
            (None, Some(data)) if so_far.parts == [(0, len)] => Answer::Data(data.freeze()),
            _ => return Err(ClientError::Violation("a read without all of its data")),
        },
    }))
}

async fn fill<R: ReadHalf>(receiver: &mut Receiver<R>, len: usize) -> Result<(), ClientError> {
    if receiver.fill(len).await? { Ok(()) } else { Err(ClientError::Closed) }
}

async fn payload<R: ReadHalf>(receiver: &mut Receiver<R>, len: u32) -> Result<Bytes, ClientError> {
    Ok(receiver.payload(len as usize).await?.ok_or(ClientError::Closed)?.freeze())
}
