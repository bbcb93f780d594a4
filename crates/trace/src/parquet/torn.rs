//! Files whose writer was killed. Parquet has the list of its row groups at the end of the file, so that a file without
//! its end cannot be read. After each row group of a recording there is a *mark*, in a gap that other readers ignore:
//!
//! | bytes | content |
//! |---|---|
//! | n | the metadata of a Parquet footer (Thrift) with only this row group |
//! | 8 | offset of the end of the mark before this one; 0 for the first |
//! | 4 | n |
//! | 4 | CRC-32 (ISO-HDLC) of the fields above |
//! | 8 | `NitroGrp` |
//!
//! If the end is missing, the reader searches for the last complete mark, follows the marks backwards, and generates
//! the missing end.

use super::damage;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataReader, ParquetMetaDataWriter, RowGroupMetaData,
};
use ::parquet::file::reader::{ChunkReader, Length};
use ::parquet::file::writer::SerializedFileWriter;
use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"NitroGrp";
/// Bytes of a mark besides its metadata.
const FRAME_BYTES: usize = 24;
/// Most bytes of a mark's metadata. (Those of a row group take about a kilobyte.)
const METADATA_BYTES_MAX: usize = 1 << 20;
/// Bytes of a Parquet footer besides its metadata: their length, and the magic.
const FOOTER_FRAME_BYTES: usize = 8;
/// Bytes that are searched at a time.
const LOOK_BYTES: usize = 1 << 20;

fn damaged() -> ParquetError {
    ParquetError::General("damaged: the marks of its row groups are inconsistent".to_owned())
}

/// A footer with its length and magic.
fn footer(metadata: &ParquetMetaData) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ParquetMetaDataWriter::new(&mut bytes, metadata).finish()?;
    Ok(bytes)
}

