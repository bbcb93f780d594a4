//! The stream to a server: plaintext, or TLS from `NBD_OPT_STARTTLS` on.

use super::error::ClientError;
use super::handshake::Stream;
use crate::error::NbdError;
use crate::link::Link;
use crate::tls::{self, ClientTlsFiles, TlsReader, TlsWriter};
use crate::transport::{ReadHalf, WriteHalf};
use bytes::Bytes;
use nitro_port::buf::BufMut;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;

/// Whether connections are encrypted.
#[derive(Debug, Clone)]
pub enum Security {
    /// Plaintext, also if the server offers TLS.
    Plain,
    /// TLS; a server that does not offer it is refused.
    Tls {
        /// What the server has to prove, and the client's certificate.
        config: Arc<ClientConfig>,
        /// The name in the server's certificate.
        server: ServerName<'static>,
    },
}

impl Security {
    /// TLS, with the files of a folder, to a server whose certificate has that name.
    ///
    /// # Errors
    /// As [`ClientTlsFiles::load`]; or `name` is neither a DNS name nor an address.
    pub fn tls(files: &ClientTlsFiles, name: &str) -> Result<Self, NbdError> {
        let server = ServerName::try_from(name.to_owned()).map_err(|error| NbdError::TlsConfig(Box::new(error)))?;
        Ok(Self::Tls { config: files.load()?, server })
    }
}

/// The reading half.
pub(super) enum EitherRead<R> {
    Plain(R),
    Tls(Box<TlsReader<R>>),
}

/// The writing half.
pub(super) enum EitherWrite<W> {
    Plain(W),
    Tls(Box<TlsWriter<W>>),
}

impl<R: ReadHalf> ReadHalf for EitherRead<R> {
    async fn read(&mut self, buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        match self {
            Self::Plain(reader) => reader.read(buf, start).await,
            Self::Tls(reader) => reader.read(buf, start).await,
        }
    }
}

impl<W: WriteHalf> WriteHalf for EitherWrite<W> {
    async fn write_all(&mut self, pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        match self {
            Self::Plain(writer) => writer.write_all(pieces).await,
            Self::Tls(writer) => writer.write_all(pieces).await,
        }
    }

    async fn shutdown(&mut self) {
        match self {
            Self::Plain(writer) => writer.shutdown().await,
            Self::Tls(writer) => writer.shutdown().await,
        }
    }
}

/// Performs the TLS handshake. Plaintext that was received after the reply to `NBD_OPT_STARTTLS` is refused: an attacker
/// may have injected it (CVE-2021-3716).
pub(super) async fn upgrade<R: ReadHalf, W: WriteHalf>(
    link: Stream<R, W>,
    config: &Arc<ClientConfig>,
    server: &ServerName<'static>,
) -> Result<Stream<R, W>, ClientError> {
    if !link.receiver.window().is_empty() {
        return Err(ClientError::Violation("plaintext after the begin of TLS"));
    }
    let (EitherRead::Plain(reader), EitherWrite::Plain(writer)) = (link.receiver.into_reader(), link.writer) else {
        return Err(ClientError::Violation("TLS within TLS"));
    };
    let (reader, writer) = tls::connect(Arc::clone(config), server.clone(), reader, writer).await?;
    Ok(Link::new(EitherRead::Tls(Box::new(reader)), EitherWrite::Tls(Box::new(writer))))
}
