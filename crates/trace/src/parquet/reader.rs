//! The reader of Nitro's trace format.

use super::column::Column;
use super::notes;
use super::pages::{Input, Pages};
use super::torn::Mended;
use super::{COLUMNS, PRINT_BYTES, VERSION, VERSION_KEY, damage, failed};
use crate::format::{PARQUET_MAGIC, Position};
use crate::reader::{BadRecords, Reader, Skipped};
use crate::{ErrorKind, ObjectName, Op, Place, Problem, Request, TraceError};
use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use ::parquet::file::reader::ChunkReader;
use hashbrown::HashMap;
use nitro_units::{ClassId, Fingerprint};
use std::sync::Arc;

/// Most rows that are decoded at a time.
const BATCH_ROWS: u64 = 4096;

/// Most fingerprints of a request: one for each 4 KiB of 4 GiB.
const PRINTS_MAX: usize = 1 << 20;

/// A column of the file, in the row group that is being read.
struct Source<T: DataType> {
    /// The column's number in the file; `None` if the file does not have it.
    number: Option<usize>,
    reader: Option<(ColumnReaderImpl<T>, Pages)>,
    rows: Column<T>,
}

impl<T: DataType> Source<T> {
    fn new(number: Option<usize>, optional: bool) -> Self {
        Self { number, reader: None, rows: Column::new(optional) }
    }

    fn enter(&mut self, input: &Arc<dyn Input>, group: &RowGroupMetaData) -> ParquetResult<()> {
        let Some(number) = self.number else { return Ok(()) };
        // The page of the former row group is not needed any more.
        (self.reader, self.rows) = (None, Column::new(self.rows.is_optional()));
        let column = group.columns().get(number);
        let column = column.filter(|column| column.column_type() == T::get_physical_type());
        let column = column.ok_or_else(|| ParquetError::General("a row group has other columns".to_owned()))?;
        let are_prints = column.column_path().parts() == ["fingerprint"];
        let pages = Pages::new(Arc::clone(input), column, are_prints);
        let reader = ColumnReaderImpl::new(column.column_descr_ptr(), Box::new(pages.clone()));
        self.reader = Some((reader, pages));
        Ok(())
    }

    /// How many of `rows` rows can be read without loading more than one page.
    fn within_page(&self, rows: u64) -> ParquetResult<u64> {
        let Some((_, pages)) = &self.reader else { return Ok(rows) };
        match pages.rows_ahead()?.min(rows) {
            0 => Err(ParquetError::General("a column has fewer rows than its row group".to_owned())),
            rows => Ok(rows),
        }
    }

    fn read(&mut self, rows: usize) -> ParquetResult<()> {
        let Some((reader, pages)) = &mut self.reader else { return Ok(()) };
        self.rows.read(reader, rows)?;
        pages.read(rows as u64);
        Ok(())
    }

    fn take(&mut self) -> Option<&T::T> {
        if self.number.is_some() { self.rows.take() } else { None }
    }
}

/// A reader of Parquet files that [`ParquetWriter`](super::ParquetWriter) or other programs have written. Unknown
/// columns are ignored; all columns except `time`, `op`, `offset` and `length` may be missing.
pub struct ParquetReader {
    input: Arc<dyn Input>,
    metadata: ParquetMetaData,
    is_torn: bool,
    names: HashMap<u32, ObjectName>,
    time: Source<Int64Type>,
    op: Source<ByteArrayType>,
    object: Source<Int32Type>,
    offset: Source<Int64Type>,
    len: Source<Int64Type>,
    fingerprint: Source<ByteArrayType>,
    block: Source<Int32Type>,
    compressed: Source<Int32Type>,
    class: Source<Int32Type>,
    next_group: usize,
    /// Rows of the row group that are not decoded yet.
    group_rows: u64,
    /// Rows that were decoded and not returned yet.
    batch_rows: u64,
    record: u64,
    policy: BadRecords,
    skipped: Skipped,
    ended: bool,
    position: Option<Position>,
}

