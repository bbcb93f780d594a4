//! The two halves of a stream.

use crate::error::{NbdError, Phase};
use crate::transport::{ReadHalf, WriteHalf};
use bytes::BytesMut;
pub(crate) use nitro_frontend::Receiver;

/// A stream that a connection runs over.
pub(crate) struct Link<R, W> {
    pub(crate) receiver: Receiver<R>,
    pub(crate) writer: W,
}

impl<R: ReadHalf, W: WriteHalf> Link<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        Self { receiver: Receiver::new(reader), writer }
    }

    /// Sends the contents of `out` and empties it.
    pub(crate) async fn send(&mut self, out: &mut BytesMut) -> Result<(), NbdError> {
        if out.is_empty() {
            return Ok(());
        }
        let (result, _) = self.writer.write_all(vec![out.split().freeze()]).await;
        result.map_err(NbdError::io(Phase::Handshake))
    }
}
