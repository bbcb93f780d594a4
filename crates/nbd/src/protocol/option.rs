//! Options of the handshake ("Option haggling" in proto.md).

use super::constants::{OPTION_HEADER_BYTES, OPTION_MAGIC, STRING_BYTES_MAX};
use super::field::Fields;

/// The code of an option (`NBD_OPT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OptionCode {
    /// `NBD_OPT_EXPORT_NAME` (1): choose an export. It has no error reply.
    ExportName,
    /// `NBD_OPT_ABORT` (2).
    Abort,
    /// `NBD_OPT_LIST` (3).
    List,
    /// `NBD_OPT_STARTTLS` (5).
    StartTls,
    /// `NBD_OPT_INFO` (6).
    Info,
    /// `NBD_OPT_GO` (7): choose an export.
    Go,
    /// `NBD_OPT_STRUCTURED_REPLY` (8).
    StructuredReply,
    /// `NBD_OPT_LIST_META_CONTEXT` (9).
    ListMetaContext,
    /// `NBD_OPT_SET_META_CONTEXT` (10).
    SetMetaContext,
    /// `NBD_OPT_EXTENDED_HEADERS` (11).
    ExtendedHeaders,
    /// An option that this server does not support.
    Unknown(u32),
}

impl OptionCode {
    /// Converts the number on the wire.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        match code {
            1 => Self::ExportName,
            2 => Self::Abort,
            3 => Self::List,
            5 => Self::StartTls,
            6 => Self::Info,
            7 => Self::Go,
            8 => Self::StructuredReply,
            9 => Self::ListMetaContext,
            10 => Self::SetMetaContext,
            11 => Self::ExtendedHeaders,
            other => Self::Unknown(other),
        }
    }

    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::ExportName => 1,
            Self::Abort => 2,
            Self::List => 3,
            Self::StartTls => 5,
            Self::Info => 6,
            Self::Go => 7,
            Self::StructuredReply => 8,
            Self::ListMetaContext => 9,
            Self::SetMetaContext => 10,
            Self::ExtendedHeaders => 11,
            Self::Unknown(code) => code,
        }
    }
}

/// The error of parsing an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The first word is not [`OPTION_MAGIC`].
    #[error("wrong option magic {found:#018x}")]
    Magic {
        /// The first word.
        found: u64,
    },
    /// The option ends within a field.
    #[error("the option ends within its {field}")]
    Short {
        /// The field's name.
        field: &'static str,
    },
    /// Bytes follow the last field.
    #[error("{bytes} bytes follow the last field of the option")]
    TooLong {
        /// The number of these bytes.
        bytes: usize,
    },
    /// A string is longer than [`STRING_BYTES_MAX`].
    #[error("a string of {bytes} bytes is too long")]
    LongString {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A name is not UTF-8.
    #[error("a name is not UTF-8")]
    NotUtf8,
}

/// An option's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// The option's code.
    pub code: OptionCode,
    /// Bytes of the payload that follows.
    pub len: u32,
}

impl OptionHeader {
    /// Parses the header at the start of `bytes`; the bytes after it are ignored.
    ///
    /// # Errors
    /// [`OptionError::Magic`], [`OptionError::Short`].
    pub fn parse(bytes: &[u8]) -> Result<Self, OptionError> {
        const SHORT: OptionError = OptionError::Short { field: "header" };
        let mut fields = Fields::new(bytes);
        let magic = fields.u64().ok_or(SHORT)?;
        if magic != OPTION_MAGIC {
            return Err(OptionError::Magic { found: magic });
        }
        let code = OptionCode::from_code(fields.u32().ok_or(SHORT)?);
        Ok(Self { code, len: fields.u32().ok_or(SHORT)? })
    }
}

const _: () = assert!(OPTION_HEADER_BYTES == 8 + 4 + 4);

/// Checks a name, such as the whole payload of `NBD_OPT_EXPORT_NAME`: at most [`STRING_BYTES_MAX`] bytes of UTF-8.
///
/// # Errors
/// [`OptionError::LongString`], [`OptionError::NotUtf8`].
pub fn parse_name(bytes: &[u8]) -> Result<&str, OptionError> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(OptionError::LongString { bytes: bytes.len() });
    }
    std::str::from_utf8(bytes).map_err(|_| OptionError::NotUtf8)
}

fn counted_name<'a>(fields: &mut Fields<'a>) -> Result<&'a str, OptionError> {
    let len = fields.u32().ok_or(OptionError::Short { field: "name length" })?;
    parse_name(fields.bytes(len as usize).ok_or(OptionError::Short { field: "name" })?)
}

