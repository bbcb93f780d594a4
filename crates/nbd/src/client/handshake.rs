//! The client's handshake: from the greeting to the transmission phase ("Fixed newstyle negotiation" in proto.md).

use super::error::ClientError;
use super::export::Export;
use super::stream::{EitherRead, EitherWrite, Security, upgrade};
use crate::link::Link;
use crate::protocol::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, GREETING_BYTES, Greeting, OPTION_REPLY_BYTES, OptionCode, OptionReply,
    OptionReplyHeader, Told, parse_context, put_go, put_option, put_set_context,
};
use crate::transport::{ReadHalf, WriteHalf};
use bytes::{BufMut as _, BytesMut};

/// The context that tells which blocks are allocated.
const ALLOCATION: &str = "base:allocation";
/// The longest payload of a reply to an option in bytes: names and messages have at most 4096.
const REPLY_BYTES_MAX: u32 = 64 << 10;
/// The most replies to one option.
const REPLIES_MAX: usize = 256;
/// `NBD_REP_ERR_SHUTDOWN`.
const SHUTTING_DOWN: u32 = (1 << 31) + 7;
/// The longest message of a server that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// A stream to a server, in plaintext or encrypted.
pub(super) type Stream<R, W> = Link<EitherRead<R>, EitherWrite<W>>;

/// How the server ended its replies to an option.
enum Ended {
    Acknowledged,
    Refused { kind: u32, message: String },
}

/// Negotiates an export over a new stream.
pub(super) async fn negotiate<R: ReadHalf, W: WriteHalf>(
    reader: R,
    writer: W,
    name: &str,
    security: &Security,
) -> Result<(Stream<R, W>, Export), ClientError> {
    let mut link = Link::new(EitherRead::Plain(reader), EitherWrite::Plain(writer));
    greet(&mut link).await?;
    if let Security::Tls { config, server } = security {
        let mut out = BytesMut::new();
        put_option(&mut out, OptionCode::StartTls, &[]);
        match ask(&mut link, &mut out, OptionCode::StartTls, |_, _| Ok(())).await? {
            Ended::Acknowledged => link = upgrade(link, config, server).await?,
            Ended::Refused { .. } => return Err(ClientError::TlsNotOffered),
        }
    }
    let mut export = Export::default();
    let mut out = BytesMut::new();
    put_option(&mut out, OptionCode::StructuredReply, &[]);
    export.structured = match ask(&mut link, &mut out, OptionCode::StructuredReply, |_, _| Ok(())).await? {
        Ended::Acknowledged => true,
        Ended::Refused { kind, .. } if kind == OptionReply::TlsRequired as u32 => return Err(ClientError::TlsRequired),
        Ended::Refused { .. } => false,
    };
    if export.structured {
        put_set_context(&mut out, name, ALLOCATION);
        let mut found = None;
        let listen = |kind, payload: &[u8]| {
            if kind == OptionReply::MetaContext as u32 {
                found = parse_context(payload, ALLOCATION)?.or(found);
            }
            Ok(())
        };
        let ended = ask(&mut link, &mut out, OptionCode::SetMetaContext, listen).await?;
        export.allocation = found.filter(|_| matches!(ended, Ended::Acknowledged));
    }
    go(&mut link, name, &mut export).await?;
    Ok((link, export))
}

/// Receives the greeting, and sends the client's flags.
async fn greet<R: ReadHalf, W: WriteHalf>(link: &mut Stream<R, W>) -> Result<(), ClientError> {
    if !link.receiver.fill(GREETING_BYTES).await? {
        // What is no greeting may be shorter than one.
        return Err(match link.receiver.window() {
            [] => ClientError::Closed,
            bytes => Greeting::parse(bytes).err().map_or(ClientError::Closed, ClientError::Offer),
        });
    }
    let greeting = Greeting::parse(link.receiver.window())?;
    link.receiver.consume(GREETING_BYTES);
    let mut out = BytesMut::new();
    out.put_u32(u32::from(FLAG_FIXED_NEWSTYLE | greeting.flags & FLAG_NO_ZEROES));
    send(link, &mut out).await
}

/// Chooses the export; nothing but requests follows.
async fn go<R: ReadHalf, W: WriteHalf>(
    link: &mut Stream<R, W>,
    name: &str,
    export: &mut Export,
) -> Result<(), ClientError> {
    let mut out = BytesMut::new();
    put_go(&mut out, name);
    let mut is_told = false;
    let listen = |kind, payload: &[u8]| {
        if kind == OptionReply::Info as u32 {
            match Told::parse(payload)? {
                Told::Export { size_bytes, flags } => {
                    (export.size_bytes, export.flags, is_told) = (size_bytes, flags, true);
                }
                Told::BlockSize { min, preferred, max } => export.blocks = Some((min, preferred, max)),
                Told::Other => {}
            }
        }
        Ok(())
    };
    let refused = |reply: OptionReply| reply as u32;
    match ask(link, &mut out, OptionCode::Go, listen).await? {
        Ended::Acknowledged if is_told => Ok(()),
        Ended::Acknowledged => Err(ClientError::Violation("an export without a size")),
        Ended::Refused { kind, .. } if kind == refused(OptionReply::Unknown) => {
            Err(ClientError::NoExport(name.to_owned()))
        }
        Ended::Refused { kind, .. } if kind == refused(OptionReply::TlsRequired) => Err(ClientError::TlsRequired),
        Ended::Refused { kind: SHUTTING_DOWN, .. } => Err(ClientError::ShuttingDown),
        Ended::Refused { kind, message } => Err(ClientError::Refused { kind, message }),
    }
}

/// Sends an option, and receives the replies to it: `listen` gets the type and payload of those before the last.
async fn ask<R: ReadHalf, W: WriteHalf>(
    link: &mut Stream<R, W>,
    out: &mut BytesMut,
    option: OptionCode,
    mut listen: impl FnMut(u32, &[u8]) -> Result<(), ClientError>,
) -> Result<Ended, ClientError> {
    send(link, out).await?;
    for _ in 0..REPLIES_MAX {
        fill(link, OPTION_REPLY_BYTES).await?;
        let header = OptionReplyHeader::parse(link.receiver.window(), option)?;
        link.receiver.consume(OPTION_REPLY_BYTES);
        if header.len > REPLY_BYTES_MAX {
            return Err(ClientError::Violation("a reply to an option is too long"));
        }
        let len = header.len as usize;
        fill(link, len).await?;
        let payload = &link.receiver.window()[..len];
        let ended = if header.is_error() {
            Some(Ended::Refused { kind: header.kind, message: shown(payload) })
        } else if header.kind == OptionReply::Ack as u32 {
            Some(Ended::Acknowledged)
        } else {
            listen(header.kind, payload)?;
            None
        };
        link.receiver.consume(len);
        if let Some(ended) = ended {
            return Ok(ended);
        }
    }
    Err(ClientError::Violation("an option has too many replies"))
}

/// The words of a server, for people: without what a terminal would take for commands.
fn shown(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    text.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS_MAX).collect()
}

async fn fill<R: ReadHalf, W>(link: &mut Stream<R, W>, len: usize) -> Result<(), ClientError> {
    if link.receiver.fill(len).await? { Ok(()) } else { Err(ClientError::Closed) }
}

async fn send<R: ReadHalf, W: WriteHalf>(link: &mut Stream<R, W>, out: &mut BytesMut) -> Result<(), ClientError> {
    Ok(link.writer.write_all(vec![out.split().freeze()]).await.0?)
}
