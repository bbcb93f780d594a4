//! A stream in memory between two ends of one thread: for tests, fuzzing and embedding.

use super::{ReadHalf, WriteHalf};
use bytes::{Buf as _, Bytes};
use nitro_port::buf::BufMut;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    capacity_bytes: usize,
    ended: bool,
    reader_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn poll_read(&mut self, context: &Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.bytes.is_empty() && !self.ended {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let len = into.len().min(self.bytes.len());
        self.bytes.copy_to_slice(&mut into[..len]);
        wake(&mut self.writer);
        Poll::Ready(Ok(len))
    }

    fn poll_write(&mut self, context: &Context<'_>, from: &mut Bytes) -> Poll<io::Result<()>> {
        if self.reader_gone || self.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let len = from.len().min(self.capacity_bytes - self.bytes.len());
        self.bytes.extend(&from[..len]);
        from.advance(len);
        if len > 0 {
            wake(&mut self.reader);
        }
        if from.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// The reading side of a pipe. After it is dropped, writes to it fail.
pub struct MemoryReader(Rc<RefCell<Pipe>>);

/// The writing side of a pipe. After it is dropped, the reader sees the end after what was written.
pub struct MemoryWriter(Rc<RefCell<Pipe>>);

/// One end of a stream in both directions.
pub struct MemoryEnd {
    /// Reads what the other end writes.
    pub reader: MemoryReader,
    /// Writes what the other end reads.
    pub writer: MemoryWriter,
}

/// A pipe that holds up to `capacity_bytes` (at least 1) until they are read.
#[must_use]
pub fn pipe(capacity_bytes: usize) -> (MemoryReader, MemoryWriter) {
    let pipe = Pipe { capacity_bytes: capacity_bytes.max(1), ..Pipe::default() };
    let pipe = Rc::new(RefCell::new(pipe));
    (MemoryReader(Rc::clone(&pipe)), MemoryWriter(pipe))
}

/// Two pipes, one for each direction.
#[must_use]
pub fn duplex(capacity_bytes: usize) -> (MemoryEnd, MemoryEnd) {
    let (there_reader, there_writer) = pipe(capacity_bytes);
    let (back_reader, back_writer) = pipe(capacity_bytes);
    (MemoryEnd { reader: back_reader, writer: there_writer }, MemoryEnd { reader: there_reader, writer: back_writer })
}

impl ReadHalf for MemoryReader {
    async fn read(&mut self, mut buf: BufMut, start: usize) -> (io::Result<usize>, BufMut) {
        let result = poll_fn(|context| self.0.borrow_mut().poll_read(context, &mut buf[start..])).await;
        (result, buf)
    }
}

impl WriteHalf for MemoryWriter {
    async fn write_all(&mut self, mut pieces: Vec<Bytes>) -> (io::Result<()>, Vec<Bytes>) {
        let mut result = Ok(());
        for mut piece in pieces.drain(..) {
            result = poll_fn(|context| self.0.borrow_mut().poll_write(context, &mut piece)).await;
            if result.is_err() {
                break;
            }
        }
        (result, pieces)
    }

    async fn shutdown(&mut self) {
        self.end();
    }
}

impl MemoryWriter {
    fn end(&self) {
        let mut pipe = self.0.borrow_mut();
        pipe.ended = true;
        wake(&mut pipe.reader);
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for MemoryReader {
    fn drop(&mut self) {
        let mut pipe = self.0.borrow_mut();
        pipe.reader_gone = true;
        wake(&mut pipe.writer);
    }
}
