//! One connection from its greeting to its end.

use crate::error::NbdError;
use crate::handshake::{self, ClientFlags, Outcome, Security};
use crate::limits::Limits;
use crate::link::Link;
use crate::session::{self, End};
use crate::tls::{self, TlsPolicy};
use crate::transport::{ReadHalf, WriteHalf};
use futures_util::future::{Either, FusedFuture, FutureExt as _, select};
use nitro_frontend::{Disks, RequestMemory, Work};
use rustls::ServerConfig;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// The options of a server's connections.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// The limits of each connection.
    pub limits: Limits,
    /// The memory that the requests of all connections share.
    pub memory: Arc<RequestMemory>,
    /// Whether clients can, or must, use TLS.
    pub tls: TlsPolicy,
}

/// A summary of a connection that ended without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSummary {
    /// How it ended.
    pub end: End,
    /// The name of the export that it used; `None` if it ended before it had one.
    pub export: Option<String>,
    /// Whether it was encrypted.
    pub tls: bool,
    /// Requests that were answered, refused ones included.
    pub requests: u64,
    /// Data bytes read by the client.
    pub bytes_read: u64,
    /// Data bytes written by the client.
    pub bytes_written: u64,
}

impl ConnectionSummary {
    const fn new(end: End, tls: bool) -> Self {
        Self { end, export: None, tls, requests: 0, bytes_read: 0, bytes_written: 0 }
    }
}

/// Serves one connection: the handshake, then requests until the client disconnects, an error occurs or `stop`
/// completes. Then it finishes the requests in flight, sends their replies and shuts the stream down. It has no timeout
/// for a client that neither sends nor receives; the caller sets timeouts. The future may be dropped at any time.
///
/// # Errors
/// [`NbdError`]: the transport failed, the client violated the protocol in a way that has no error reply, or it was
/// disconnected because others waited for its memory.
pub async fn serve<X: Disks, R: ReadHalf, W: WriteHalf>(
    reader: R,
    writer: W,
    exports: &X,
    options: &ServerOptions,
    stop: impl Future<Output = ()>,
) -> Result<ConnectionSummary, NbdError> {
    let mut stop = pin!(stop.fuse());
    let mut link = Link::new(reader, writer);
    let client = match until(stop.as_mut(), handshake::greet(&mut link)).await {
        Some(Ok(Some(client))) => client,
        other => return leave(link, other.map(|greeted| greeted.map(|_| End::HungUp)), false).await,
    };
    let security = match &options.tls {
        TlsPolicy::Disabled => Security::Plain,
        TlsPolicy::Optional(config) => Security::MayUpgrade(Arc::clone(config)),
        TlsPolicy::Required(config) => Security::MustUpgrade(Arc::clone(config)),
    };
    let (config, plain) = match converse(link, exports, options, &security, client, stop.as_mut()).await? {
        Conversation::Over(summary) => return Ok(summary),
        Conversation::StartTls(config, plain) => (config, plain),
    };
    let Some(secured) = until(stop.as_mut(), tls::accept(config, plain)).await else {
        return Ok(ConnectionSummary::new(End::Stopped, true));
    };
    let (link, identities) = secured?;
    match converse(link, exports, options, &Security::Tls { identities }, client, stop).await? {
        Conversation::Over(summary) => Ok(summary),
        // Not reached: the negotiation refuses TLS within TLS.
        Conversation::StartTls(..) => Ok(ConnectionSummary::new(End::Aborted, true)),
    }
}

/// How the protocol ended on one stream, plaintext or TLS.
enum Conversation<R, W> {
    Over(ConnectionSummary),
    StartTls(Arc<ServerConfig>, Link<R, W>),
}

/// Negotiates, then serves requests.
async fn converse<X: Disks, R: ReadHalf, W: WriteHalf>(
    mut link: Link<R, W>,
    exports: &X,
    options: &ServerOptions,
    security: &Security,
    client: ClientFlags,
    mut stop: Pin<&mut impl FusedFuture<Output = ()>>,
) -> Result<Conversation<R, W>, NbdError> {
    let tls = matches!(security, Security::Tls { .. });
    let negotiation = handshake::negotiate(&mut link, exports, &options.limits, security, client);
    let negotiated = match until(stop.as_mut(), negotiation).await {
        Some(Ok(Outcome::Transmit(negotiated))) => negotiated,
        Some(Ok(Outcome::StartTls(config))) => return Ok(Conversation::StartTls(config, link)),
        other => {
            let end = other.map(|outcome| {
                outcome.map(|outcome| if matches!(outcome, Outcome::Aborted) { End::Aborted } else { End::HungUp })
            });
            return leave(link, end, tls).await.map(Conversation::Over);
        }
    };
    tracing::debug!(export = negotiated.name, tls, headers = ?negotiated.headers, "transmission begins");
    let (end, work) = session::transmit(link, &negotiated, options, stop).await;
    let Work { requests, bytes_read, bytes_written } = work;
    let export = Some(negotiated.name);
    Ok(Conversation::Over(ConnectionSummary { end: end?, export, tls, requests, bytes_read, bytes_written }))
}

/// Shuts a stream down whose handshake ended with `end`; `None` means that the server was stopped.
async fn leave<R, W: WriteHalf>(
    mut link: Link<R, W>,
    end: Option<Result<End, NbdError>>,
    tls: bool,
) -> Result<ConnectionSummary, NbdError> {
    link.writer.shutdown().await;
    end.unwrap_or(Ok(End::Stopped)).map(|end| ConnectionSummary::new(end, tls))
}

/// Runs `work` until it is done or `stop` completes; `None` in the latter case.
async fn until<T>(stop: Pin<&mut impl FusedFuture<Output = ()>>, work: impl Future<Output = T>) -> Option<T> {
    match select(stop, pin!(work)).await {
        Either::Left(_) => None,
        Either::Right((done, _)) => Some(done),
    }
}
