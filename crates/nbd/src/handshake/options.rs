//! The answers to options. No I/O: the input is an option's payload, the output is the reply's bytes and the next step.

use super::meta::Contexts;
use super::{Negotiated, Security};
use crate::error::NbdError;
use crate::protocol::{
    EXPORT_NAME_ZEROES, Headers, InfoItem, InfoRequest, InfoWanted, MetaRequest, OptionCode, OptionError, OptionReply,
    STRING_BYTES_MAX, TRANSMIT_CAN_MULTI_CONN, TRANSMIT_HAS_FLAGS, TRANSMIT_READ_ONLY, TRANSMIT_ROTATIONAL,
    TRANSMIT_SEND_CACHE, TRANSMIT_SEND_DF, TRANSMIT_SEND_FAST_ZERO, TRANSMIT_SEND_FLUSH, TRANSMIT_SEND_FUA,
    TRANSMIT_SEND_TRIM, TRANSMIT_SEND_WRITE_ZEROES, parse_name, put_info, put_meta_context, put_reply, put_server,
};
use bytes::{BufMut as _, BytesMut};
use nitro_frontend::{Disk, DiskInfo, DiskName, Disks, Opened};
use rustls::ServerConfig;
use std::sync::Arc;

/// The next step after an option.
pub(super) enum Step<E> {
    /// Another option.
    Next,
    /// The end of the connection: the client sent `NBD_OPT_ABORT`.
    Abort,
    /// The TLS handshake.
    StartTls(Arc<ServerConfig>),
    /// The transmission phase.
    Transmit(Negotiated<E>),
}

/// A refusal: its kind and a message for the client's log.
type Refusal = (OptionReply, &'static str);

/// The state of the negotiation on one stream. TLS begins with a new state, so that nothing negotiated in plaintext
/// stays in force.
pub(super) struct Negotiation<'a, X> {
    exports: &'a X,
    security: &'a Security,
    request_bytes_max: u32,
    zeroes: bool,
    headers: Headers,
    contexts: Contexts,
    /// The export that `contexts` were chosen for.
    contexts_of: String,
}

impl<'a, X: Disks> Negotiation<'a, X> {
    pub(super) fn new(exports: &'a X, security: &'a Security, request_bytes_max: u32, zeroes: bool) -> Self {
        let (contexts, contexts_of) = (Contexts::NONE, String::new());
        Self { exports, security, request_bytes_max, zeroes, headers: Headers::Simple, contexts, contexts_of }
    }

    /// Answers one option.
    pub(super) fn answer(
        &mut self,
        code: OptionCode,
        payload: &[u8],
        out: &mut BytesMut,
    ) -> Result<Step<X::Disk>, NbdError> {
        if code == OptionCode::ExportName {
            return self.export_name(payload, out).map(Step::Transmit);
        }
        match self.dispatch(code, payload, out) {
            Ok(step) => {
                put_reply(out, code, OptionReply::Ack, &[]);
                Ok(step)
            }
            Err((reply, message)) => {
                tracing::debug!(?code, ?reply, message, "option refused");
                put_reply(out, code, reply, message.as_bytes());
                Ok(Step::Next)
            }
        }
    }

    fn dispatch(&mut self, code: OptionCode, payload: &[u8], out: &mut BytesMut) -> Result<Step<X::Disk>, Refusal> {
        let free = matches!(code, OptionCode::Abort | OptionCode::StartTls);
        if matches!(self.security, Security::MustUpgrade(_)) && !free {
            return Err((OptionReply::TlsRequired, "this server requires TLS"));
        }
        match code {
            // A payload of an abort is ignored.
            OptionCode::Abort => return Ok(Step::Abort),
            OptionCode::StartTls => return self.start_tls(payload),
            OptionCode::List => self.list(payload, out)?,
            OptionCode::Info => drop(self.info(code, payload, out)?),
            OptionCode::Go => return self.info(code, payload, out).map(Step::Transmit),
            OptionCode::StructuredReply => {
                expect_empty(payload)?;
                if self.headers == Headers::Extended {
                    return Err((OptionReply::ExtendedHeaders, "extended headers are negotiated already"));
                }
                self.headers = Headers::Structured;
            }
            OptionCode::ExtendedHeaders => {
                expect_empty(payload)?;
                self.headers = Headers::Extended;
            }
            OptionCode::ListMetaContext | OptionCode::SetMetaContext => self.meta_context(code, payload, out)?,
            OptionCode::ExportName | OptionCode::Unknown(_) => {
                return Err((OptionReply::Unsupported, "unknown option"));
            }
        }
        Ok(Step::Next)
    }

