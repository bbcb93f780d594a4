//! Requests of the transmission phase ("Request message" in proto.md).

use super::constants::{
    COMMAND_PAYLOAD_LEN, EXTENDED_REQUEST_BYTES, EXTENDED_REQUEST_MAGIC, REQUEST_BYTES, REQUEST_MAGIC,
};
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

/// The headers of a connection's requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Headers {
    /// Simple replies.
    #[default]
    Simple,
    /// Replies in chunks, also simple ones (`NBD_OPT_STRUCTURED_REPLY`).
    Structured,
    /// Requests and chunks with lengths of 64 bits (`NBD_OPT_EXTENDED_HEADERS`).
    Extended,
}

impl Headers {
    /// Bytes of a request's header.
    #[must_use]
    pub const fn request_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => REQUEST_BYTES,
            Self::Extended => EXTENDED_REQUEST_BYTES,
        }
    }

    const fn request_magic(self) -> u32 {
        match self {
            Self::Simple | Self::Structured => REQUEST_MAGIC,
            Self::Extended => EXTENDED_REQUEST_MAGIC,
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
    pub len: u64,
}

/// The error of parsing a request's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There are fewer bytes than in a header.
    #[error("a request header of only {got} bytes")]
    Short {
        /// The number of bytes.
        got: usize,
    },
    /// The first word is not that of a request with these headers.
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
    pub fn parse(headers: Headers, bytes: &[u8]) -> Result<Self, RequestError> {
        let short = RequestError::Short { got: bytes.len() };
        let mut fields = Fields::new(bytes);
        let magic = fields.u32().ok_or(short)?;
        if magic != headers.request_magic() {
            return Err(RequestError::Magic { found: magic });
        }
        Ok(Self {
            flags: fields.u16().ok_or(short)?,
            command: Command::from_code(fields.u16().ok_or(short)?),
            cookie: Cookie(fields.u64().ok_or(short)?),
            offset: fields.u64().ok_or(short)?,
            len: match headers {
                Headers::Simple | Headers::Structured => fields.u32().ok_or(short)?.into(),
                Headers::Extended => fields.u64().ok_or(short)?,
            },
        })
    }

    /// Bytes of the payload that follows the header.
    #[must_use]
    pub fn payload_bytes(&self, headers: Headers) -> u64 {
        let has_payload = headers == Headers::Extended && self.flags & COMMAND_PAYLOAD_LEN != 0;
        if self.command == Command::Write || has_payload && self.command != Command::Disconnect { self.len } else { 0 }
    }

    /// Appends the header of a connection without extended headers, whose requests have at most `u32::MAX` bytes; the
    /// payload of a write follows it.
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(REQUEST_MAGIC);
        out.put_u16(self.flags);
        out.put_u16(self.command.code());
        out.put_u64(self.cookie.0);
        out.put_u64(self.offset);
        out.put_u32(u32::try_from(self.len).unwrap_or(u32::MAX));
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
        assert_eq!(Request::parse(Headers::Structured, &bytes), Ok(wanted));
        let mut put = BytesMut::new();
        wanted.put(&mut put);
        assert_eq!(put, bytes);
        for len in 0..REQUEST_BYTES {
            assert_eq!(Request::parse(Headers::Simple, &bytes[..len]), Err(RequestError::Short { got: len }));
        }
        assert_eq!(Request::parse(Headers::Extended, &bytes), Err(RequestError::Magic { found: REQUEST_MAGIC }));
        bytes[3] ^= 1;
        let wrong = RequestError::Magic { found: REQUEST_MAGIC ^ 1 };
        assert_eq!(Request::parse(Headers::Simple, &bytes), Err(wrong));
    }

    #[test]
    fn an_extended_request_has_a_length_of_64_bits() {
        let mut bytes = EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
        bytes.extend([0, 0x20, 0, 4]);
        [7, 8, 1_u64 << 40].iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        assert_eq!(bytes.len(), Headers::Extended.request_bytes());
        let trim =
            Request { flags: COMMAND_PAYLOAD_LEN, command: Command::Trim, cookie: Cookie(7), offset: 8, len: 1 << 40 };
        assert_eq!(Request::parse(Headers::Extended, &bytes), Ok(trim));
        assert_eq!((trim.payload_bytes(Headers::Extended), trim.payload_bytes(Headers::Structured)), (1 << 40, 0));
        assert_eq!(Request { flags: 0, ..trim }.payload_bytes(Headers::Extended), 0);
        assert_eq!(Request { flags: 0, command: Command::Write, ..trim }.payload_bytes(Headers::Extended), 1 << 40);
        assert_eq!(Request::parse(Headers::Extended, &bytes[..31]), Err(RequestError::Short { got: 31 }));
    }
}
