//! The handshake: from the greeting to the transmission phase ("Fixed newstyle negotiation" in proto.md).

mod meta;
mod options;

pub(crate) use meta::Contexts;
pub(crate) use options::request_bytes_min;

use crate::error::{NbdError, Phase};
use crate::limits::Limits;
use crate::link::Link;
use crate::protocol::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, Headers, OPTION_HEADER_BYTES, OptionCode, OptionHeader, OptionReply,
    put_greeting, put_reply,
};
use crate::transport::{ReadHalf, WriteHalf};
use bytes::BytesMut;
use nitro_frontend::{Caller, DiskInfo, Disks, Requester};
use options::{Negotiation, Step};
use rustls::ServerConfig;
use std::sync::Arc;

/// Whether TLS is in use or offered on a stream.
pub(crate) enum Security {
    /// Plaintext; TLS is not offered.
    Plain,
    /// Plaintext; TLS is offered.
    MayUpgrade(Arc<ServerConfig>),
    /// Plaintext; all options but `NBD_OPT_STARTTLS` and `NBD_OPT_ABORT` are refused.
    MustUpgrade(Arc<ServerConfig>),
    /// TLS.
    Tls {
        /// What is certified of the client.
        identities: Vec<String>,
    },
}

impl Security {
    /// The client, for access control.
    pub(crate) fn caller(&self) -> Caller<'_> {
        match self {
            Self::Tls { identities } => Caller::Certified { identities },
            Self::Plain | Self::MayUpgrade(_) | Self::MustUpgrade(_) => Caller::Certified { identities: &[] },
        }
    }
}

/// The result of the negotiation.
pub(crate) struct Negotiated<E> {
    pub(crate) disk: Arc<E>,
    pub(crate) requester: Requester,
    pub(crate) name: String,
    pub(crate) info: DiskInfo,
    /// `TRANSMIT_*` bits.
    pub(crate) flags: u16,
    pub(crate) headers: Headers,
    pub(crate) contexts: Contexts,
    /// The client has asked for the sizes of requests, and keeps to them.
    pub(crate) knows_blocks: bool,
}

/// How a handshake ended.
pub(crate) enum Outcome<E> {
    Transmit(Negotiated<E>),
    StartTls(Arc<ServerConfig>),
    Aborted,
    HungUp,
}

/// The client's handshake flags.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFlags {
    /// The client expects 124 zero bytes after the reply to `NBD_OPT_EXPORT_NAME`.
    zeroes: bool,
}

/// Sends the greeting and receives the client's flags. `None` if the client closes the stream before it has sent them.
pub(crate) async fn greet<R: ReadHalf, W: WriteHalf>(link: &mut Link<R, W>) -> Result<Option<ClientFlags>, NbdError> {
    let mut out = BytesMut::new();
    put_greeting(&mut out);
    link.send(&mut out).await?;
    if !link.receiver.fill(4).await.map_err(NbdError::io(Phase::Handshake))? {
        return Ok(None);
    }
    let flags = link.receiver.window().first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    link.receiver.consume(4);
    if flags & !u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
        return Err(NbdError::ClientFlags { flags });
    }
    Ok(Some(ClientFlags { zeroes: flags & u32::from(FLAG_NO_ZEROES) == 0 }))
}

/// Answers options until one of them ends the handshake.
pub(crate) async fn negotiate<X: Disks, R: ReadHalf, W: WriteHalf>(
    link: &mut Link<R, W>,
    exports: &X,
    limits: &Limits,
    security: &Security,
    client: ClientFlags,
) -> Result<Outcome<X::Disk>, NbdError> {
    let mut negotiation = Negotiation::new(exports, security, limits.request_bytes_max, client.zeroes);
    let mut out = BytesMut::new();
    let (mut count, mut max) = (0, limits.options_max);
    loop {
        if count == max {
            max = options_max(exports, limits);
        }
        if count >= max {
            return Err(NbdError::TooManyOptions { max });
        }
        count += 1;
        let Some(header) = next_header(link).await? else { return Ok(Outcome::HungUp) };
        let len = header.len as usize;
        if header.len > limits.option_bytes_max.min(Limits::OPTION_BYTES_CEILING) {
            skip_option(link, header, limits.drain_bytes_max).await?;
            put_reply(&mut out, header.code, OptionReply::TooBig, b"the option is too long");
            link.send(&mut out).await?;
            continue;
        }
        fill(link, len).await?;
        let step = negotiation.answer(header.code, &link.receiver.window()[..len], &mut out)?;
        link.receiver.consume(len);
        if let Step::StartTls(_) = step
            && !link.receiver.window().is_empty()
        {
            return Err(NbdError::PlaintextAfterStartTls { bytes: link.receiver.window().len() });
        }
        if let Step::Transmit(negotiated) = &step {
            // Called before the reply is sent: with the reply, the handshake is over for the client.
            exports.begin(&negotiated.disk);
        }
        let sent = link.send(&mut out).await;
        match step {
            // The client may close the stream without waiting for this reply, so a failure to send it is ignored.
            Step::Abort => return Ok(Outcome::Aborted),
            Step::Next => sent?,
            Step::StartTls(config) => return sent.map(|()| Outcome::StartTls(config)),
            Step::Transmit(negotiated) => return sent.map(|()| Outcome::Transmit(negotiated)),
        }
    }
}

/// The most options of a client that asks for all exports one by one.
fn options_max(exports: &impl Disks, limits: &Limits) -> u32 {
    let listed = u32::try_from(exports.list().len()).unwrap_or(u32::MAX);
    limits.options_max.saturating_add(listed.saturating_mul(Limits::OPTIONS_AN_EXPORT))
}

/// Receives an option's header. `None` if the client closes the stream between two options.
async fn next_header<R: ReadHalf, W>(link: &mut Link<R, W>) -> Result<Option<OptionHeader>, NbdError> {
    let receiver = &mut link.receiver;
    if !receiver.fill(OPTION_HEADER_BYTES).await.map_err(NbdError::io(Phase::Handshake))? {
        return if receiver.window().is_empty() { Ok(None) } else { Err(TRUNCATED) };
    }
    let header = OptionHeader::parse(receiver.window())?;
    receiver.consume(OPTION_HEADER_BYTES);
    Ok(Some(header))
}

const TRUNCATED: NbdError = NbdError::Truncated { phase: Phase::Handshake };

async fn fill<R: ReadHalf, W>(link: &mut Link<R, W>, len: usize) -> Result<(), NbdError> {
    match link.receiver.fill(len).await.map_err(NbdError::io(Phase::Handshake))? {
        true => Ok(()),
        false => Err(TRUNCATED),
    }
}

async fn skip_option<R: ReadHalf, W>(link: &mut Link<R, W>, header: OptionHeader, max: u32) -> Result<(), NbdError> {
    if header.len > max || header.code == OptionCode::ExportName {
        return Err(NbdError::PayloadTooLong { phase: Phase::Handshake, bytes: header.len.into() });
    }
    match link.receiver.skip(header.len as usize).await.map_err(NbdError::io(Phase::Handshake))? {
        true => Ok(()),
        false => Err(TRUNCATED),
    }
}
