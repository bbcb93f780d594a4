//! The client's side of the transmission phase: replies of a server, which is not trusted.

use super::constants::{CHUNK_BYTES, CHUNK_DONE, CHUNK_MAGIC, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC};
use super::field::Fields;
use super::request::Cookie;

/// The error of parsing a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The first word begins no reply.
    #[error("wrong reply magic {found:#010x}")]
    Magic {
        /// The first word.
        found: u32,
    },
    /// A payload ends within its {field}.
    #[error("the payload of a reply ends within its {field}")]
    Short {
        /// The field's name.
        field: &'static str,
    },
    /// A run of blocks has no length.
    #[error("a run of blocks is empty")]
    EmptyRun,
}

/// The header of a chunk of a structured reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Whether it is the last of its reply.
    pub done: bool,
    /// `CHUNK_*`.
    pub kind: u16,
    /// The request.
    pub cookie: Cookie,
    /// Bytes of the payload that follows.
    pub len: u32,
}

/// The start of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// A simple reply: the data of a successful read follow it.
    Simple {
        /// The error number; 0: success.
        errno: u32,
        /// The request.
        cookie: Cookie,
    },
    /// A chunk.
    Chunk(ChunkHeader),
}

impl Reply {
    /// Bytes of the header that begins with `bytes`, of which there are at least 4.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn header_bytes(bytes: &[u8]) -> Result<usize, AnswerError> {
        match Fields::new(bytes).u32().ok_or(AnswerError::Short { field: "magic" })? {
            SIMPLE_REPLY_MAGIC => Ok(SIMPLE_REPLY_BYTES),
            CHUNK_MAGIC => Ok(CHUNK_BYTES),
            found => Err(AnswerError::Magic { found }),
        }
    }

    /// Parses the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, AnswerError> {
        let short = AnswerError::Short { field: "header" };
        let mut fields = Fields::new(bytes);
        match fields.u32().ok_or(short)? {
            SIMPLE_REPLY_MAGIC => {
                Ok(Self::Simple { errno: fields.u32().ok_or(short)?, cookie: Cookie(fields.u64().ok_or(short)?) })
            }
            CHUNK_MAGIC => Ok(Self::Chunk(ChunkHeader {
                done: fields.u16().ok_or(short)? & CHUNK_DONE != 0,
                kind: fields.u16().ok_or(short)?,
                cookie: Cookie(fields.u64().ok_or(short)?),
                len: fields.u32().ok_or(short)?,
            })),
            found => Err(AnswerError::Magic { found }),
        }
    }
}

/// The error number in the payload of an error chunk, whatever its type.
///
/// # Errors
/// [`AnswerError::Short`].
pub fn chunk_errno(payload: &[u8]) -> Result<u32, AnswerError> {
    Fields::new(payload).u32().ok_or(AnswerError::Short { field: "error number" })
}

/// The context and the runs (length in bytes, flags) in the payload of a chunk with the status of blocks.
///
/// # Errors
/// [`AnswerError`].
pub fn parse_runs(payload: &[u8]) -> Result<(u32, Vec<(u32, u32)>), AnswerError> {
    let short = AnswerError::Short { field: "runs" };
    let mut fields = Fields::new(payload);
    let context = fields.u32().ok_or(short)?;
    let mut runs = Vec::with_capacity(fields.rest_len() / 8);
    while fields.rest_len() > 0 {
        let run = (fields.u32().ok_or(short)?, fields.u32().ok_or(short)?);
        if run.0 == 0 {
            return Err(AnswerError::EmptyRun);
        }
        runs.push(run);
    }
    Ok((context, runs))
}

#[cfg(test)]
mod tests {
    use super::super::{Answered, Command, Headers, Request, put_block_status, put_error, put_simple};
    use super::*;
    use crate::errno::NbdErrno;
    use bytes::BytesMut;

    fn to(cookie: Cookie) -> Answered {
        let request = Request { flags: 0, command: Command::Read, cookie, offset: 0, len: 4096 };
        Answered::new(Headers::Structured, &request)
    }

    #[test]
    fn what_the_server_puts_is_parsed_and_what_is_cut_off_is_refused() {
        let mut out = BytesMut::new();
        put_simple(&mut out, Cookie(7), Some(NbdErrno::NoSpace));
        assert_eq!(Reply::header_bytes(&out), Ok(out.len()));
        assert_eq!(Reply::parse(&out), Ok(Reply::Simple { errno: 28, cookie: Cookie(7) }));
        out.clear();
        put_error(&mut out, to(Cookie(8)), NbdErrno::Io, "no");
        let (header, payload) = out.split_at(CHUNK_BYTES);
        let wanted = ChunkHeader { done: true, kind: super::super::CHUNK_ERROR, cookie: Cookie(8), len: 8 };
        assert_eq!(Reply::parse(header), Ok(Reply::Chunk(wanted)));
        assert_eq!(chunk_errno(payload), Ok(5));
        assert!((0..CHUNK_BYTES).all(|len| Reply::parse(&header[..len]).is_err()));
        let mut runs = BytesMut::new();
        put_block_status(&mut runs, to(Cookie(9)), true, 1, &[(4096, 3), (512, 0)]);
        let payload = &runs[CHUNK_BYTES..];
        assert_eq!(parse_runs(payload), Ok((1, vec![(4096, 3), (512, 0)])));
        assert!(parse_runs(&payload[..payload.len() - 1]).is_err());
        assert_eq!(parse_runs(&[0; 12]), Err(AnswerError::EmptyRun));
        assert_eq!(Reply::parse(&[0; 20]), Err(AnswerError::Magic { found: 0 }));
    }
}
