//! The values of a column in some rows, in the form of the `parquet` crate.

use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::DataType;
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::writer::SerializedRowGroupWriter;
use std::io::Write;

/// The values of some rows, and which of the rows have one.
pub struct Column<T: DataType> {
    /// The values of the rows that have one.
    values: Vec<T::T>,
    /// For each row 1 if it has a value, otherwise 0. Empty if every row must have one.
    levels: Vec<i16>,
    optional: bool,
    /// Rows and values taken so far, when reading.
    row: usize,
    value: usize,
}

impl<T: DataType> Column<T> {
    /// A column without rows.
    pub fn new(optional: bool) -> Self {
        Self { values: Vec::new(), levels: Vec::new(), optional, row: 0, value: 0 }
    }

    /// Whether rows may lack a value.
    pub const fn is_optional(&self) -> bool {
        self.optional
    }

    /// Adds a row.
    pub fn push(&mut self, value: Option<T::T>) {
        if self.optional {
            self.levels.push(value.is_some().into());
        }
        self.values.extend(value);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
        (self.row, self.value) = (0, 0);
    }

    /// Writes all rows as the next column of `group`, and removes them.
    pub fn write<W: Write + Send>(&mut self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        let column = group.next_column()?;
        let mut column =
            column.ok_or_else(|| ParquetError::General("the schema has fewer columns than are written".to_owned()))?;
        let levels = self.optional.then_some(&self.levels[..]);
        column.typed::<T>().write_batch(&self.values, levels, None)?;
        column.close()?;
        self.clear();
        Ok(())
    }

    /// Replaces the rows with the next `rows` of `source`.
    pub fn read(&mut self, source: &mut ColumnReaderImpl<T>, rows: usize) -> Result<()> {
        self.clear();
        let mut missing = rows;
        while missing > 0 {
            let levels = self.optional.then_some(&mut self.levels);
            let (records, _, _) = source.read_records(missing, levels, None, &mut self.values)?;
            if records == 0 || records > missing {
                return Err(ParquetError::General("a column has fewer rows than its row group".to_owned()));
            }
            missing -= records;
        }
        let values = if self.optional { self.levels.iter().filter(|&&level| level == 1).count() } else { rows };
        if values != self.values.len() {
            return Err(ParquetError::General(
                "a column has another number of values than its rows require".to_owned(),
            ));
        }
        Ok(())
    }

    /// Takes the value of the next row. [`read`](Self::read) has checked the number of rows.
    pub fn take(&mut self) -> Option<&T::T> {
        self.row += 1;
        if self.optional && self.levels.get(self.row - 1) != Some(&1) {
            return None;
        }
        self.value += 1;
        self.values.get(self.value - 1)
    }
}
