//! The pages of a column, in bounded memory. Sizes in a file are only claims: a page is decompressed into memory that
//! grows with what there is, up to a limit, and a dictionary has no more entries than its bytes can hold. At any time, a
//! reader has one page of each column, or two.

use super::thrift::{Compact, Field, STRUCT};
use ::parquet::basic::{Compression, Encoding, Type as Physical};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::ChunkReader;
use bytes::Bytes;
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page that are always accepted: several times as many as writers put into a page.
const PAGE_BYTES: u64 = 4 << 20;
/// The same for fingerprints: those of a request of 4 GiB, and of a row group, are in one page if the writer is ours.
const PRINTS_PAGE_BYTES: u64 = 40 << 20;
/// How much larger a page may be than its compressed form.
const RATIO_MAX: u64 = 64;
/// Most bytes of any page.
const PAGE_BYTES_MAX: u64 = 64 << 20;
/// Bytes in which most headers of pages fit, and most bytes of a header.
const HEADER_BYTES: u64 = 256;
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// A file from which ranges of bytes are read.
pub trait Input: Send + Sync {
    /// Reads `len` bytes from `at` on.
    ///
    /// # Errors
    /// The file is shorter, or cannot be read.
    fn bytes(&self, at: u64, len: usize) -> Result<Bytes>;
}

impl<R: ChunkReader> Input for R {
    fn bytes(&self, at: u64, len: usize) -> Result<Bytes> {
        self.get_bytes(at, len)
    }
}

/// The kinds of pages that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Data2,
    Dictionary,
    /// To be skipped.
    Other,
}

/// The header of a page.
#[derive(Debug, Clone, Copy)]
struct Header {
    kind: Kind,
    /// Bytes of the header itself, of the page in the file, and of the page.
    header_bytes: u64,
    compressed_bytes: u64,
    bytes: u64,
    values: u32,
    nulls: u32,
    encoding: Encoding,
    definition_encoding: Encoding,
    repetition_bytes: u32,
    definition_bytes: u32,
    is_compressed: bool,
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("damaged: {what}"))
}

#[expect(deprecated, reason = "some writers name it for columns without levels")]
fn encoding(number: i64) -> Option<Encoding> {
    Some(match number {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return None,
    })
}

impl Header {
    /// Parses a header; `None`: it is invalid, or longer than `bytes`.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut header = Self {
            kind: Kind::Other,
            header_bytes: 0,
            compressed_bytes: 0,
            bytes: 0,
            values: 0,
            nulls: 0,
            encoding: Encoding::PLAIN,
            definition_encoding: Encoding::RLE,
            repetition_bytes: 0,
            definition_bytes: 0,
            is_compressed: true,
        };
        let mut compact = Compact::new(bytes);
        let (mut kind, mut has_details) = (None, false);
        compact.fields(|value, field| {
            match field.number {
                1 => kind = Some(value.integer()?),
                2 => header.bytes = value.size()?,
                3 => header.compressed_bytes = value.size()?,
                5 | 7 | 8 if field.kind == STRUCT => {
                    has_details = true;
                    value.fields(|value, detail| header.detail(field.number, value, detail))?;
                }
                _ => return Some(false),
            }
            Some(true)
        })?;
        header.kind = match kind? {
            0 => Kind::Data,
            2 => Kind::Dictionary,
            3 => Kind::Data2,
            _ => Kind::Other,
        };
        header.header_bytes = (bytes.len() - compact.left()) as u64;
        (has_details || header.kind == Kind::Other).then_some(header)
    }

    /// Parses a field of the header of a data page (5), of a dictionary page (7) or of a data page of version 2 (8).
    fn detail(&mut self, of: i16, value: &mut Compact<'_>, field: Field) -> Option<bool> {
        let small = |value: &mut Compact<'_>| u32::try_from(value.size()?).ok();
        match (of, field.number) {
            (_, 1) => self.values = small(value)?,
            (5 | 7, 2) | (8, 4) => self.encoding = encoding(value.integer()?)?,
            (5, 3) => self.definition_encoding = encoding(value.integer()?)?,
            (8, 2) => self.nulls = small(value)?,
            (8, 5) => self.definition_bytes = small(value)?,
            (8, 6) => self.repetition_bytes = small(value)?,
            (8, 7) => {
                // The type of a Boolean field is its value: 1 for true, 2 for false.
                self.is_compressed = field.kind == 1;
                return Some(false);
            }
            _ => return Some(false),
        }
        Some(true)
    }
}

