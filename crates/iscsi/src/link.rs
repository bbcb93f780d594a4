//! A connection in its login phase, which receives and sends one PDU at a time.

use crate::error::IscsiError;
use crate::protocol::{HEADER_BYTES, Header, padding_of};
use bytes::{Bytes, BytesMut};
use nitro_frontend::Receiver;
use nitro_frontend::transport::{ReadHalf, WriteHalf};

/// A stream that a connection runs over.
pub(crate) struct Link<R, W> {
    pub(crate) receiver: Receiver<R>,
    pub(crate) writer: W,
}

impl<R: ReadHalf, W: WriteHalf> Link<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { receiver: Receiver::new(reader), writer }
    }

    /// Receives a PDU without checksums, with at most `data_bytes_max` bytes of data. `None` if the initiator closes
    /// the stream before the PDU.
    pub(crate) async fn receive(&mut self, data_bytes_max: usize) -> Result<Option<(Header, Bytes)>, IscsiError> {
        if !self.receiver.fill(HEADER_BYTES).await? {
            return if self.receiver.window().is_empty() { Ok(None) } else { Err(IscsiError::Truncated) };
        }
        let header = Header::parse(self.receiver.window()).ok_or(IscsiError::Truncated)?;
        self.receiver.consume(HEADER_BYTES);
        let len = header.data_bytes();
        if len > data_bytes_max {
            return Err(IscsiError::Protocol("a login request is too long"));
        }
        let (skipped, padded) = (header.additional_bytes(), len + padding_of(len));
        if !self.receiver.skip(skipped).await? || !self.receiver.fill(padded).await? {
            return Err(IscsiError::Truncated);
        }
        let data = Bytes::copy_from_slice(&self.receiver.window()[..len]);
        self.receiver.consume(padded);
        Ok(Some((header, data)))
    }

    /// Sends a PDU without checksums.
    pub(crate) async fn send(&mut self, header: &Header, data: &[u8]) -> Result<(), IscsiError> {
        let mut out = BytesMut::with_capacity(HEADER_BYTES + data.len() + 3);
        out.extend_from_slice(&header.0);
        out.extend_from_slice(data);
        out.resize(out.len() + padding_of(data.len()), 0);
        Ok(self.writer.write_all(vec![out.freeze()]).await.0?)
    }
}
