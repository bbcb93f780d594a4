//! Compressed streams, recognised by their first bytes.

use std::io::{self, BufReader, Chain, Cursor, Read};

/// Bytes of a compressed file read at a time.
const READ_BYTES: usize = 1 << 17;
/// Bytes that are needed to recognise a compression.
const MAGIC_BYTES: usize = 6;
/// Most memory of the decompression of an xz stream in bytes. (`xz -9` takes 65 MiB.)
const XZ_MEMORY_BYTES_MAX: u64 = 256 << 20;

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
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Self::Zstd,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }

    /// Recognises the compression of `input`, and returns the decompressed stream. A concatenation of compressed
    /// streams is read to its end.
    ///
    /// # Errors
    /// Those of `input` and of the decompressor's start. Damage is reported when the result is read.
    pub fn undo(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        let mut magic = [0; MAGIC_BYTES];
        let mut held = 0;
        while held < MAGIC_BYTES {
            match input.read(&mut magic[held..]) {
                Ok(0) => break,
                Ok(bytes) => held += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let compression = Self::of(&magic[..held]);
        let whole: Chain<_, _> = Cursor::new(magic).take(held as u64).chain(input);
        if compression == Self::None {
            return Ok(Box::new(whole));
        }
        let whole = BufReader::with_capacity(READ_BYTES, whole);
        Ok(match compression {
            Self::None => Box::new(whole),
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(whole)?),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(whole)),
            Self::Xz => {
                use liblzma::stream::{CONCATENATED, Stream};
                let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, CONCATENATED)?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(whole, stream))
            }
        })
    }
}
