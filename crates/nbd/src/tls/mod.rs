//! TLS, which `NBD_OPT_STARTTLS` starts on a plaintext stream ("TLS support" in proto.md).

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
    /// The client decides. An attacker on the network can hide the offer from it (downgrade attack).
    Optional(Arc<ServerConfig>),
    /// Required: in plaintext, all options but `NBD_OPT_STARTTLS` and `NBD_OPT_ABORT` are refused.
    Required(Arc<ServerConfig>),
}

/// Performs the TLS handshake. Received plaintext is discarded.
pub(crate) async fn accept<R: ReadHalf, W: WriteHalf>(
    config: Arc<ServerConfig>,
    link: Link<R, W>,
) -> Result<Link<TlsReader<R>, TlsWriter<W>>, NbdError> {
    let mut connection = ServerConnection::new(config).map_err(|error| NbdError::TlsConfig(Box::new(error)))?;
    // `TlsWriter` itself limits the plaintext that it passes on; with a limit here, its writes would be incomplete.
    connection.set_buffer_limit(None);
    let (mut reader, mut writer) = halves(connection, link.receiver.into_reader(), link.writer);
    match handshake(&mut reader, &mut writer).await {
        Ok(()) => Ok(Link::new(reader, writer)),
        Err(source) => {
            // Sends the TLS alert with the reason.
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