/// The items that `NBD_OPT_INFO` or `NBD_OPT_GO` can request (`NBD_INFO_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InfoWanted {
    /// `NBD_INFO_NAME` (1).
    pub name: bool,
    /// `NBD_INFO_DESCRIPTION` (2).
    pub description: bool,
    /// `NBD_INFO_BLOCK_SIZE` (3).
    pub block_size: bool,
}

/// The payload of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// The name of the requested export.
    pub name: &'a str,
    /// The requested items. Unknown ones are ignored.
    pub wanted: InfoWanted,
}

impl<'a> InfoRequest<'a> {
    /// Parses a payload.
    ///
    /// # Errors
    /// Any [`OptionError`] except `Magic`.
    pub fn parse(payload: &'a [u8]) -> Result<Self, OptionError> {
        let mut fields = Fields::new(payload);
        let name = counted_name(&mut fields)?;
        let count = fields.u16().ok_or(OptionError::Short { field: "information count" })?;
        let mut wanted = InfoWanted::default();
        for _ in 0..count {
            match fields.u16().ok_or(OptionError::Short { field: "information requests" })? {
                1 => wanted.name = true,
                2 => wanted.description = true,
                3 => wanted.block_size = true,
                _ => {}
            }
        }
        match fields.rest_len() {
            0 => Ok(Self { name, wanted }),
            bytes => Err(OptionError::TooLong { bytes }),
        }
    }
}

/// The payload of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaRequest<'a> {
    /// The name of the requested export.
    pub name: &'a str,
    /// The names of contexts or namespaces, as received.
    pub queries: Vec<&'a [u8]>,
}

impl<'a> MetaRequest<'a> {
    /// Parses a payload.
    ///
    /// # Errors
    /// Any [`OptionError`] except `Magic`.
    pub fn parse(payload: &'a [u8]) -> Result<Self, OptionError> {
        const SHORT: OptionError = OptionError::Short { field: "queries" };
        let mut fields = Fields::new(payload);
        let name = counted_name(&mut fields)?;
        let count = fields.u32().ok_or(OptionError::Short { field: "query count" })?;
        // Each query takes at least the four bytes of its length.
        if count as usize > fields.rest_len() / 4 {
            return Err(SHORT);
        }
        let mut queries = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let len = fields.u32().ok_or(SHORT)? as usize;
            let query = fields.bytes(len).ok_or(SHORT)?;
            if len > STRING_BYTES_MAX {
                return Err(OptionError::LongString { bytes: len });
            }
            queries.push(query);
        }
        match fields.rest_len() {
            0 => Ok(Self { name, queries }),
            bytes => Err(OptionError::TooLong { bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((name.len() as u32).to_be_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend((queries.len() as u32).to_be_bytes());
        for query in queries {
            bytes.extend((query.len() as u32).to_be_bytes());
            bytes.extend(query.as_bytes());
        }
        bytes
    }

    #[test]
    fn codes_survive_the_round_trip() {
        for code in 0..20 {
            assert_eq!(OptionCode::from_code(code).code(), code);
        }
    }

    #[test]
    fn meta_requests_are_taken_whole_or_not_at_all() {
        let bytes = meta("disk", &["base:", "nitro:cache"]);
        let parsed = MetaRequest::parse(&bytes).unwrap();
        assert_eq!(parsed, MetaRequest { name: "disk", queries: vec![b"base:", b"nitro:cache"] });
        for len in 0..bytes.len() {
            assert!(matches!(MetaRequest::parse(&bytes[..len]), Err(OptionError::Short { .. })));
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(MetaRequest::parse(&longer), Err(OptionError::TooLong { bytes: 1 }));
    }

    #[test]
    fn a_claimed_count_allocates_nothing() {
        let mut bytes = meta("", &[]);
        bytes[4..].fill(0xff);
        assert_eq!(MetaRequest::parse(&bytes), Err(OptionError::Short { field: "queries" }));
    }

    #[test]
    fn names_are_bounded_utf8() {
        assert_eq!(parse_name(&[b'a'; 4097]), Err(OptionError::LongString { bytes: 4097 }));
        assert_eq!(parse_name(&[0xff]), Err(OptionError::NotUtf8));
        let info = [0, 0, 0, 1, b'd', 0, 2, 0, 3, 0, 77];
        let wanted = InfoWanted { block_size: true, ..InfoWanted::default() };
        assert_eq!(InfoRequest::parse(&info), Ok(InfoRequest { name: "d", wanted }));
    }
}
