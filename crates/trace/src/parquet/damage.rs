//! Protection from damaged files.

use super::thrift::{Compact, LIST, STRUCT};
use super::torn;
use crate::format::PARQUET_MAGIC;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use ::parquet::file::reader::ChunkReader;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Most items of a schema, and most levels of groups in it. A trace has nine columns in one group.
const SCHEMA_ITEMS_MAX: u64 = 4096;
const SCHEMA_DEPTH_MAX: usize = 16;
/// Bytes of a file's end: the length of the metadata, and the magic.
pub(super) const END_BYTES: u64 = 8;

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("damaged: {what}"))
}

/// The error of several files in one.
pub(super) fn joined() -> ParquetError {
    ParquetError::General("it consists of several Parquet files; name each of them instead".to_owned())
}

/// Checks the metadata at the end of a file before it is parsed. The `parquet` crate stores the whole path of each column,
/// which takes gigabytes for a small file with nested groups.
///
/// # Errors
/// The end or the schema is invalid.
pub fn check_end<R: ChunkReader>(input: &R) -> Result<()> {
    let end = metadata_end(input)?;
    let bytes = input.get_bytes(end.0, (end.1 - end.0) as usize)?;
    check_metadata(&bytes)
}

/// The range of a file's metadata.
fn metadata_end<R: ChunkReader>(input: &R) -> Result<(u64, u64)> {
    let end = input.len().checked_sub(END_BYTES).ok_or_else(|| damaged("it has no end"))?;
    let len = input.get_bytes(end, 4)?;
    let len = len.first_chunk().map_or(u64::MAX, |len| u32::from_le_bytes(*len).into());
    let start = end.checked_sub(len).ok_or_else(|| damaged("its metadata are longer than the file"))?;
    Ok((start, end))
}

/// Checks the schema of metadata that are not parsed yet.
///
/// # Errors
/// It is invalid, or has too many columns or groups.
pub fn check_metadata(metadata: &[u8]) -> Result<()> {
    let mut too_large = false;
    let mut visit = |value: &mut Compact<'_>| {
        let (kind, count) = value.list()?;
        if kind != STRUCT || count > SCHEMA_ITEMS_MAX {
            too_large = true;
            return None;
        }
        // For each open group: how many of its items are left.
        let mut open: Vec<u64> = Vec::new();
        for _ in 0..count {
            let mut children = 0;
            value.fields(|value, field| {
                if field.number == 5 {
                    children = value.size()?;
                }
                Some(field.number == 5)
            })?;
            if let Some(left) = open.last_mut() {
                *left = left.saturating_sub(1);
            }
            if children > 0 {
                open.push(children);
                too_large |= open.len() > SCHEMA_DEPTH_MAX;
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        (!too_large).then_some(true)
    };
    let checked = Compact::new(metadata).fields(|value, field| match (field.number, field.kind) {
        (2, LIST) => visit(value),
        _ => Some(false),
    });
    match checked {
        Some(()) => Ok(()),
        None if too_large => Err(damaged("its schema has too many columns or groups for a trace")),
        None => Err(damaged("its metadata are invalid")),
    }
}

/// The end of everything that belongs to a column.
fn column_end(column: &ColumnChunkMetaData) -> Option<u64> {
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let parts = [
        (Some(start), Some(column.compressed_size())),
        (column.bloom_filter_offset(), column.bloom_filter_length().map(i64::from)),
        (column.column_index_offset(), column.column_index_length().map(i64::from)),
        (column.offset_index_offset(), column.offset_index_length().map(i64::from)),
    ];
    let ends = parts.into_iter().map(|(start, len)| match (start, len) {
        (Some(start), Some(len)) => u64::try_from(start).ok()?.checked_add(u64::try_from(len).ok()?),
        _ => Some(0),
    });
    ends.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// The end of everything that metadata describe; `None`: they are invalid.
pub(super) fn described_end(metadata: &ParquetMetaData) -> Option<u64> {
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    columns.map(column_end).try_fold(PARQUET_MAGIC.len() as u64, |end, column| Some(end.max(column?)))
}

/// Checks that every column lies within the file, which the `parquet` crate does not check, and that the file is one file:
/// of several that were joined, the metadata of the last one would describe the beginning of the first one.
///
/// # Errors
/// It is damaged, or consists of several files.
pub fn check<R: ChunkReader>(metadata: &ParquetMetaData, input: &R) -> Result<()> {
    let (metadata_start, _) = metadata_end(input)?;
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err(damaged("a row group has a negative number of rows"));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let numbers = [start, column.data_page_offset(), column.compressed_size(), column.num_values()];
            let is_negative = numbers.iter().any(|&number| number < 0);
            if is_negative || column_end(column).is_none_or(|end| end > metadata_start) {
                return Err(damaged("a column lies outside of the file"));
            }
        }
    }
    let own = described_end(metadata).unwrap_or(metadata_start) + torn::mark_bytes(input, metadata_start);
    let start = metadata_start.saturating_sub(own);
    if start > 0 && input.get_bytes(start, PARQUET_MAGIC.len())? == PARQUET_MAGIC {
        return Err(joined());
    }
    Ok(())
}

/// Calls `work` and converts a panic into an error, since the `parquet` crate panics on some damaged pages. After an
/// error, state that `work` changes must not be used.
pub fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(damaged("a page cannot be decoded")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_decoder_is_an_error() {
        assert!(contained(|| -> Result<()> { panic!("as decoders do") }).is_err());
        assert_eq!(contained(|| Ok(1)).ok(), Some(1));
    }

    /// Metadata whose schema has `groups` in each other, and `columns` in the innermost.
    fn metadata(groups: usize, columns: u8) -> Vec<u8> {
        let count = groups + usize::from(columns);
        let mut bytes = vec![0x15, 2, 0x19, 0xFC];
        for shift in [0, 7, 14] {
            bytes.push((count >> shift) as u8 & 0x7F | if shift < 14 { 0x80 } else { 0 });
        }
        for group in 1..=groups {
            let children = if group == groups { columns } else { 1 };
            bytes.extend([0x55, children * 2, 0]);
        }
        bytes.extend([0x15, 2, 0].repeat(columns.into()));
        bytes.extend([0x16, 0, 0]);
        bytes
    }

    #[test]
    fn schemas_are_bounded_before_they_are_parsed() {
        assert!(check_metadata(&metadata(1, 9)).is_ok());
        assert!(check_metadata(&metadata(16, 60)).is_ok());
        for schema in [metadata(17, 9), metadata(5000, 9)] {
            let error = check_metadata(&schema).unwrap_err().to_string();
            assert!(error.contains("too many columns or groups"), "{error}");
        }
        let whole = metadata(3, 9);
        assert!((0..whole.len()).all(|len| check_metadata(&whole[..len]).is_err()));
    }
}
