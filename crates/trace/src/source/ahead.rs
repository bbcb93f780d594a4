//! A buffered stream whose next bytes can be examined without taking them.

use std::io::{self, BufRead, Read};

/// Bytes of a compressed file read at a time.
const READ_BYTES: usize = 1 << 17;

/// A buffered stream.
pub struct Ahead {
    input: Box<dyn Read + Send>,
    bytes: Box<[u8]>,
    /// The range of bytes that were read and not taken yet.
    start: usize,
    end: usize,
    /// Bytes before `start` in the stream.
    offset: u64,
}

impl Ahead {
    pub fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input, bytes: vec![0; READ_BYTES].into(), start: 0, end: 0, offset: 0 }
    }

    /// The number of bytes that were taken.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next `len` bytes, at most 128 KiB, without taking them; fewer only at the end of the stream.
    pub fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.bytes.len() - self.start < len {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < len && self.fill()? {}
        Ok(&self.bytes[self.start..self.end.min(self.start + len)])
    }

    /// Takes the zeroes that follow.
    pub fn skip_zeroes(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.fill_buf()?;
            let len = bytes.len();
            let zeroes = bytes.iter().position(|&byte| byte != 0).unwrap_or(len);
            self.consume(zeroes);
            if zeroes < len || len == 0 {
                return Ok(());
            }
        }
    }

    /// Reads more bytes behind those in the buffer, if it has room; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        loop {
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl BufRead for Ahead {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.fill()?;
        }
        Ok(&self.bytes[self.start..self.end])
    }

    fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }
}

impl Read for Ahead {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end && bytes.len() >= READ_BYTES {
            let read = self.input.read(bytes)?;
            self.offset += read as u64;
            return Ok(read);
        }
        let mut held = self.fill_buf()?;
        let read = held.read(bytes)?;
        self.consume(read);
        Ok(read)
    }
}
