//! One request to a server, from its caller to its answer.

use super::unflushed::{Content, Unflushed};
use crate::protocol::{COMMAND_FAST_ZERO, COMMAND_FUA, Command, Cookie, Request, STATE_HOLE, STATE_ZERO};
use bytes::{Bytes, BytesMut};
use futures_channel::oneshot;
use nitro_port::Allocation;
use std::io;
use std::sync::Arc;

/// What a request does. Lengths are within what the server takes.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Read { offset: u64, len: u32 },
    Flush,
    Status { offset: u64, len: u32 },
    Change { offset: u64, len: u32, content: Content },
}

impl Op {
    /// Its header, and the data that follow it.
    pub(super) fn wire(&self, cookie: u64, fua: bool, out: &mut Vec<Bytes>) {
        let (command, flags, offset, len) = match self {
            Self::Read { offset, len } => (Command::Read, 0, *offset, *len),
            Self::Flush => (Command::Flush, 0, 0, 0),
            Self::Status { offset, len } => (Command::BlockStatus, 0, *offset, *len),
            Self::Change { offset, len, content } => {
                let (command, flags) = match content {
                    Content::Data(_) => (Command::Write, 0),
                    Content::Zeroes { flags } => (Command::WriteZeroes, *flags),
                    Content::Trimmed => (Command::Trim, 0),
                };
                (command, flags | if fua { COMMAND_FUA } else { 0 }, *offset, *len)
            }
        };
        let mut header = BytesMut::with_capacity(crate::protocol::REQUEST_BYTES);
        Request { flags, command, cookie: Cookie(cookie), offset, len: len.into() }.put(&mut header);
        out.push(header.freeze());
        if let Self::Change { content: Content::Data(data), .. } = self {
            out.push(data.clone());
        }
    }

    /// What it counts in the buffer of what was not flushed.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::Change { content: Content::Data(data), .. } => Unflushed::cost(data.len()),
            Self::Change { .. } => Unflushed::cost(0),
            _ => 0,
        }
    }

    /// The same change, to be made again: it has to be made, be that fast or not.
    pub(super) fn again(offset: u64, len: u64, content: &Content) -> Self {
        let content = match content {
            Content::Zeroes { flags } => Content::Zeroes { flags: flags & !COMMAND_FAST_ZERO },
            other => other.clone(),
        };
        Self::Change { offset, len: len as u32, content }
    }
}

/// The data of a successful reply.
#[derive(Debug)]
pub(super) enum Answer {
    Done,
    Data(Bytes),
    Status(Vec<Allocation>),
}

/// Why a request failed.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The server's error number.
    Errno(u32),
    /// What the server acknowledged may be lost, or it is another one.
    Lost(Arc<str>),
}

impl Failure {
    /// As an error of the operating system, whose numbers the protocol has.
    pub(super) fn into_io(self) -> io::Error {
        match self {
            // "Error values" in proto.md; others are to be treated as EINVAL.
            Self::Errno(errno @ (1 | 5 | 12 | 22 | 28 | 75 | 95 | 108)) => {
                io::Error::from_raw_os_error(errno.cast_signed())
            }
            Self::Errno(errno) => io::Error::other(format!("the server answers with error {errno}")),
            Self::Lost(why) => io::Error::other(&*why),
        }
    }
}

/// A request and who waits for its answer.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) op: Op,
    pub(super) reply: oneshot::Sender<Result<Answer, Failure>>,
}

/// Runs of blocks as a map of what is allocated.
pub(super) fn allocations(runs: &[(u32, u32)]) -> Vec<Allocation> {
    // A hole that does not read as zeroes has unspecified content: it is data.
    let hole = |flags: u32| flags & (STATE_HOLE | STATE_ZERO) == STATE_HOLE | STATE_ZERO;
    runs.iter().map(|(len, flags)| Allocation { len: u64::from(*len), hole: hole(*flags) }).collect()
}