fn columns(metadata: &ParquetMetaData) -> ParquetResult<Found> {
    let metadata = metadata.file_metadata();
    let version = metadata.key_value_metadata().into_iter().flatten().find(|item| item.key == VERSION_KEY);
    if let Some(version) = version.and_then(|item| item.value.as_deref()).filter(|&version| version != VERSION) {
        return Err(ParquetError::General(format!(
            "a trace of version {version}; only version {VERSION} is supported"
        )));
    }
    let mut found = [(None, false); COLUMNS.len()];
    let schema = metadata.schema_descr();
    for (number, column) in schema.columns().iter().enumerate() {
        let ours = COLUMNS.iter().position(|(name, ..)| column.path().parts() == [*name]);
        let Some(ours) = ours else { continue };
        let (name, physical, ..) = COLUMNS[ours];
        if column.physical_type() != physical || column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return Err(ParquetError::General(format!("column {name} is of another type")));
        }
        found[ours] = (Some(number), column.max_def_level() == 1);
    }
    for needed in ["time", "op", "offset", "length"] {
        let ours = COLUMNS.iter().position(|(name, ..)| *name == needed);
        if ours.is_none_or(|ours| found[ours].0.is_none()) {
            return Err(ParquetError::General(format!("not a trace: it has no column {needed}")));
        }
    }
    Ok(found)
}

/// The known columns of a file: their numbers, and whether rows may lack a value.
type Found = [(Option<usize>, bool); COLUMNS.len()];

/// Whether a file ends with Parquet's magic.
fn has_end(input: &impl ChunkReader) -> ParquetResult<bool> {
    let Some(start) = input.len().checked_sub(PARQUET_MAGIC.len() as u64) else { return Ok(true) };
    Ok(input.get_bytes(start, PARQUET_MAGIC.len())? == PARQUET_MAGIC)
}

/// An opened file: its bytes, its metadata, and its known columns.
type Opened = (Arc<dyn Input>, ParquetMetaData, Found);

fn open(input: impl ChunkReader + 'static) -> ParquetResult<Opened> {
    damage::check_end(&input)?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&input)?;
    damage::check(&metadata, &input)?;
    let columns = columns(&metadata)?;
    Ok((Arc::new(input), metadata, columns))
}

impl ParquetReader {
    /// A reader of `input`: a file, or `Bytes`. A [recoverable](super::ParquetWriter::recoverable) file whose writer
    /// was killed is read up to its last complete row group.
    ///
    /// # Errors
    /// The input is not Parquet or damaged, or lacks required columns.
    pub fn new(input: impl ChunkReader + 'static, policy: BadRecords) -> Result<Self, TraceError> {
        let open = || {
            if has_end(&input)? {
                return open(input).map(|file| (file, false));
            }
            match Mended::new(input)? {
                Some(mended) => open(mended).map(|file| (file, true)),
                None => Err(ParquetError::General("not Parquet, or its end is missing".to_owned())),
            }
        };
        let ((input, metadata, columns), is_torn) =
            damage::contained(open).map_err(|error| failed(error, Place::Whole))?;
        let names = notes::names(metadata.file_metadata().key_value_metadata());
        let [time, op, object, offset, len, fingerprint, block, compressed, class] = columns;
        Ok(Self {
            input,
            metadata,
            is_torn,
            names,
            time: Source::new(time.0, time.1),
            op: Source::new(op.0, op.1),
            object: Source::new(object.0, object.1),
            offset: Source::new(offset.0, offset.1),
            len: Source::new(len.0, len.1),
            fingerprint: Source::new(fingerprint.0, fingerprint.1),
            block: Source::new(block.0, block.1),
            compressed: Source::new(compressed.0, compressed.1),
            class: Source::new(class.0, class.1),
            next_group: 0,
            group_rows: 0,
            batch_rows: 0,
            record: 0,
            policy,
            skipped: Skipped::default(),
            ended: false,
            position: None,
        })
    }

    /// Whether the file's end is missing, since its writer was killed.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// The value of `key` in the file's metadata.
    #[must_use]
    pub fn note(&self, key: &str) -> Option<&str> {
        self.notes().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// The keys and values in the file's metadata, except the format's version.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.metadata.file_metadata().key_value_metadata();
        let told = all.into_iter().flatten().filter(|item| item.key != VERSION_KEY);
        told.filter_map(|item| Some((item.key.as_str(), item.value.as_deref()?)))
    }

    /// Counts the bytes that have been read in `position`, a row group at a time.
    pub(crate) fn noting(mut self, position: Option<Position>) -> Self {
        self.position = position;
        self
    }

