//! Sockets with the interface for front ends and clients.

use bytes::Bytes;
use nitro_device::net::{StreamReader, StreamWriter};
use nitro_frontend::transport::{ReadHalf, WriteHalf};
use nitro_port::buf::BufMut;
use std::io;

/// The receiving half.
pub(crate) struct Reader(pub(crate) StreamReader);
/// The sending half.
pub(crate) struct Writer(pub(crate) StreamWriter);

impl ReadHalf for Reader {
    async fn read(&mut self, buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        self.0.read(buf, start).await
    }
}

impl WriteHalf for Writer {
    async fn write_all(&mut self, pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        self.0.write_all(pieces).await
    }

    async fn shutdown(&mut self) {
        // The peer may be gone already.
        let _ = self.0.shutdown();
    }
}