    fn start_tls(&self, payload: &[u8]) -> Result<Step<X::Disk>, Refusal> {
        expect_empty(payload)?;
        match self.security {
            Security::MayUpgrade(config) | Security::MustUpgrade(config) => Ok(Step::StartTls(Arc::clone(config))),
            Security::Plain => Err((OptionReply::Policy, "TLS is not configured")),
            Security::Tls { .. } => Err((OptionReply::Invalid, "TLS is already in use")),
        }
    }

    fn list(&self, payload: &[u8], out: &mut BytesMut) -> Result<(), Refusal> {
        expect_empty(payload)?;
        for entry in self.listed() {
            put_server(out, &entry.name, cut(&entry.description));
        }
        Ok(())
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`, which differ only in the next step.
    fn info(&self, code: OptionCode, payload: &[u8], out: &mut BytesMut) -> Result<Negotiated<X::Disk>, Refusal> {
        let InfoRequest { name, wanted } = InfoRequest::parse(payload).map_err(malformed)?;
        let negotiated = self.open(name).ok_or(UNKNOWN_EXPORT)?;
        let Negotiated { info, flags, .. } = &negotiated;
        put_info(out, code, InfoItem::Export { size_bytes: info.size_bytes, flags: *flags });
        put_wanted(out, code, wanted, &negotiated);
        // A client that does not ask for them need not know the sizes of requests.
        let knows_blocks = wanted.block_size;
        Ok(Negotiated { knows_blocks, ..negotiated })
    }

    fn meta_context(&mut self, code: OptionCode, payload: &[u8], out: &mut BytesMut) -> Result<(), Refusal> {
        let set = code == OptionCode::SetMetaContext;
        if set {
            // If the selection fails, no context is selected.
            self.contexts = Contexts::NONE;
        }
        let MetaRequest { name, queries } = MetaRequest::parse(payload).map_err(malformed)?;
        if set && self.headers == Headers::Simple {
            return Err((OptionReply::Invalid, "structured replies were not negotiated"));
        }
        let (name, _) = self.find(name).ok_or(UNKNOWN_EXPORT)?;
        let contexts = if set { Contexts::selected(&queries) } else { Contexts::listed(&queries) };
        for (_, id, context) in contexts.iter() {
            // proto.md leaves the number of a listed context to the server, and clients ignore it.
            put_meta_context(out, code, id, context);
        }
        if set {
            (self.contexts, self.contexts_of) = (contexts, name);
        }
        Ok(())
    }

    fn export_name(&self, payload: &[u8], out: &mut BytesMut) -> Result<Negotiated<X::Disk>, NbdError> {
        let name = parse_name(payload)?;
        let refused = |reason| NbdError::Refused { name: name.to_owned(), reason };
        if matches!(self.security, Security::MustUpgrade(_)) {
            return Err(refused("TLS is required"));
        }
        let negotiated = self.open(name).ok_or_else(|| refused("no such export"))?;
        out.put_u64(negotiated.info.size_bytes);
        out.put_u16(negotiated.flags);
        if self.zeroes {
            out.put_bytes(0, EXPORT_NAME_ZEROES);
        }
        Ok(negotiated)
    }

    /// The exports that the client may use.
    fn listed(&self) -> impl Iterator<Item = DiskName> {
        self.exports.list().into_iter().filter(|disk| self.exports.admits(&disk.name, self.security.caller()))
    }

    /// Finds an export that the client may use; returns its name with it. If the name is empty and there is no default
    /// export, the only listed export is used.
    fn find(&self, name: &str) -> Option<(String, Opened<X::Disk>)> {
        let open = |name: &str| {
            let is_admitted = self.exports.admits(name, self.security.caller());
            is_admitted.then(|| self.exports.open(name)).flatten()
        };
        if let Some(opened) = open(name) {
            return Some((name.to_owned(), opened));
        }
        if !name.is_empty() {
            return None;
        }
        let mut listed = self.listed();
        let (Some(only), None) = (listed.next(), listed.next()) else { return None };
        let opened = open(&only.name)?;
        Some((only.name, opened))
    }

    fn open(&self, name: &str) -> Option<Negotiated<X::Disk>> {
        let (name, Opened { disk, requester }) = self.find(name)?;
        let mut info = disk.info();
        info.block_preferred_bytes =
            info.block_preferred_bytes.clamp(info.block_bytes.max(512), 32 << 20).next_power_of_two();
        info.block_max_bytes = info.block_max_bytes.min(self.request_bytes_max).min(REQUEST_BYTES_CEILING);
        if info.block_bytes > 512 {
            // The export's size and the longest request are multiples of the shortest one.
            info.block_max_bytes = (info.block_max_bytes / info.block_bytes * info.block_bytes).max(info.block_bytes);
            info.size_bytes -= info.size_bytes % u64::from(info.block_bytes);
        }
        let contexts = if self.contexts_of == name { self.contexts } else { Contexts::NONE };
        let headers = self.headers;
        let flags = transmission_flags(&info, headers != Headers::Simple);
        Some(Negotiated { disk, requester, name, info, flags, headers, contexts, knows_blocks: false })
    }
}

/// Upper limit of a request's length in bytes, so that the length of a chunk fits into 32 bits.
const REQUEST_BYTES_CEILING: u32 = 1 << 30;

const UNKNOWN_EXPORT: Refusal = (OptionReply::Unknown, "no such export");

fn expect_empty(payload: &[u8]) -> Result<(), Refusal> {
    if payload.is_empty() { Ok(()) } else { Err((OptionReply::Invalid, "the option takes no data")) }
}

fn malformed(error: OptionError) -> Refusal {
    match error {
        OptionError::LongString { .. } => (OptionReply::TooBig, "a string is longer than 4096 bytes"),
        OptionError::NotUtf8 => (OptionReply::Invalid, "a name is not UTF-8"),
        OptionError::Magic { .. } | OptionError::Short { .. } | OptionError::TooLong { .. } => {
            (OptionReply::Invalid, "malformed option")
        }
    }
}

fn put_wanted<E>(out: &mut BytesMut, code: OptionCode, wanted: InfoWanted, negotiated: &Negotiated<E>) {
    let Negotiated { name, info, .. } = negotiated;
    if wanted.name {
        put_info(out, code, InfoItem::Name(name));
    }
    if wanted.description && !info.description.is_empty() {
        put_info(out, code, InfoItem::Description(cut(&info.description)));
    }
    if wanted.block_size {
        let (preferred, max) = (info.block_preferred_bytes, info.block_max_bytes);
        put_info(out, code, InfoItem::BlockSize { min: request_bytes_min(info), preferred, max });
    }
}

/// Bytes of the shortest request, of which offsets and lengths are multiples.
pub(crate) fn request_bytes_min(info: &DiskInfo) -> u32 {
    if info.block_bytes > 512 { info.block_bytes } else { 1 }
}

/// Truncates a string, between two characters, to at most [`STRING_BYTES_MAX`] bytes.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(STRING_BYTES_MAX)]
}

fn transmission_flags(info: &DiskInfo, structured: bool) -> u16 {
    let writable = !info.read_only;
    let flags = [
        (info.read_only, TRANSMIT_READ_ONLY),
        (info.rotational, TRANSMIT_ROTATIONAL),
        (writable && info.can_trim, TRANSMIT_SEND_TRIM),
        (writable, TRANSMIT_SEND_WRITE_ZEROES),
        (writable && info.can_fast_zero, TRANSMIT_SEND_FAST_ZERO),
        (structured, TRANSMIT_SEND_DF),
        (info.can_multi_conn, TRANSMIT_CAN_MULTI_CONN),
        (info.can_cache, TRANSMIT_SEND_CACHE),
    ];
    let always = TRANSMIT_HAS_FLAGS | TRANSMIT_SEND_FLUSH | TRANSMIT_SEND_FUA;
    flags.iter().filter(|(set, _)| *set).fold(always, |all, (_, flag)| all | flag)
}
