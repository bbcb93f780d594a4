//! The formats of traces, and their recognition.

mod binary;
mod blkparse;
mod columns;
mod detect;
mod disks;
mod fields;
mod fio;
mod fiu;
mod names;
mod records;
mod text;
mod volumes;

pub use blkparse::BlockEvent;
pub use columns::Columns;
pub(crate) use detect::PARQUET_MAGIC;

use crate::parquet::ParquetReader;
use crate::source::{Compression, Window};
use crate::{BadRecords, ErrorKind, ObjectName, Others, Place, Reader, Request, Skipped, TraceError};
use binary::BinaryReader;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use text::{LineParser, TextReader};

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Nitro's own format.
    Parquet,
    /// FIU IODedup, text or `.tsv`, with MD5 digests per sector or per 4 KiB.
    Fiu,
    /// MSR Cambridge.
    Msr,
    /// SYSTOR '17.
    Systor,
    /// CloudPhysics, binary, versions 1 and 2.
    Vscsi,
    /// CloudPhysics, as text.
    CloudPhysicsCsv,
    /// libCacheSim's binary format.
    OracleGeneral,
    /// Tencent CBS.
    Tencent,
    /// Alibaba block traces.
    Alibaba,
    /// UMass, Storage Performance Council.
    Spc,
    /// DiskSim ASCII.
    DiskSim,
    /// The ARC paper's `.lis`.
    Arc,
    /// Text of blkparse.
    Blkparse,
    /// blktrace, binary.
    Blktrace,
    /// fio's log of requests (`write_iolog`), versions 2 and 3.
    Fio,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 15] = [
        Self::Parquet,
        Self::Fiu,
        Self::Msr,
        Self::Systor,
        Self::Vscsi,
        Self::CloudPhysicsCsv,
        Self::OracleGeneral,
        Self::Tencent,
        Self::Alibaba,
        Self::Spc,
        Self::DiskSim,
        Self::Arc,
        Self::Blkparse,
        Self::Blktrace,
        Self::Fio,
    ];

    /// The name by which a user chooses it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Fiu => "fiu",
            Self::Msr => "msr",
            Self::Systor => "systor",
            Self::Vscsi => "vscsi",
            Self::CloudPhysicsCsv => "cloudphysics-csv",
            Self::OracleGeneral => "oracle-general",
            Self::Tencent => "tencent",
            Self::Alibaba => "alibaba",
            Self::Spc => "spc",
            Self::DiskSim => "disksim",
            Self::Arc => "arc",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::Fio => "fio",
        }
    }

    /// The parser of the format's lines, if it is a text format.
    fn parser(self, options: &Options) -> Option<Box<dyn LineParser>> {
        Some(match self {
            Self::Fiu => Box::new(fiu::Fiu),
            Self::Msr => Box::new(volumes::Msr::default()),
            Self::Systor => Box::new(volumes::Systor),
            Self::CloudPhysicsCsv => Box::new(volumes::CloudPhysicsCsv),
            Self::Tencent => Box::new(volumes::Tencent),
            Self::Alibaba => Box::new(volumes::Alibaba),
            Self::Spc => Box::new(volumes::Spc),
            Self::DiskSim => Box::new(disks::DiskSim),
            Self::Arc => Box::new(disks::Arc),
            Self::Blkparse => Box::new(blkparse::Blkparse::new(options.event)),
            Self::Fio => Box::new(fio::Fio::default()),
            Self::Parquet | Self::Vscsi | Self::OracleGeneral | Self::Blktrace => return None,
        })
    }
}

impl FromStr for Format {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        Self::ALL.into_iter().find(|format| format.as_str() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|format| format.as_str()).collect();
            let reason = format_args!("no format {name:?}; there are: {}", names.join(", ")).to_string();
            TraceError::new(ErrorKind::UnknownFormat, Place::Whole, reason)
        })
    }
}

/// Options of reading a trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The format; if `None`, it is recognised by the content.
    pub format: Option<Format>,
    /// Columns that the user describes, instead of a format.
    pub columns: Option<Columns>,
    /// The treatment of bad records.
    pub bad_records: BadRecords,
    /// For blktrace and blkparse: the event that is taken as the request.
    pub event: BlockEvent,
    /// A counter of the file's bytes that have been read, for displays of the progress.
    pub position: Option<Position>,
}

/// The number of bytes of a file that have been read, counted before decompression.
#[derive(Debug, Clone, Default)]
pub struct Position(Arc<AtomicU64>);

impl Position {
    /// The number of bytes so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds bytes that were read.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts the bytes that are read from `input`.
struct Noted<R> {
    input: R,
    position: Option<Position>,
}

impl<R: Read> Read for Noted<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(bytes)?;
        if let Some(position) = &self.position {
            position.add(read as u64);
        }
        Ok(read)
    }
}

/// Whether `path` is a stream, whose content can be read only once: a FIFO, a pipe (also that of a process substitution), a
/// terminal, or another thing that is neither a file nor a block device. What does not exist is none.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        let kind = found.file_type();
        !kind.is_file() && !kind.is_dir() && !kind.is_block_device()
    })
}

