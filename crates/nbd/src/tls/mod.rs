//! TLS: what `NBD_OPT_STARTTLS` turns a plain stream into ("TLS support" in proto.md).

mod config;
mod halves;

pub use config::TlsFiles;

use crate::error::{NbdError, Phase};
use crate::link::Link;
use crate::transport::{ReadHalf, WriteHalf};
use halves::{TlsReader, TlsWriter, halves};
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::sync::Arc;

/// Whether clients can, or must, use TLS.
#[derive(Debug, Clone, Default)]
pub enum TlsPolicy {
    /// Plaintext only.
    #[default]
    Disabled,
    /// As the client likes. Does not protect from somebody between the two who hides the offer.
    Optional(Arc<ServerConfig>),
    /// Nothing is told or served in plaintext.
    Required(Arc<ServerConfig>),
}

/// Does the TLS handshake. Nothing that was received in plaintext survives it.
pub(crate) async fn accept<R: ReadHalf, W: WriteHalf>(
    config: Arc<ServerConfig>,
    link: Link<R, W>,
) -> Result<Link<TlsReader<R>, TlsWriter<W>>, NbdError> {
    let mut connection = ServerConnection::new(config).map_err(|error| NbdError::TlsConfig(Box::new(error)))?;
    // The writer itself bounds what it hands over; a limit here would lose the rest.
    connection.set_buffer_limit(None);
    let (mut reader, mut writer) = halves(connection, link.receiver.into_reader(), link.writer);
    match handshake(&mut reader, &mut writer).await {
        Ok(()) => Ok(Link::new(reader, writer)),
        Err(source) => {
            // Sends the alert that says why.
            writer.shutdown().await;
            Err(NbdError::Io { phase: Phase::Tls, source })
        }
    }
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