/// The pages of a column in a row group.
struct Chunk {
    input: Arc<dyn Input>,
    /// The range of the file that is not read yet.
    at: u64,
    end: u64,
    compression: Compression,
    physical: Physical,
    /// Bytes of a page that are accepted however small it is in the file.
    page_bytes: u64,
    /// Rows of the current page that were not returned yet.
    rows: u64,
}

impl Chunk {
    fn header(&self, at: u64) -> Result<Option<Header>> {
        let left = self.end.saturating_sub(at);
        if left == 0 {
            return Ok(None);
        }
        for bytes in [HEADER_BYTES, HEADER_BYTES_MAX] {
            let bytes = bytes.min(left);
            if let Some(header) = Header::parse(&self.input.bytes(at, bytes as usize)?) {
                if header.compressed_bytes > left - header.header_bytes {
                    return Err(damaged("a page reaches past the end of its column"));
                }
                return Ok(Some(header));
            }
        }
        Err(damaged("the header of a page"))
    }

    /// The rows of the next page with rows.
    fn rows_of_next(&self) -> Result<u64> {
        let mut at = self.at;
        while let Some(header) = self.header(at)? {
            if matches!(header.kind, Kind::Data | Kind::Data2) && header.values > 0 {
                return Ok(header.values.into());
            }
            at += header.header_bytes + header.compressed_bytes;
        }
        Ok(0)
    }

    fn next(&mut self) -> Result<Option<Page>> {
        while let Some(header) = self.header(self.at)? {
            let start = self.at + header.header_bytes;
            self.at = start + header.compressed_bytes;
            if header.kind == Kind::Other {
                continue;
            }
            self.check(&header)?;
            let buf = self.decompress(&header, start)?;
            return self.page(&header, buf).map(Some);
        }
        Ok(None)
    }

    /// Checks the sizes that a header claims, and its encoding.
    fn check(&self, header: &Header) -> Result<()> {
        let most = self.page_bytes.max(header.compressed_bytes.saturating_mul(RATIO_MAX)).min(PAGE_BYTES_MAX);
        if header.bytes > most || header.compressed_bytes > PAGE_BYTES_MAX {
            return Err(ParquetError::General(format!(
                "a page of {} bytes, {} in the file; at most {most} are read: write the file with smaller pages",
                header.bytes, header.compressed_bytes
            )));
        }
        let is_text = self.physical == Physical::BYTE_ARRAY;
        let is_delta = matches!(header.encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY);
        if is_text && is_delta {
            return Err(ParquetError::General(format!(
                "the encoding {} is not read: write the file with plain encoding, or with dictionaries",
                header.encoding
            )));
        }
        let value_bytes = if self.physical == Physical::INT64 { 8 } else { 4 };
        if header.kind == Kind::Dictionary && u64::from(header.values) * value_bytes > header.bytes {
            return Err(damaged("a dictionary with more entries than bytes for them"));
        }
        Ok(())
    }

    /// The content of a page.
    fn decompress(&self, header: &Header, start: u64) -> Result<Bytes> {
        let stored = self.input.bytes(start, header.compressed_bytes as usize)?;
        let levels = u64::from(header.repetition_bytes) + u64::from(header.definition_bytes);
        if levels > header.compressed_bytes || levels > header.bytes {
            return Err(damaged("a page with more levels than bytes"));
        }
        let is_plain = self.compression == Compression::UNCOMPRESSED || !header.is_compressed;
        if is_plain || header.bytes == levels {
            if is_plain && header.bytes != header.compressed_bytes {
                return Err(damaged("a page of two sizes"));
            }
            return Ok(stored);
        }
        if !matches!(self.compression, Compression::ZSTD(_)) {
            return Err(ParquetError::General(format!(
                "the compression {} is not read: write the file with zstd, or without compression",
                self.compression
            )));
        }
        let (levels, data) = stored.split_at(levels as usize);
        // It grows with what there is.
        let mut content = levels.to_vec();
        let decoder = zstd::stream::read::Decoder::with_buffer(data)?;
        decoder.take(header.bytes - levels.len() as u64 + 1).read_to_end(&mut content)?;
        if content.len() as u64 != header.bytes {
            return Err(damaged("a page with another size than its header claims"));
        }
        Ok(content.into())
    }

