//! Protection from damaged files.

use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::metadata::ParquetMetaData;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("damaged: {what}"))
}

/// Checks that every column lies within a file of `file_bytes`. The `parquet` crate does not check that.
pub fn check(metadata: &ParquetMetaData, file_bytes: u64) -> Result<()> {
    for group in metadata.row_groups() {
        if group.num_rows() < 0 {
            return Err(damaged("a row group has a negative number of rows"));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let numbers = [start, column.data_page_offset(), column.compressed_size(), column.num_values()];
            let [start, _, len, _] = numbers.map(|number| u64::try_from(number).ok());
            let end = start.zip(len).and_then(|(start, len)| start.checked_add(len));
            if numbers.iter().any(|&number| number < 0) || end.is_none_or(|end| end > file_bytes) {
                return Err(damaged("a column lies outside of the file"));
            }
        }
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
}
