//! A [`ReadHalf`] and a [`WriteHalf`] that encrypt the stream of two others. They share the state of the TLS
//! connection, which is never borrowed across an await, so that a waiting read does not block writes.

use crate::transport::{ReadHalf, WriteHalf};
use bytes::{Bytes, BytesMut};
use nitro_port::buf::BufMut;
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::rc::Rc;

/// Bytes of ciphertext requested in one receive: several records of the maximum size.
const RECEIVE_BYTES: usize = 64 << 10;
/// Most bytes of plaintext that are encrypted before the ciphertext is sent.
const SEND_BYTES: usize = 256 << 10;

type Shared = Rc<RefCell<Connection>>;

/// Decrypts the data from the peer.
pub(crate) struct TlsReader<R> {
    connection: Shared,
    raw: R,
    ciphertext: BufMut,
    start: usize,
    end: usize,
}

/// Encrypts the data to the peer.
pub(crate) struct TlsWriter<W> {
    connection: Shared,
    raw: W,
    ciphertext: BytesMut,
}

pub(super) fn halves<R, W>(connection: Connection, reader: R, writer: W) -> (TlsReader<R>, TlsWriter<W>) {
    let connection = Rc::new(RefCell::new(connection));
    let ciphertext = BufMut::with_len(RECEIVE_BYTES);
    let read = TlsReader { connection: Rc::clone(&connection), raw: reader, ciphertext, start: 0, end: 0 };
    (read, TlsWriter { connection, raw: writer, ciphertext: BytesMut::new() })
}

impl<R: ReadHalf> TlsReader<R> {
    /// Whether the handshake is still in progress.
    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.borrow().is_handshaking()
    }

    /// The peer's certificate, which was verified; `None`: it has none.
    pub(super) fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.connection.borrow().peer_certificates()?.first().map(|certificate| certificate.clone().into_owned())
    }

    /// Receives ciphertext and processes it. `false` at the end of the stream.
    pub(super) async fn advance(&mut self) -> io::Result<bool> {
        if self.start == self.end {
            let buf = std::mem::replace(&mut self.ciphertext, BufMut::with_len(0));
            let (result, buf) = self.raw.read(buf, 0).await;
            self.ciphertext = buf;
            (self.start, self.end) = (0, result?);
            if self.end == 0 {
                return Ok(false);
            }
        }
        self.process()?;
        Ok(true)
    }

    /// Passes received ciphertext to the TLS connection, which may take only a part of it.
    fn process(&mut self) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        let taken = connection.read_tls(&mut &self.ciphertext[self.start..self.end])?;
        self.start += taken;
        connection.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if taken == 0 {
            // After `close_notify` the connection takes no more bytes; those that follow it are ignored.
            self.start = self.end;
        }
        Ok(())
    }

    /// Takes decrypted plaintext; returns its length, which is 0 at the end of the stream. `None`: there is none yet.
    fn take_plaintext(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.connection.borrow_mut().reader().read(into) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Decrypts received ciphertext into `into`, as far as it fits; returns the length of the plaintext. `None`: more
    /// ciphertext is needed.
    fn decrypt(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let mut filled = 0;
        loop {
            match self.take_plaintext(&mut into[filled..])? {
                // If there was plaintext before the end of the stream, the next call returns the end.
                Some(0) => return Ok(Some(filled)),
                Some(count) => filled += count,
                None if self.start < self.end => self.process()?,
                None => return Ok((filled > 0).then_some(filled)),
            }
            if filled == into.len() {
                return Ok(Some(filled));
            }
        }
    }
}

impl<R: ReadHalf> ReadHalf for TlsReader<R> {
    async fn read(&mut self, mut buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        loop {
            match self.decrypt(&mut buf[start..]) {
                Ok(Some(count)) => return (Ok(count), buf),
                Ok(None) => {}
                Err(error) => return (Err(error), buf),
            }
            match self.advance().await {
                Ok(true) => {}
                // Without `close_notify`, an attacker may have truncated the stream.
                Ok(false) => return (Err(io::ErrorKind::UnexpectedEof.into()), buf),
                Err(error) => return (Err(error), buf),
            }
        }
    }
}

impl<W: WriteHalf> TlsWriter<W> {
    /// Sends the ciphertext that the TLS connection has produced.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        let bytes = self.take_ciphertext()?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.raw.write_all(vec![bytes]).await.0
    }

    fn take_ciphertext(&mut self) -> io::Result<Bytes> {
        let mut connection = self.connection.borrow_mut();
        while connection.wants_write() {
            connection.write_tls(&mut Sink(&mut self.ciphertext))?;
        }
        Ok(self.ciphertext.split().freeze())
    }

    async fn send(&mut self, pieces: &mut Vec<Bytes>) -> io::Result<()> {
        let mut pending = 0;
        for mut piece in pieces.drain(..) {
            while !piece.is_empty() {
                let part = piece.split_to(piece.len().min(SEND_BYTES - pending));
                self.connection.borrow_mut().writer().write_all(&part)?;
                pending += part.len();
                if pending == SEND_BYTES {
                    self.flush().await?;
                    pending = 0;
                }
            }
        }
        self.flush().await
    }
}

impl<W: WriteHalf> WriteHalf for TlsWriter<W> {
    async fn write_all(&mut self, mut pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        let result = self.send(&mut pieces).await;
        (result, pieces)
    }

    async fn shutdown(&mut self) {
        self.connection.borrow_mut().send_close_notify();
        // The peer may have closed the stream already.
        let _ = self.flush().await;
        self.raw.shutdown().await;
    }
}

/// A writer that collects ciphertext.
struct Sink<'a>(&'a mut BytesMut);

impl io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn write_vectored(&mut self, bytes: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.reserve(bytes.iter().map(|slice| slice.len()).sum());
        bytes.iter().map(|slice| self.write(slice)).sum()
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
