//! TLS of either side, which `NBD_OPT_STARTTLS` starts on a plaintext stream ("TLS support" in proto.md).

mod config;
mod halves;
mod identity;

pub use config::{ClientTlsFiles, TlsFiles};
pub use identity::FINGERPRINT_PREFIX;

use crate::error::{NbdError, Phase};
use crate::link::Link;
use crate::transport::{ReadHalf, WriteHalf};
use halves::halves;
pub(crate) use halves::{TlsReader, TlsWriter};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use std::io;
use std::sync::Arc;

/// Whether clients can, or must, use TLS.
#[derive(Debug, Clone, Default)]
pub enum TlsPolicy {
    /// Plaintext only.
    #[default]
    Disabled,
    /// The client decides. An attacker on the network can hide the offer from it (downgrade attack).
    Optional(Arc<ServerConfig>),
    /// Required: in plaintext, all options but `NBD_OPT_STARTTLS` and `NBD_OPT_ABORT` are refused.
    Required(Arc<ServerConfig>),
}

/// A link over TLS, and what is certified of the client.
pub(crate) type Secured<R, W> = (Link<TlsReader<R>, TlsWriter<W>>, Vec<String>);

/// Performs the TLS handshake; returns the link, and the identities of the client's certificate, if it has one. Received
/// plaintext is discarded.
pub(crate) async fn accept<R: ReadHalf, W: WriteHalf>(
    config: Arc<ServerConfig>,
    link: Link<R, W>,
) -> Result<Secured<R, W>, NbdError> {
    let mut connection = ServerConnection::new(config).map_err(|error| NbdError::TlsConfig(Box::new(error)))?;
    // `TlsWriter` itself limits the plaintext that it passes on; with a limit here, its writes would be incomplete.
    connection.set_buffer_limit(None);
    let (mut reader, mut writer) = halves(connection.into(), link.receiver.into_reader(), link.writer);
    match handshake(&mut reader, &mut writer).await {
        Ok(()) => {
            let identities = reader.certificate().as_ref().map(identity::identities).unwrap_or_default();
            Ok((Link::new(reader, writer), identities))
        }
        Err(source) => {
            // Sends the TLS alert with the reason.
            writer.shutdown().await;
            Err(NbdError::Io { phase: Phase::Tls, source })
        }
    }
}

/// Performs the client's side of the TLS handshake with the server of that name.
pub(crate) async fn connect<R: ReadHalf, W: WriteHalf>(
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
    reader: R,
    writer: W,
) -> io::Result<(TlsReader<R>, TlsWriter<W>)> {
    let mut connection = ClientConnection::new(config, server).map_err(io::Error::other)?;
    connection.set_buffer_limit(None);
    let (mut reader, mut writer) = halves(connection.into(), reader, writer);
    // The client speaks first.
    let greeted = writer.flush().await;
    let shaken = match greeted {
        Ok(()) => handshake(&mut reader, &mut writer).await,
        Err(error) => Err(error),
    };
    if shaken.is_err() {
        // Sends the TLS alert with the reason.
        writer.shutdown().await;
    }
    shaken.map(|()| (reader, writer))
}

async fn handshake<R: ReadHalf, W: WriteHalf>(reader: &mut TlsReader<R>, writer: &mut TlsWriter<W>) -> io::Result<()> {
    while reader.is_handshaking() {
        if !reader.advance().await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        writer.flush().await?;
    }
    Ok(())
}
