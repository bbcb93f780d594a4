//! A window of a stream, from which lines and records are taken without copying them.

use memchr::memchr;
use std::io::{self, Read};
use std::ops::Range;

/// Bytes that are read at a time.
const READ_BYTES: usize = 1 << 18;
/// Bytes of the longest line. A longer one is a bad record; it is skipped without being kept in memory.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A line of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The line's range in the window, without its line feed; see [`Window::bytes`].
    At(Range<usize>),
    /// The line is longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// There is no line left.
    End,
}

/// A window of a stream.
pub struct Window {
    input: Box<dyn Read + Send>,
    bytes: Vec<u8>,
    /// The bytes that were read and not taken yet.
    held: Range<usize>,
    ended: bool,
}

impl Window {
    /// A window at the beginning of `input`.
    #[must_use]
    pub fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input, bytes: vec![0; READ_BYTES], held: 0..0, ended: false }
    }

    /// The bytes of the line or record that was taken last.
    #[must_use]
    pub fn bytes(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    /// Returns at least `len` bytes without taking them; fewer only at the end of the stream.
    ///
    /// # Errors
    /// The stream's.
    pub fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        while self.held.len() < len && self.fill()? {}
        Ok(&self.bytes[self.held.clone()])
    }

    /// Takes the next `len` bytes; fewer only at the end of the stream.
    ///
    /// # Errors
    /// The stream's.
    pub fn take(&mut self, len: usize) -> io::Result<Range<usize>> {
        while self.held.len() < len && self.fill()? {}
        let start = self.held.start;
        self.held.start += self.held.len().min(len);
        Ok(start..self.held.start)
    }

    /// Takes a line, which ends with `\n`, `\r\n` or the stream.
    ///
    /// # Errors
    /// The stream's.
    pub fn line(&mut self) -> io::Result<Line> {
        let mut searched = 0;
        let mut too_long = false;
        loop {
            if let Some(found) = memchr(b'\n', &self.bytes[self.held.start + searched..self.held.end]) {
                let start = self.held.start;
                let end = start + searched + found;
                self.held.start = end + 1;
                return Ok(if too_long { Line::TooLong } else { self.trimmed(start..end) });
            }
            searched = self.held.len();
            if searched > LINE_BYTES_MAX {
                too_long = true;
                self.held.start = self.held.end;
                searched = 0;
            }
            if !self.fill()? {
                let rest = self.held.clone();
                self.held.start = rest.end;
                return Ok(match (too_long, rest.is_empty()) {
                    (true, _) => Line::TooLong,
                    (false, true) => Line::End,
                    (false, false) => self.trimmed(rest),
                });
            }
        }
    }

    fn trimmed(&self, line: Range<usize>) -> Line {
        let end = if self.bytes[line.clone()].ends_with(b"\r") { line.end - 1 } else { line.end };
        Line::At(line.start..end)
    }

    /// Reads more bytes; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.bytes.copy_within(self.held.clone(), 0);
        self.held = 0..self.held.len();
        if self.bytes.len() - self.held.end < READ_BYTES / 2 {
            self.bytes.resize(self.bytes.len() + READ_BYTES, 0);
        }
        loop {
            match self.input.read(&mut self.bytes[self.held.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.held.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(!self.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that returns one byte at a time.
    struct Slow(Vec<u8>, usize);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(&byte) = self.0.get(self.1) else { return Ok(0) };
            buffer[0] = byte;
            self.1 += 1;
            Ok(1)
        }
    }

    fn lines(mut window: Window) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            match window.line().unwrap() {
                Line::At(range) => lines.push(String::from_utf8(window.bytes(&range).to_vec()).unwrap()),
                Line::TooLong => lines.push("too long".to_owned()),
                Line::End => return lines,
            }
        }
    }

    #[test]
    fn lines_are_cut_whatever_pieces_arrive() {
        let text = b"one\r\n\ntwo\nthree".to_vec();
        assert_eq!(lines(Window::new(Box::new(Slow(text, 0)))), ["one", "", "two", "three"]);
    }

    #[test]
    fn a_line_too_long_is_read_past() {
        let text = [b"a\n".to_vec(), vec![b'x'; 3 * LINE_BYTES_MAX], b"\nb\n".to_vec()].concat();
        let mut window = Window::new(Box::new(io::Cursor::new(text)));
        window.peek(10).unwrap();
        assert_eq!(lines(window), ["a", "too long", "b"]);
        let endless = vec![b'x'; LINE_BYTES_MAX + 2];
        assert_eq!(lines(Window::new(Box::new(io::Cursor::new(endless)))), ["too long"]);
    }
}
