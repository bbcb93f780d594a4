//! The writer of Nitro's trace format.

use super::column::Column;
use super::{VERSION, VERSION_KEY, failed, notes, schema, torn};
use crate::{ErrorKind, ObjectName, Place, Reader, Request, TraceError};
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::ColumnPath;
use bytes::BytesMut;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Most rows of a row group. As a file has fewer than 2¹⁵ groups, it has fewer than 2³² requests.
const GROUP_ROWS_MAX: usize = 1 << 17;
/// Bytes of fingerprints at which a row group is ended.
const GROUP_PRINT_BYTES_MAX: usize = 16 << 20;

/// Writes requests into a Parquet file, a row group at a time. Unless it is [recoverable](Self::recoverable), the file
/// can be read only after [`finish`](Self::finish).
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    time: Column<Int64Type>,
    op: Column<ByteArrayType>,
    object: Column<Int32Type>,
    offset: Column<Int64Type>,
    len: Column<Int64Type>,
    fingerprint: Column<ByteArrayType>,
    block: Column<Int32Type>,
    compressed: Column<Int32Type>,
    class: Column<Int32Type>,
    /// Rows of the present row group.
    rows: usize,
    /// Bytes of fingerprints of the present row group.
    print_bytes: usize,
    requests: u64,
    /// The offset of the end of the last mark (0: none yet); `None` if the file has no marks.
    marked: Option<u64>,
    notes: Vec<KeyValue>,
    /// A buffer in which the fingerprints of a request are concatenated, to save allocations.
    prints: BytesMut,
}

/// The metadata: the version, and the notes.
fn about(notes: &[(&str, &str)]) -> Vec<KeyValue> {
    let all = [(VERSION_KEY, VERSION)].into_iter().chain(notes.iter().copied());
    all.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned())).collect()
}

fn properties(notes: Vec<KeyValue>) -> ParquetResult<WriterProperties> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(GROUP_ROWS_MAX))
        .set_key_value_metadata(Some(notes))
        .set_created_by(format!("nitro-trace {}", env!("CARGO_PKG_VERSION")));
    // Times and addresses rarely repeat, so that differences are shorter than a dictionary.
    for name in ["time", "offset"] {
        let path = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.set_column_dictionary_enabled(ColumnPath::from("fingerprint"), false).build())
}

impl ParquetWriter<File> {
    /// A writer to a new file at `path`, which replaces an existing file; see [`new`](Self::new).
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path, notes: &[(&str, &str)]) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(|error| TraceError::io(error, Place::Whole).in_file(path))?;
        Self::new(file, notes).map_err(|error| error.in_file(path))
    }
}

impl<W: Write + Send> ParquetWriter<W> {
    /// A writer to `output`; `notes` are keys and values for the file's metadata, such as the trace's source.
    ///
    /// # Errors
    /// `output` cannot be written to.
    pub fn new(output: W, notes: &[(&str, &str)]) -> Result<Self, TraceError> {
        let notes = about(notes);
        let make = || SerializedFileWriter::new(output, Arc::new(schema()?), Arc::new(properties(notes.clone())?));
        let file = make().map_err(|error| failed(error, Place::Whole))?;
        Ok(Self {
            file,
            time: Column::new(false),
            op: Column::new(false),
            object: Column::new(false),
            offset: Column::new(false),
            len: Column::new(false),
            fingerprint: Column::new(true),
            block: Column::new(true),
            compressed: Column::new(true),
            class: Column::new(true),
            rows: 0,
            print_bytes: 0,
            requests: 0,
            marked: None,
            notes,
            prints: BytesMut::new(),
        })
    }

    /// Writes a mark after each row group, so that complete row groups can be read even if the writer never finishes.
    #[must_use]
    pub fn recoverable(mut self) -> Self {
        self.marked = Some(0);
        self
    }

    /// Notes what an object is called, once for each object.
    pub fn name_object(&mut self, object: u32, name: &ObjectName) {
        notes::of_object(object, name).iter().for_each(|(key, value)| self.note(key, value));
    }

