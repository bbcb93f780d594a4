//! Requests of the transmission phase ("Request message" in proto.md).

use super::constants::{REQUEST_BYTES, REQUEST_MAGIC};
use super::field::Fields;
use bytes::{BufMut as _, BytesMut};

/// The client's identifier of a request, which the reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie(pub u64);

/// The command of a request (`NBD_CMD_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// `NBD_CMD_READ` (0).
    Read,
    /// `NBD_CMD_WRITE` (1); the only one with a payload.
    Write,
    /// `NBD_CMD_DISC` (2).
    Disconnect,
    /// `NBD_CMD_FLUSH` (3).
    Flush,
    /// `NBD_CMD_TRIM` (4).
    Trim,
    /// `NBD_CMD_CACHE` (5).
    Cache,
    /// `NBD_CMD_WRITE_ZEROES` (6).
    WriteZeroes,
    /// `NBD_CMD_BLOCK_STATUS` (7).
    BlockStatus,
    /// A command that this server does not support.
    Unknown(u16),
}

impl Command {
    /// Converts the number on the wire.
    #[must_use]
    pub const fn from_code(code: u16) -> Self {
        match code {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(code) => code,
        }
    }
}

/// A request's header, not yet checked against the export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// `COMMAND_*` bits.
    pub flags: u16,
    /// The command.
    pub command: Command,
    /// The client's identifier of the request.
    pub cookie: Cookie,
    /// Start of the range, in bytes.
    pub offset: u64,
    /// Length of the range in bytes; for a write, also of the payload that follows.
    pub len: u32,
}

/// The error of parsing a request's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There are fewer bytes than in a header.
    #[error("a request header of {got} instead of {REQUEST_BYTES} bytes")]
    Short {
        /// The number of bytes.
        got: usize,
    },
    /// The first word is not [`REQUEST_MAGIC`].
    #[error("wrong request magic {found:#010x}")]
    Magic {
        /// The first word.
        found: u32,
    },
}

impl Request {
    /// Parses the header at the start of `bytes`; the bytes after it are ignored.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RequestError> {
        let short = RequestError::Short { got: bytes.len() };
        let mut fields = Fields::new(bytes);
        let magic = fields.u32().ok_or(short)?;
        if magic != REQUEST_MAGIC {
            return Err(RequestError::Magic { found: magic });
        }
        Ok(Self {
            flags: fields.u16().ok_or(short)?,
            command: Command::from_code(fields.u16().ok_or(short)?),
            cookie: Cookie(fields.u64().ok_or(short)?),
            offset: fields.u64().ok_or(short)?,
            len: fields.u32().ok_or(short)?,
        })
    }

    /// Appends the header; the payload of a write follows it.
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(REQUEST_MAGIC);
        out.put_u16(self.flags);
        out.put_u16(self.command.code());
        out.put_u64(self.cookie.0);
        out.put_u64(self.offset);
        out.put_u32(self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed_field_by_field() {
        let mut bytes = Vec::new();
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend([0, 5, 0, 6]);
        bytes.extend(7u64.to_be_bytes());
        bytes.extend(8u64.to_be_bytes());
        bytes.extend(9u32.to_be_bytes());
        assert_eq!(bytes.len(), REQUEST_BYTES);
        let wanted = Request { flags: 5, command: Command::WriteZeroes, cookie: Cookie(7), offset: 8, len: 9 };
        assert_eq!(Request::parse(&bytes), Ok(wanted));
        let mut put = BytesMut::new();
        wanted.put(&mut put);
        assert_eq!(put, bytes);
        for len in 0..REQUEST_BYTES {
            assert_eq!(Request::parse(&bytes[..len]), Err(RequestError::Short { got: len }));
        }
        bytes[3] ^= 1;
        assert_eq!(Request::parse(&bytes), Err(RequestError::Magic { found: REQUEST_MAGIC ^ 1 }));
    }
}