    fn page(&mut self, header: &Header, buf: Bytes) -> Result<Page> {
        let (num_values, encoding) = (header.values, header.encoding);
        if header.kind != Kind::Dictionary {
            self.rows = num_values.into();
        }
        Ok(match header.kind {
            Kind::Data => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: header.definition_encoding,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            },
            Kind::Data2 => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: header.nulls,
                num_rows: num_values,
                def_levels_byte_len: header.definition_bytes,
                rep_levels_byte_len: header.repetition_bytes,
                is_compressed: false,
                statistics: None,
            },
            Kind::Dictionary => Page::DictionaryPage { buf, num_values, encoding, is_sorted: false },
            Kind::Other => return Err(damaged("a page of an unknown kind")),
        })
    }
}

/// The pages of a column in a row group: for the `parquet` crate, which decodes them, and for the reader, which asks how
/// many rows it may read from the current page.
#[derive(Clone)]
pub struct Pages(Arc<Mutex<Chunk>>);

impl Pages {
    /// The pages of `column`, whose range [`damage::check`](super::damage::check) has checked. `are_prints`: it is the
    /// column of fingerprints.
    pub fn new(input: Arc<dyn Input>, column: &ColumnChunkMetaData, are_prints: bool) -> Self {
        let (at, len) = column.byte_range();
        Self(Arc::new(Mutex::new(Chunk {
            input,
            at,
            end: at + len,
            compression: column.compression(),
            physical: column.column_type(),
            page_bytes: if are_prints { PRINTS_PAGE_BYTES } else { PAGE_BYTES },
            rows: 0,
        })))
    }

    fn chunk(&self) -> MutexGuard<'_, Chunk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that can be read without loading more than one page; 0 if there are none.
    pub fn rows_ahead(&self) -> Result<u64> {
        let chunk = self.chunk();
        if chunk.rows > 0 { Ok(chunk.rows) } else { chunk.rows_of_next() }
    }

    /// Notes that `rows` were read.
    pub fn read(&self, rows: u64) {
        let mut chunk = self.chunk();
        chunk.rows = chunk.rows.saturating_sub(rows);
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.chunk().next()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let chunk = self.chunk();
        let header = chunk.header(chunk.at)?;
        Ok(header.map(|header| {
            let is_dict = header.kind == Kind::Dictionary;
            let values = (!is_dict).then_some(header.values as usize);
            PageMetadata { num_rows: values, num_levels: values, is_dict }
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        let mut chunk = self.chunk();
        if let Some(header) = chunk.header(chunk.at)? {
            chunk.at += header.header_bytes + header.compressed_bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: u64, compressed_bytes: u64) -> Header {
        Header {
            kind: Kind::Data,
            header_bytes: 0,
            compressed_bytes,
            bytes,
            values: 1,
            nulls: 0,
            encoding: Encoding::PLAIN,
            definition_encoding: Encoding::RLE,
            repetition_bytes: 0,
            definition_bytes: 0,
            is_compressed: true,
        }
    }

    fn chunk(stored: &[u8]) -> Chunk {
        Chunk {
            input: Arc::new(Bytes::copy_from_slice(stored)),
            at: 0,
            end: stored.len() as u64,
            compression: Compression::ZSTD(Default::default()),
            physical: Physical::INT64,
            page_bytes: PAGE_BYTES,
            rows: 0,
        }
    }

    #[test]
    fn a_page_has_the_size_that_its_header_claims() {
        let stored = zstd::encode_all(&[7; 1 << 20][..], 1).unwrap();
        let chunk = chunk(&stored);
        let page = |bytes| chunk.decompress(&header(bytes, stored.len() as u64), 0);
        assert_eq!(page(1 << 20).unwrap(), vec![7; 1 << 20]);
        for bytes in [1, 1000, (1 << 20) - 1, (1 << 20) + 1, 1 << 40] {
            assert!(page(bytes).is_err(), "{bytes}");
        }
    }

    #[test]
    fn sizes_are_bounded_by_what_there_is() {
        let chunk = chunk(&[]);
        for (bytes, compressed, is_ok) in [
            (PAGE_BYTES, 10, true),
            (PAGE_BYTES + 1, 10, false),
            (32 << 20, 1 << 20, true),
            (PAGE_BYTES_MAX, 60 << 20, true),
            (PAGE_BYTES_MAX + 1, PAGE_BYTES_MAX, false),
            (1, PAGE_BYTES_MAX + 1, false),
        ] {
            assert_eq!(chunk.check(&header(bytes, compressed)).is_ok(), is_ok, "{bytes} of {compressed}");
        }
        let dictionary = |values| chunk.check(&Header { kind: Kind::Dictionary, values, ..header(800, 10) });
        assert!(dictionary(100).is_ok() && dictionary(101).is_err() && dictionary(u32::MAX).is_err());
    }
}