/// Writes the mark of the last row group. `before` is the offset of the end of the mark before it; returns that of the
/// end of this one.
pub fn mark<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    notes: Option<Vec<KeyValue>>,
    before: u64,
) -> Result<u64> {
    let Some(group) = file.flushed_row_groups().last() else { return Ok(before) };
    let schema = group.schema_descr_ptr();
    let about = FileMetaData::new(1, group.num_rows(), None, notes, schema, None);
    let mut bytes = footer(&ParquetMetaData::new(about, vec![group.clone()]))?;
    bytes.truncate(bytes.len() - FOOTER_FRAME_BYTES);
    let len = bytes.len() as u32;
    bytes.extend_from_slice(&before.to_le_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(&crc(&bytes).to_le_bytes());
    bytes.extend_from_slice(MAGIC);
    file.write_all(&bytes)?;
    // After a kill, only flushed data are in the file.
    file.flush()?;
    Ok(file.bytes_written() as u64)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// A parsed mark.
struct Mark {
    before: u64,
    metadata: ParquetMetaData,
    /// It is right behind the row group that it describes. Otherwise, its file was joined with others.
    is_in_place: bool,
}

/// The mark that ends at `end`, if it is complete and its checksum is right.
fn mark_at<R: ChunkReader>(file: &R, end: u64) -> Option<Mark> {
    let frame_start = end.checked_sub(FRAME_BYTES as u64)?;
    let frame = file.get_bytes(frame_start, FRAME_BYTES).ok()?;
    let before = u64::from_le_bytes(*frame.first_chunk()?);
    let len = u32::from_le_bytes(*frame[8..].first_chunk()?) as usize;
    let sum = u32::from_le_bytes(*frame[12..].first_chunk()?);
    if frame[16..] != MAGIC[..] || len > METADATA_BYTES_MAX || before >= end {
        return None;
    }
    let start = frame_start.checked_sub(len as u64)?;
    let bytes = file.get_bytes(start, len + 12).ok()?;
    if crc(&bytes) != sum {
        return None;
    }
    damage::check_metadata(&bytes[..len]).ok()?;
    let metadata = ParquetMetaDataReader::decode_metadata(&bytes[..len]).ok()?;
    let is_in_place = damage::described_end(&metadata).is_some_and(|end| end == start);
    Some(Mark { before, metadata, is_in_place })
}

/// Bytes of the mark that ends at `end`; 0 if there is none.
pub fn mark_bytes<R: ChunkReader>(file: &R, end: u64) -> u64 {
    let Some(frame_start) = end.checked_sub(FRAME_BYTES as u64) else { return 0 };
    let Ok(frame) = file.get_bytes(frame_start, FRAME_BYTES) else { return 0 };
    if frame[16..] != MAGIC[..] {
        return 0;
    }
    frame[8..].first_chunk().map_or(0, |len| u64::from(u32::from_le_bytes(*len)) + FRAME_BYTES as u64)
}

/// The last valid mark of a file, and the offset of its end.
fn last_mark<R: ChunkReader>(file: &R) -> Option<(u64, Mark)> {
    let mut end = file.len();
    while end >= FRAME_BYTES as u64 {
        // The parts that are searched overlap, so that a magic across their border is found.
        let start = end.saturating_sub(LOOK_BYTES as u64);
        let bytes = file.get_bytes(start, (end - start) as usize).ok()?;
        for at in memchr::memmem::rfind_iter(&bytes, MAGIC) {
            let mark_end = start + (at + MAGIC.len()) as u64;
            if let Some(mark) = mark_at(file, mark_end) {
                return Some((mark_end, mark));
            }
        }
        if start == 0 {
            return None;
        }
        end = start + MAGIC.len() as u64 - 1;
    }
    None
}

/// A torn file with a generated end.
pub struct Mended<R> {
    file: R,
    /// Bytes of the file that are used.
    kept: u64,
    end: Bytes,
}

impl<R: ChunkReader> Mended<R> {
    /// Finds the row groups of a torn file and generates its end; `None` if it has no marks.
    ///
    /// # Errors
    /// The marks are inconsistent.
    pub fn new(file: R) -> Result<Option<Self>> {
        let Some((kept, last)) = last_mark(&file) else { return Ok(None) };
        if !last.is_in_place {
            return Err(damage::joined());
        }
        let about = last.metadata.file_metadata().clone();
        let mut groups: Vec<RowGroupMetaData> = last.metadata.row_groups().to_vec();
        let mut before = last.before;
        while before > 0 {
            let mark = mark_at(&file, before).filter(|mark| mark.is_in_place).ok_or_else(damaged)?;
            groups.extend_from_slice(mark.metadata.row_groups());
            before = mark.before;
        }
        groups.reverse();
        let rows = groups.iter().try_fold(0i64, |rows, group| rows.checked_add(group.num_rows()));
        let about = FileMetaData::new(
            about.version(),
            rows.ok_or_else(damaged)?,
            None,
            about.key_value_metadata().cloned(),
            about.schema_descr_ptr(),
            None,
        );
        let end = footer(&ParquetMetaData::new(about, groups))?.into();
        Ok(Some(Self { file, kept, end }))
    }
}

/// A part of the file, or of its generated end.
pub enum Piece<T> {
    File(T),
    End(Reader<Bytes>),
}

impl<T: Read> Read for Piece<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(bytes),
            Self::End(end) => end.read(bytes),
        }
    }
}

impl<R: ChunkReader> Length for Mended<R> {
    fn len(&self) -> u64 {
        self.kept + self.end.len() as u64
    }
}

impl<R: ChunkReader> ChunkReader for Mended<R> {
    type T = Piece<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        match start.checked_sub(self.kept) {
            None => self.file.get_read(start).map(Piece::File),
            Some(within) => {
                let within = usize::try_from(within).unwrap_or(usize::MAX).min(self.end.len());
                Ok(Piece::End(self.end.slice(within..).reader()))
            }
        }
    }

    fn get_bytes(&self, start: u64, len: usize) -> Result<Bytes> {
        let end = start.checked_add(len as u64).filter(|&end| end <= self.len()).ok_or_else(damaged)?;
        if end <= self.kept {
            return self.file.get_bytes(start, len);
        }
        let mut bytes = Vec::with_capacity(len);
        if start < self.kept {
            bytes.extend_from_slice(&self.file.get_bytes(start, (self.kept - start) as usize)?);
        }
        let tail = start.saturating_sub(self.kept) as usize..(end - self.kept) as usize;
        bytes.extend_from_slice(&self.end[tail]);
        Ok(bytes.into())
    }
}
