//! A client's side of a byte stream, plain and encrypted.

use bytes::Bytes;
use nitro_nbd::transport::memory::{MemoryEnd, MemoryReader, MemoryWriter};
use nitro_nbd::transport::{ReadHalf as _, WriteHalf as _};
use nitro_port::buf::BufMut;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

pub trait Stream {
    /// Fails when the server no longer listens.
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// `None` if the stream ends before.
    async fn receive(&mut self, len: usize) -> Option<Vec<u8>>;
}

pub struct PlainStream {
    pub reader: MemoryReader,
    pub writer: MemoryWriter,
    held: Vec<u8>,
}

impl PlainStream {
    pub fn new(end: MemoryEnd) -> Self {
        Self { reader: end.reader, writer: end.writer, held: Vec::new() }
    }

    async fn some(&mut self) -> Option<Vec<u8>> {
        let (result, buf) = self.reader.read(BufMut::with_len(16 << 10), 0).await;
        Some(buf[..result.unwrap()].to_vec()).filter(|bytes| !bytes.is_empty())
    }
}

impl Stream for PlainStream {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write_all(vec![Bytes::copy_from_slice(bytes)]).await.0
    }

    async fn receive(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.held.len() < len {
            let more = self.some().await?;
            self.held.extend(more);
        }
        let rest = self.held.split_off(len);
        Some(std::mem::replace(&mut self.held, rest))
    }
}

pub struct TlsStream {
    raw: PlainStream,
    connection: ClientConnection,
    held: Vec<u8>,
}

impl TlsStream {
    /// Does the handshake; `None` if the server breaks it off.
    pub async fn connect(raw: PlainStream, config: Arc<ClientConfig>) -> Option<Self> {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        let mut stream = Self { raw, connection, held: Vec::new() };
        while stream.connection.is_handshaking() {
            stream.flush().await.ok()?;
            if stream.connection.is_handshaking() {
                stream.advance().await?;
            }
        }
        stream.flush().await.ok()?;
        Some(stream)
    }

    pub fn raw(&mut self) -> &mut PlainStream {
        &mut self.raw
    }

    /// Tells the server that nothing follows.
    pub async fn close(&mut self) {
        self.connection.send_close_notify();
        self.flush().await.unwrap();
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut bytes).unwrap();
        }
        self.raw.send(&bytes).await
    }

    async fn advance(&mut self) -> Option<()> {
        let bytes = self.raw.some().await?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            if self.connection.read_tls(&mut rest).unwrap() == 0 {
                break;
            }
            self.connection.process_new_packets().ok()?;
            let mut plain = [0; 4096];
            while let Ok(count @ 1..) = self.connection.reader().read(&mut plain) {
                self.held.extend(&plain[..count]);
            }
        }
        Some(())
    }
}

impl Stream for TlsStream {
    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for part in bytes.chunks(16 << 10) {
            self.connection.writer().write_all(part).unwrap();
            self.flush().await?;
        }
        Ok(())
    }

    async fn receive(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.held.len() < len {
            self.advance().await?;
        }
        let rest = self.held.split_off(len);
        Some(std::mem::replace(&mut self.held, rest))
    }
}
