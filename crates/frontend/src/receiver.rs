//! Received bytes that were not parsed yet.

use crate::transport::ReadHalf;
use nitro_port::buf::BufMut;
use std::io;

/// Bytes asked for in one receive: enough for thousands of requests, small enough to stay in the CPU's cache.
pub const RECEIVE_BYTES: usize = 128 << 10;

/// Bytes asked for until so many have arrived at once: clients that are idle or ask for little keep no more memory.
const FIRST_RECEIVE_BYTES: usize = 8 << 10;

/// Bytes by which the buffer of a payload grows.
const PAYLOAD_STEP_BYTES: usize = 512 << 10;

/// A reader with a window of received bytes.
pub struct Receiver<R> {
    reader: R,
    buf: BufMut,
    start: usize,
    end: usize,
}

impl<R: ReadHalf> Receiver<R> {
    /// Reads from `reader`.
    #[must_use]
    pub fn new(reader: R) -> Self {
        Self { reader, buf: BufMut::with_len(FIRST_RECEIVE_BYTES), start: 0, end: 0 }
    }

    /// The bytes that were received and not consumed.
    #[must_use]
    pub fn window(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// Removes the first `len` bytes of the window.
    pub fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
    }

    /// Receives until the window holds `len` bytes (at most [`RECEIVE_BYTES`]). `false` if the stream ends before.
    ///
    /// # Errors
    /// The transport's.
    pub async fn fill(&mut self, len: usize) -> io::Result<bool> {
        debug_assert!(len <= RECEIVE_BYTES);
        while self.window().len() < len {
            if self.receive().await? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn receive(&mut self) -> io::Result<usize> {
        // The last receive filled the buffer: the next one may have more.
        let was_full = self.end == self.buf.len();
        // What is left is a partial message, so that moving it costs little.
        self.buf.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let mut buf = std::mem::replace(&mut self.buf, BufMut::with_len(0));
        if was_full {
            buf.grow_to(RECEIVE_BYTES);
        }
        let (result, buf) = self.reader.read(buf, self.end).await;
        self.buf = buf;
        let got = result?;
        self.end += got;
        Ok(got)
    }

    /// Takes a payload of `len` bytes into a page-aligned buffer of its own, which grows as they arrive. Only what the
    /// window already holds is copied. `None` if the stream ends before.
    ///
    /// # Errors
    /// The transport's.
    pub async fn payload(&mut self, len: usize) -> io::Result<Option<BufMut>> {
        let held = self.window().len().min(len);
        let mut payload = BufMut::with_capacity(len);
        payload.grow_to(len.min(held.max(PAYLOAD_STEP_BYTES)));
        payload[..held].copy_from_slice(&self.window()[..held]);
        self.consume(held);
        let mut filled = held;
        while filled < len {
            if filled == payload.len() {
                payload.grow_to(len.min(filled + PAYLOAD_STEP_BYTES));
            }
            let (result, buf) = self.reader.read(payload, filled).await;
            payload = buf;
            match result? {
                0 => return Ok(None),
                got => filled += got,
            }
        }
        Ok(Some(payload))
    }

    /// Takes `len` bytes into `buf` from `at` on, which has room for them, and returns the buffer. `false` if the
    /// stream ends before.
    ///
    /// # Errors
    /// The transport's; the buffer is lost then.
    pub async fn payload_into(&mut self, mut buf: BufMut, at: usize, len: usize) -> io::Result<(bool, BufMut)> {
        debug_assert!(at + len <= buf.len());
        let held = self.window().len().min(len);
        buf[at..at + held].copy_from_slice(&self.window()[..held]);
        self.consume(held);
        let (mut filled, wanted, whole) = (at + held, at + len, buf.len());
        // A read takes what room there is: what follows belongs to others.
        buf.truncate(wanted);
        while filled < wanted {
            let (result, read) = self.reader.read(buf, filled).await;
            buf = read;
            match result? {
                0 => return Ok((false, buf)),
                got => filled += got,
            }
        }
        buf.grow_to(whole);
        Ok((true, buf))
    }

    /// Throws away `len` bytes. `false` if the stream ends before.
    ///
    /// # Errors
    /// The transport's.
    pub async fn skip(&mut self, len: usize) -> io::Result<bool> {
        let mut left = len;
        loop {
            let held = self.window().len().min(left);
            self.consume(held);
            left -= held;
            if left == 0 {
                return Ok(true);
            }
            if self.receive().await? == 0 {
                return Ok(false);
            }
        }
    }

    /// Returns the reader; the bytes in the window are lost.
    #[must_use]
    pub fn into_reader(self) -> R {
        self.reader
    }
}
