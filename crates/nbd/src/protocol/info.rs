//! The server's side of the handshake: greeting and replies to options.

use super::constants::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC};
use super::option::OptionCode;
use bytes::{BufMut as _, BytesMut};

/// The type of a reply to an option (`NBD_REP_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum OptionReply {
    /// The option succeeded.
    Ack = 1,
    /// An entry of the list of exports.
    Server = 2,
    /// An item of information on an export.
    Info = 3,
    /// A metadata context.
    MetaContext = 4,
    /// The option is not supported.
    Unsupported = (1 << 31) + 1,
    /// The server's configuration forbids the option.
    Policy = (1 << 31) + 2,
    /// The option is malformed, or not valid in the present state of the negotiation.
    Invalid = (1 << 31) + 3,
    /// The option is refused until TLS is in use.
    TlsRequired = (1 << 31) + 5,
    /// No such export.
    Unknown = (1 << 31) + 6,
    /// The option is too long.
    TooBig = (1 << 31) + 9,
    /// The option is refused where extended headers are used.
    ExtendedHeaders = (1 << 31) + 10,
}

/// An item of information on an export (`NBD_INFO_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InfoItem<'a> {
    /// The export's size and transmission flags.
    Export {
        /// Size in bytes.
        size_bytes: u64,
        /// `TRANSMIT_*` bits.
        flags: u16,
    },
    /// The export's name.
    Name(&'a str),
    /// The export's description.
    Description(&'a str),
    /// The export's block sizes in bytes.
    BlockSize {
        /// The minimum, to whose multiples requests are aligned.
        min: u32,
        /// The preferred size: the smallest one of good performance.
        preferred: u32,
        /// The maximum length of a request.
        max: u32,
    },
}

/// Appends the greeting.
pub fn put_greeting(out: &mut BytesMut) {
    out.put_u64(GREETING_MAGIC);
    out.put_u64(OPTION_MAGIC);
    out.put_u16(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES);
}

/// Appends a reply to `option` with `payload`. The payload of an error is a message for people, in UTF-8.
pub fn put_reply(out: &mut BytesMut, option: OptionCode, reply: OptionReply, payload: &[u8]) {
    out.put_u64(OPTION_REPLY_MAGIC);
    out.put_u32(option.code());
    out.put_u32(reply as u32);
    out.put_u32(payload.len() as u32);
    out.put_slice(payload);
}

/// Appends one entry of the list of exports.
pub fn put_server(out: &mut BytesMut, name: &str, description: &str) {
    let mut payload = BytesMut::with_capacity(4 + name.len() + description.len());
    payload.put_u32(name.len() as u32);
    payload.put_slice(name.as_bytes());
    payload.put_slice(description.as_bytes());
    put_reply(out, OptionCode::List, OptionReply::Server, &payload);
}

/// Appends one item of information.
pub fn put_info(out: &mut BytesMut, option: OptionCode, item: InfoItem<'_>) {
    let mut payload = BytesMut::with_capacity(16);
    match item {
        InfoItem::Export { size_bytes, flags } => {
            payload.put_u16(0);
            payload.put_u64(size_bytes);
            payload.put_u16(flags);
        }
        InfoItem::Name(name) => {
            payload.put_u16(1);
            payload.put_slice(name.as_bytes());
        }
        InfoItem::Description(description) => {
            payload.put_u16(2);
            payload.put_slice(description.as_bytes());
        }
        InfoItem::BlockSize { min, preferred, max } => {
            payload.put_u16(3);
            payload.put_u32(min);
            payload.put_u32(preferred);
            payload.put_u32(max);
        }
    }
    put_reply(out, option, OptionReply::Info, &payload);
}

/// Appends one metadata context with its number, which replies to `NBD_CMD_BLOCK_STATUS` contain.
pub fn put_meta_context(out: &mut BytesMut, option: OptionCode, id: u32, name: &str) {
    let mut payload = BytesMut::with_capacity(4 + name.len());
    payload.put_u32(id);
    payload.put_slice(name.as_bytes());
    put_reply(out, option, OptionReply::MetaContext, &payload);
}