    /// Adds a note to the file's metadata, under a key that was not used yet.
    pub fn note(&mut self, key: &str, value: &str) {
        let note = KeyValue::new(key.to_owned(), value.to_owned());
        self.notes.push(note.clone());
        self.file.append_key_value_metadata(note);
    }

    /// Requests added so far.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Ends the row group, if it has rows. Smaller groups make the file larger; a file can have at most 32767 groups.
    ///
    /// # Errors
    /// The output cannot be written to.
    pub fn end_group(&mut self) -> Result<(), TraceError> {
        if self.rows == 0 {
            return Ok(());
        }
        self.write_group().map_err(|error| failed(error, Place::Record(self.requests)))
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The request violates the documentation of [`Request`], or the output cannot be written to.
    pub fn write(&mut self, request: &Request) -> Result<(), TraceError> {
        let place = Place::Record(self.requests + 1);
        request.check().map_err(|problem| TraceError::new(ErrorKind::BadRecord, place, problem))?;
        let time = i64::try_from(request.time_ns)
            .map_err(|_| TraceError::new(ErrorKind::BadRecord, place, "time: 2^63 ns or more"))?;
        self.time.push(Some(time));
        self.op.push(Some(ByteArray::from(bytes::Bytes::from_static(request.op.as_str().as_bytes()))));
        self.object.push(Some(request.object as i32));
        self.offset.push(Some(request.offset as i64));
        self.len.push(Some(request.len as i64));
        let has_prints = !request.fingerprints.is_empty();
        self.fingerprint.push(has_prints.then(|| {
            request.fingerprints.iter().for_each(|print| self.prints.extend_from_slice(&print.0));
            ByteArray::from(self.prints.split().freeze())
        }));
        self.block.push(has_prints.then_some(request.block_bytes as i32));
        self.compressed.push(request.compressed_bytes.map(|bytes| bytes as i32));
        self.class.push(request.class.is_classified().then(|| request.class.number().into()));
        self.rows += 1;
        self.requests += 1;
        self.print_bytes += request.fingerprints.len() * super::PRINT_BYTES;
        if self.rows >= GROUP_ROWS_MAX || self.print_bytes >= GROUP_PRINT_BYTES_MAX {
            self.write_group().map_err(|error| failed(error, place))?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> ParquetResult<()> {
        let mut group = self.file.next_row_group()?;
        self.time.write(&mut group)?;
        self.op.write(&mut group)?;
        self.object.write(&mut group)?;
        self.offset.write(&mut group)?;
        self.len.write(&mut group)?;
        self.fingerprint.write(&mut group)?;
        self.block.write(&mut group)?;
        self.compressed.write(&mut group)?;
        self.class.write(&mut group)?;
        group.close()?;
        if let Some(before) = self.marked {
            self.marked = Some(torn::mark(&mut self.file, Some(self.notes.clone()), before)?);
        }
        (self.rows, self.print_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the last row group and the file's end; returns the number of requests.
    ///
    /// # Errors
    /// The output cannot be written to; then the file cannot be read.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        let mut end = || {
            if self.rows > 0 {
                self.write_group()?;
            }
            self.file.finish().map(drop)
        };
        end().map_err(|error| failed(error, Place::Whole))?;
        Ok(self.requests)
    }
}

/// Most objects whose names are noted.
const NAMED_MAX: usize = 1 << 16;

/// Writes all requests of `reader` and the names of their objects, and finishes the file; returns the number of requests.
///
/// # Errors
/// The reader's and the writer's.
pub fn convert<W: Write + Send>(reader: &mut dyn Reader, mut writer: ParquetWriter<W>) -> Result<u64, TraceError> {
    let mut request = Request::default();
    let (mut objects, mut last) = (BTreeSet::new(), None);
    while reader.next(&mut request)? {
        writer.write(&request)?;
        if last != Some(request.object) && objects.len() < NAMED_MAX {
            last = Some(request.object);
            objects.insert(request.object);
        }
    }
    for object in objects {
        writer.name_object(object, &reader.object_name(object));
    }
    writer.finish()
}