/// Reads the trace in `path`, compressed with gzip, zstd, bzip2, xz or not at all. A [stream](is_stream) is read as by
/// [`open_stream`].
///
/// # Errors
/// The file cannot be read, or has no known format. Errors of the reader also name `path`.
pub fn open(path: &Path, options: &Options) -> Result<Box<dyn Reader>, TraceError> {
    let named = |error: TraceError| error.in_file(path);
    let io = |error| named(TraceError::io(error, Place::Whole));
    let mut file = File::open(path).map_err(io)?;
    if is_stream(path) {
        let reader = open_stream(file, options).map_err(named)?;
        return Ok(Box::new(InFile { reader, path: path.to_owned() }));
    }
    let mut beginning = Vec::new();
    file.by_ref().take(detect::PARQUET_MAGIC.len() as u64).read_to_end(&mut beginning).map_err(io)?;
    let parquet = match options {
        Options { columns: Some(_), .. } => false,
        Options { format: Some(format), .. } => *format == Format::Parquet,
        _ => beginning == detect::PARQUET_MAGIC,
    };
    let reader: Box<dyn Reader> = if parquet {
        let reader = ParquetReader::new(file, options.bad_records).map_err(named)?;
        Box::new(reader.noting(options.position.clone()))
    } else {
        file.rewind().map_err(io)?;
        open_stream(file, options).map_err(named)?
    };
    Ok(Box::new(InFile { reader, path: path.to_owned() }))
}

/// Reads a trace from a stream, such as standard input. Parquet cannot be read from a stream, since its index is at the
/// end.
///
/// # Errors
/// The stream cannot be read, or has no known format.
pub fn open_stream(input: impl Read + Send + 'static, options: &Options) -> Result<Box<dyn Reader>, TraceError> {
    let io = |error| TraceError::io(error, Place::Whole);
    let input = Noted { input, position: options.position.clone() };
    let mut window = Window::new(Compression::undo(input).map_err(io)?);
    if let Some(columns) = &options.columns {
        return Ok(Box::new(TextReader::new(window, columns.parser(), options.bad_records)));
    }
    let beginning = window.peek(detect::BEGINNING_BYTES).map_err(io)?;
    let format = of_beginning(beginning, options)?;
    let policy = options.bad_records;
    if let Some(parser) = format.parser(options) {
        return Ok(Box::new(TextReader::new(window, parser, policy)));
    }
    Ok(match format {
        Format::Vscsi => {
            let version = records::Vscsi::of(beginning).unwrap_or(records::Vscsi::V1);
            Box::new(BinaryReader::new(window, version, policy))
        }
        Format::OracleGeneral => Box::new(BinaryReader::new(window, records::OracleGeneral, policy)),
        Format::Blktrace => {
            let reason = "not blktrace, or not version 7 of it";
            let unknown = TraceError::new(ErrorKind::UnknownFormat, Place::Whole, reason);
            let decoder = records::Blktrace::of(beginning, options.event).ok_or(unknown)?;
            Box::new(BinaryReader::new(window, decoder, policy))
        }
        _ => {
            let reason = "Parquet is read from an uncompressed file only, not from a stream";
            return Err(TraceError::new(ErrorKind::Parquet, Place::Whole, reason));
        }
    })
}

fn of_beginning(beginning: &[u8], options: &Options) -> Result<Format, TraceError> {
    let unknown = || TraceError::new(ErrorKind::UnknownFormat, Place::Whole, "no known format fits its beginning");
    match options.format {
        Some(Format::Fio) => detect::is_fio(beginning).map(|_| Format::Fio),
        Some(format) => Ok(format),
        None => detect::format(beginning, options)?.ok_or_else(unknown),
    }
}

/// The format in which [`open`] would read `path`; `None` for columns that the user describes, and for a
/// [stream](is_stream), which is not touched.
///
/// # Errors
/// The file cannot be read, or has no known format.
pub fn recognise(path: &Path, options: &Options) -> Result<Option<Format>, TraceError> {
    if options.columns.is_some() || is_stream(path) {
        return Ok(None);
    }
    let io = |error| TraceError::io(error, Place::Whole).in_file(path);
    let mut window = Window::new(File::open(path).and_then(Compression::undo).map_err(io)?);
    let beginning = window.peek(detect::BEGINNING_BYTES).map_err(io)?;
    of_beginning(beginning, options).map(Some).map_err(|error| error.in_file(path))
}

/// A reader that adds the file's path to errors.
struct InFile {
    reader: Box<dyn Reader>,
    path: PathBuf,
}

impl Reader for InFile {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        self.reader.next(request).map_err(|error| error.in_file(&self.path))
    }

    fn skipped(&self) -> Skipped {
        let mut skipped = self.reader.skipped();
        skipped.first = skipped.first.into_iter().map(|error| error.in_file(&self.path)).collect();
        skipped
    }

    fn others(&self) -> Others {
        self.reader.others()
    }

    fn object_name(&self, object: u32) -> ObjectName {
        self.reader.object_name(object)
    }
}
