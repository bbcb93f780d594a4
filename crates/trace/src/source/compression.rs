//! Compressed streams, recognised by their first bytes.

use super::ahead::Ahead;
use super::zstd_frame::window_bytes;
use std::io::{self, Read};

/// Bytes that are needed to recognise a compression.
const MAGIC_BYTES: usize = 6;
/// Bytes of the longest header of a zstd frame.
const ZSTD_HEADER_BYTES_MAX: usize = 18;
/// Most memory of the decompression of an xz stream in bytes. (`xz -9` takes 65 MiB.)
const XZ_MEMORY_BYTES_MAX: u64 = 256 << 20;
/// The largest window of a zstd frame, as a power of two: that of `zstd --long=31`, the largest one that zstd writes. The
/// decompression reserves it as address space, and takes as much memory as the frame's content needs, at most that much.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// The file is not compressed.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
}

impl Compression {
    /// The compression of a file with this beginning.
    #[must_use]
    pub const fn of(beginning: &[u8]) -> Self {
        match beginning {
            [0x1F, 0x8B, ..] => Self::Gzip,
            // A frame, or a skippable frame, with which some programs begin a file.
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }

    /// Recognises the compression of `input`, and returns the decompressed stream. Compressed streams that were joined are
    /// read to the end of the last one; zeroes behind one are padding. Anything else behind one is an error when it is
    /// reached.
    ///
    /// # Errors
    /// Those of `input`. Damage is reported when the result is read.
    pub fn undo(input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        let mut ahead = Ahead::new(Box::new(input));
        if Self::of(ahead.peek(MAGIC_BYTES)?) == Self::None {
            return Ok(Box::new(ahead));
        }
        Ok(Box::new(Members { state: State::Between(ahead), is_first: true }))
    }
}

/// The members of a compressed file: a gzip member, a zstd frame, a bzip2 or an xz stream each.
struct Members {
    state: State,
    is_first: bool,
}

/// A member that is being read, or what follows it.
enum State {
    Between(Ahead),
    Gzip(flate2::bufread::GzDecoder<Ahead>),
    Zstd(zstd::stream::read::Decoder<'static, Ahead>),
    Bzip2(bzip2::bufread::BzDecoder<Ahead>),
    Xz(liblzma::bufread::XzDecoder<Ahead>),
    /// The end of the file, or the place of an error.
    Ended,
}

impl Members {
    /// The member that begins after the padding; [`State::Ended`] if there is none.
    fn begin(&self, mut input: Ahead) -> io::Result<State> {
        if !self.is_first {
            input.skip_zeroes()?;
        }
        let offset = input.offset();
        let beginning = input.peek(ZSTD_HEADER_BYTES_MAX)?;
        Ok(match Compression::of(beginning) {
            Compression::None if beginning.is_empty() => State::Ended,
            Compression::None => {
                let bytes = beginning[..beginning.len().min(8)].escape_ascii();
                let text = format!(
                    "no compressed data at byte {offset}, behind the end of the compressed part, but \"{bytes}\"; cut the file \
                     there (head -c {offset}), or join the rest in compressed form"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Compression::Gzip => State::Gzip(flate2::bufread::GzDecoder::new(input)),
            Compression::Zstd => {
                check_window(beginning)?;
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                State::Zstd(decoder.single_frame())
            }
            Compression::Bzip2 => State::Bzip2(bzip2::bufread::BzDecoder::new(input)),
            Compression::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, 0)?;
                State::Xz(liblzma::bufread::XzDecoder::new_stream(input, stream))
            }
        })
    }
}

/// Checks that the window of a zstd frame with this beginning is not too large.
fn check_window(beginning: &[u8]) -> io::Result<()> {
    let needed_bytes = window_bytes(beginning).unwrap_or(0);
    if needed_bytes <= 1 << ZSTD_WINDOW_LOG_MAX {
        return Ok(());
    }
    let text = format!(
        "a zstd frame needs a window of {needed_bytes} bytes, and at most {} bytes (--long={ZSTD_WINDOW_LOG_MAX}) are decoded; \
         compress it again with a smaller window",
        1u64 << ZSTD_WINDOW_LOG_MAX
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

impl Read for Members {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let read = match &mut self.state {
                State::Between(_) => 0,
                State::Gzip(member) => member.read(bytes)?,
                State::Zstd(member) => member.read(bytes)?,
                State::Bzip2(member) => member.read(bytes)?,
                State::Xz(member) => member.read(bytes)?,
                State::Ended => return Ok(0),
            };
            if read > 0 {
                return Ok(read);
            }
            let input = match std::mem::replace(&mut self.state, State::Ended) {
                State::Between(input) => input,
                State::Gzip(member) => member.into_inner(),
                State::Zstd(member) => member.finish(),
                State::Bzip2(member) => member.into_inner(),
                State::Xz(member) => member.into_inner(),
                State::Ended => return Ok(0),
            };
            self.state = self.begin(input)?;
            self.is_first = false;
        }
    }
}