    /// Decodes the next rows; `false` if there are none.
    fn read_batch(&mut self) -> ParquetResult<bool> {
        while self.group_rows == 0 {
            let Some(group) = self.metadata.row_groups().get(self.next_group) else { return Ok(false) };
            self.next_group += 1;
            if let Some(position) = &self.position {
                position.add(u64::try_from(group.compressed_size()).unwrap_or(0));
            }
            let rows = u64::try_from(group.num_rows());
            self.group_rows = rows.map_err(|_| ParquetError::General("a negative number of rows".to_owned()))?;
            let input = &self.input;
            self.time.enter(input, group)?;
            self.op.enter(input, group)?;
            self.object.enter(input, group)?;
            self.offset.enter(input, group)?;
            self.len.enter(input, group)?;
            self.fingerprint.enter(input, group)?;
            self.block.enter(input, group)?;
            self.compressed.enter(input, group)?;
            self.class.enter(input, group)?;
        }
        let rows = self.time.within_page(self.group_rows.min(BATCH_ROWS))?;
        let rows = self.op.within_page(rows)?;
        let rows = self.object.within_page(rows)?;
        let rows = self.offset.within_page(rows)?;
        let rows = self.len.within_page(rows)?;
        let rows = self.fingerprint.within_page(rows)?;
        let rows = self.block.within_page(rows)?;
        let rows = self.compressed.within_page(rows)?;
        self.batch_rows = self.class.within_page(rows)?;
        self.group_rows -= self.batch_rows;
        let rows = self.batch_rows as usize;
        self.time.read(rows)?;
        self.op.read(rows)?;
        self.object.read(rows)?;
        self.offset.read(rows)?;
        self.len.read(rows)?;
        self.fingerprint.read(rows)?;
        self.block.read(rows)?;
        self.compressed.read(rows)?;
        self.class.read(rows).map(|()| true)
    }

    /// Fills `request` from the next row. Takes the values of all columns even from a bad row, to stay synchronized.
    fn row(&mut self, request: &mut Request) -> Result<(), Problem> {
        let time = self.time.take().copied();
        let op = self.op.take().and_then(|word| Op::from_word(word.data()));
        let object = self.object.take().copied();
        let offset = self.offset.take().copied();
        let len = self.len.take().copied();
        let block = self.block.take().copied();
        request.compressed_bytes = self.compressed.take().map(|&bytes| bytes as u32);
        let class = self.class.take().map_or(0, |&class| class as u32);
        let prints = self.fingerprint.take().map_or(&[][..], |prints| prints.data());
        let unsigned = |value: Option<i64>, name| {
            value.and_then(|value| u64::try_from(value).ok()).ok_or(Problem::new(name, "missing or negative"))
        };
        if !prints.len().is_multiple_of(PRINT_BYTES) {
            return Err(Problem::new("fingerprint", "not a multiple of 20 bytes"));
        }
        let (prints, _) = prints.as_chunks::<PRINT_BYTES>();
        if prints.len() > PRINTS_MAX {
            return Err(Problem::new("fingerprint", "more than 1048576"));
        }
        request.fingerprints.extend(prints.iter().map(|&print| Fingerprint(print)));
        request.block_bytes = if prints.is_empty() { 0 } else { block.unwrap_or(0) as u32 };
        request.time_ns = unsigned(time, "time")?;
        request.op = op.ok_or(Problem::new("op", "not an operation"))?;
        let class = u8::try_from(class).ok().and_then(ClassId::new);
        request.class = class.ok_or(Problem::new("class", "above 31"))?;
        request.object = object.unwrap_or(0) as u32;
        request.place(unsigned(offset, "offset")?, 1, unsigned(len, "length")?, 1)
    }

    fn advance(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        loop {
            if self.batch_rows == 0 {
                let place = Place::Record(self.record + 1);
                if !damage::contained(|| self.read_batch()).map_err(|error| failed(error, place))? {
                    return Ok(false);
                }
            }
            self.batch_rows -= 1;
            self.record += 1;
            request.clear();
            match self.row(request) {
                Ok(()) => return Ok(true),
                Err(problem) => {
                    let error = TraceError::new(ErrorKind::BadRecord, Place::Record(self.record), problem);
                    self.skipped.note(self.policy, error)?;
                }
            }
        }
    }
}

impl Reader for ParquetReader {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        let result = self.advance(request);
        self.ended = !matches!(result, Ok(true));
        result
    }

    fn skipped(&self) -> Skipped {
        self.skipped.clone()
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.names.get(&object).cloned().unwrap_or_default()
    }
}
