//! The byte stream under a connection: sockets in the server, [`memory`] in tests, TLS over either.

pub mod memory;

use bytes::Bytes;
use nitro_port::buf::BufMut;
use std::future::Future;
use std::io;

/// The side of a stream that is read. Buffers are passed by value, as completion-based I/O needs.
pub trait ReadHalf {
    /// Reads into `buf[start..]`, waiting for at least one byte; returns the buffer back with the count of bytes read.
    /// 0 is the end of the stream. `start` is less than the buffer's length.
    fn read(&mut self, buf: BufMut, start: usize) -> impl Future<Output = (io::Result<usize>, BufMut)>;
}

/// The side of a stream that is written.
pub trait WriteHalf {
    /// Writes all `pieces` in order; returns the emptied `Vec` back for reuse.
    fn write_all(&mut self, pieces: Vec<Bytes>) -> impl Future<Output = (io::Result<()>, Vec<Bytes>)>;

    /// Ends the stream towards the client. Errors are ignored.
    fn shutdown(&mut self) -> impl Future<Output = ()>;
}
