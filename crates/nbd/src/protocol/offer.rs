//! The client's side of the handshake: greeting and replies to options of a server, which is not trusted.

use super::constants::{
    FLAG_FIXED_NEWSTYLE, GREETING_MAGIC, OLD_GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX,
};
use super::field::Fields;
use super::option::OptionCode;
use bytes::{BufMut as _, BytesMut};

/// `NBD_INFO_BLOCK_SIZE`, the only item of information that the client asks for.
const INFO_BLOCK_SIZE: u16 = 3;
/// The bit of replies to options that are errors.
const ERROR: u32 = 1 << 31;

/// The error of parsing the handshake of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The first bytes are no greeting.
    #[error("it does not speak NBD")]
    Greeting,
    /// The server does not negotiate, or not in the fixed newstyle.
    #[error("it speaks an old NBD protocol, without the fixed newstyle negotiation")]
    OldStyle,
    /// A reply to an option is malformed.
    #[error("a malformed reply to an option: {field}")]
    Reply {
        /// What is wrong.
        field: &'static str,
    },
}

/// The greeting of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// `FLAG_*` bits.
    pub flags: u16,
}

impl Greeting {
    /// Parses a greeting of [`GREETING_BYTES`](super::GREETING_BYTES).
    ///
    /// # Errors
    /// [`OfferError::Greeting`], [`OfferError::OldStyle`].
    pub fn parse(bytes: &[u8]) -> Result<Self, OfferError> {
        let mut fields = Fields::new(bytes);
        if fields.u64() != Some(GREETING_MAGIC) {
            return Err(OfferError::Greeting);
        }
        match fields.u64() {
            Some(OPTION_MAGIC) => {}
            Some(OLD_GREETING_MAGIC) => return Err(OfferError::OldStyle),
            _ => return Err(OfferError::Greeting),
        }
        match fields.u16() {
            Some(flags) if flags & FLAG_FIXED_NEWSTYLE != 0 => Ok(Self { flags }),
            Some(_) => Err(OfferError::OldStyle),
            None => Err(OfferError::Greeting),
        }
    }
}

/// The header of a reply to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// `NBD_REP_*`: see [`OptionReply`](super::OptionReply).
    pub kind: u32,
    /// Bytes of the payload that follows.
    pub len: u32,
}

impl OptionReplyHeader {
    /// Parses the header of a reply to `option`.
    ///
    /// # Errors
    /// [`OfferError::Reply`]: it is none, or of another option.
    pub fn parse(bytes: &[u8], option: OptionCode) -> Result<Self, OfferError> {
        let wrong = |field| OfferError::Reply { field };
        let mut fields = Fields::new(bytes);
        if fields.u64() != Some(OPTION_REPLY_MAGIC) {
            return Err(wrong("wrong magic"));
        }
        if fields.u32() != Some(option.code()) {
            return Err(wrong("it is to another option"));
        }
        let short = wrong("it ends within its header");
        Ok(Self { kind: fields.u32().ok_or(short)?, len: fields.u32().ok_or(short)? })
    }

    /// Whether it refuses the option.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        self.kind & ERROR != 0
    }
}

/// An item of information on an export that the client uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Size and transmission flags.
    Export {
        /// Size in bytes.
        size_bytes: u64,
        /// `TRANSMIT_*` bits.
        flags: u16,
    },
    /// Block sizes in bytes.
    BlockSize {
        /// Requests are aligned to its multiples.
        min: u32,
        /// The smallest one of good performance.
        preferred: u32,
        /// The maximum length of a request.
        max: u32,
    },
    /// Anything else.
    Other,
}

impl Told {
    /// Parses the payload of `NBD_REP_INFO`.
    ///
    /// # Errors
    /// [`OfferError::Reply`].
    pub fn parse(payload: &[u8]) -> Result<Self, OfferError> {
        let short = OfferError::Reply { field: "information that ends within a field" };
        let mut fields = Fields::new(payload);
        Ok(match fields.u16().ok_or(short)? {
            0 => Self::Export { size_bytes: fields.u64().ok_or(short)?, flags: fields.u16().ok_or(short)? },
            INFO_BLOCK_SIZE => Self::BlockSize {
                min: fields.u32().ok_or(short)?,
                preferred: fields.u32().ok_or(short)?,
                max: fields.u32().ok_or(short)?,
            },
            _ => Self::Other,
        })
    }
}

/// The number of the context called `name`, in the payload of `NBD_REP_META_CONTEXT`; `None`: it is another one.
///
/// # Errors
/// [`OfferError::Reply`].
pub fn parse_context(payload: &[u8], name: &str) -> Result<Option<u32>, OfferError> {
    let mut fields = Fields::new(payload);
    let id = fields.u32().ok_or(OfferError::Reply { field: "a context without a number" })?;
    Ok((fields.bytes(fields.rest_len()) == Some(name.as_bytes())).then_some(id))
}

/// Appends an option.
pub fn put_option(out: &mut BytesMut, option: OptionCode, payload: &[u8]) {
    out.put_u64(OPTION_MAGIC);
    out.put_u32(option.code());
    out.put_u32(payload.len() as u32);
    out.put_slice(payload);
}

/// Appends `NBD_OPT_GO` for an export, with the wish to know its block sizes. Longer names than the protocol allows are cut.
pub fn put_go(out: &mut BytesMut, export: &str) {
    let mut payload = BytesMut::new();
    put_name(&mut payload, export);
    payload.put_u16(1);
    payload.put_u16(INFO_BLOCK_SIZE);
    put_option(out, OptionCode::Go, &payload);
}

/// Appends `NBD_OPT_SET_META_CONTEXT` for one context of an export.
pub fn put_set_context(out: &mut BytesMut, export: &str, context: &str) {
    let mut payload = BytesMut::new();
    put_name(&mut payload, export);
    payload.put_u32(1);
    put_name(&mut payload, context);
    put_option(out, OptionCode::SetMetaContext, &payload);
}

fn put_name(out: &mut BytesMut, name: &str) {
    let bytes = &name.as_bytes()[..name.len().min(STRING_BYTES_MAX)];
    out.put_u32(bytes.len() as u32);
    out.put_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::{InfoItem, InfoRequest, MetaRequest, OPTION_HEADER_BYTES, OPTION_REPLY_BYTES, OptionReply};
    use super::super::{put_greeting, put_info, put_meta_context, put_reply};
    use super::*;

    #[test]
    fn a_greeting_is_told_from_others() {
        let mut out = BytesMut::new();
        put_greeting(&mut out);
        assert_eq!(Greeting::parse(&out), Ok(Greeting { flags: 3 }));
        let mut old = out.clone();
        old[17] = 2;
        assert_eq!(Greeting::parse(&old), Err(OfferError::OldStyle));
        old[8..16].copy_from_slice(&OLD_GREETING_MAGIC.to_be_bytes());
        assert_eq!(Greeting::parse(&old), Err(OfferError::OldStyle));
        assert_eq!(Greeting::parse(b"SSH-2.0-OpenSSH_9.2"), Err(OfferError::Greeting));
        assert_eq!(Greeting::parse(&out[..17]), Err(OfferError::Greeting));
    }

    #[test]
    fn the_server_understands_the_clients_options_and_the_client_its_replies() {
        let mut out = BytesMut::new();
        put_go(&mut out, "vm");
        let asked = InfoRequest::parse(&out[OPTION_HEADER_BYTES..]).unwrap();
        assert!(asked.name == "vm" && asked.wanted.block_size);
        out.clear();
        put_set_context(&mut out, "vm", "base:allocation");
        let asked = MetaRequest::parse(&out[OPTION_HEADER_BYTES..]).unwrap();
        assert_eq!((asked.name, asked.queries), ("vm", vec![b"base:allocation".as_slice()]));
        out.clear();
        put_info(&mut out, OptionCode::Go, InfoItem::BlockSize { min: 1, preferred: 4096, max: 1 << 25 });
        let (header, payload) = out.split_at(OPTION_REPLY_BYTES);
        let header = OptionReplyHeader::parse(header, OptionCode::Go).unwrap();
        assert_eq!((header.kind, header.len as usize), (OptionReply::Info as u32, payload.len()));
        assert_eq!(Told::parse(payload), Ok(Told::BlockSize { min: 1, preferred: 4096, max: 1 << 25 }));
        assert!((0..payload.len()).all(|len| Told::parse(&payload[..len]).is_err()));
        out.clear();
        put_meta_context(&mut out, OptionCode::SetMetaContext, 7, "base:allocation");
        assert_eq!(parse_context(&out[OPTION_REPLY_BYTES..], "base:allocation"), Ok(Some(7)));
        assert_eq!(parse_context(&out[OPTION_REPLY_BYTES..], "base:other"), Ok(None));
        out.clear();
        put_reply(&mut out, OptionCode::Go, OptionReply::Unknown, b"");
        assert!(OptionReplyHeader::parse(&out, OptionCode::Go).unwrap().is_error());
        assert!(OptionReplyHeader::parse(&out, OptionCode::List).is_err());
    }
}
