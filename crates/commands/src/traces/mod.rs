//! Traces as arguments of commands.

mod file;
mod input;

pub use input::{Input, is_read_once};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use nitro_console::error::Error;
use nitro_trace::format::{BlockEvent, Columns};
use nitro_trace::{BadRecords, ErrorKind, Format, Options, Position, SameDisks, TraceError};

/// How to read traces.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Reading")]
pub struct ReadArgs {
    /// Format of the trace [default: recognised by its content]
    #[arg(long, value_name = "FORMAT", value_parser = format, conflicts_with = "columns")]
    trace_format: Option<Format>,
    /// The columns of a table: ROLE=NUMBER[:UNIT],... with the roles time, op, offset, len, object, fingerprint,
    /// compressed
    ///
    /// Columns count from 0. Units of time: s (default), ms, us, ns, filetime; of op: words (default), read0 (0 reads,
    /// 1 writes), read1, scsi; of offset, len and compressed: bytes (default), sectors, kib, 4kib, or a number of
    /// bytes; of fingerprint: md5 (default), 160. Other settings: sep=comma|tab|space|semicolon|pipe, skip=LINES.
    #[arg(long, value_name = "MAP", value_parser = columns)]
    pub columns: Option<Columns>,
    /// What to do with records that cannot be read
    #[arg(long, value_enum, default_value_t = BadRecordsName::Fail, value_name = "WHAT")]
    bad_records: BadRecordsName,
    /// For blktrace and blkparse: event that counts as a request
    #[arg(long, value_enum, default_value_t = EventName::Queued, value_name = "EVENT")]
    event: EventName,
    /// Which objects of several traces are the same disk
    ///
    /// named: those that the traces name the same. Host and disk (MSR), volume numbers (Alibaba, Tencent, SYSTOR) and the
    /// identity of recorded volumes count in all files; device numbers (FIU, blkparse, blktrace), paths (fio) and
    /// words (--columns) count in the parts of one trace, whose paths differ only in a number between dots (web.1.blkparse,
    /// web.2.blkparse.gz). numbered: names and numbers count in all files. file: each file has disks of its own.
    #[arg(long, value_enum, default_value_t = SameDisksName::Named, value_name = "WHICH")]
    same_disks: SameDisksName,
    /// Skip records that are identical to another one of the same time
    #[arg(long)]
    drop_repeats: bool,
}

/// What to do with records that cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum BadRecordsName {
    /// Stop at the first one
    #[default]
    Fail,
    /// Skip and count them
    Skip,
}

/// Which objects of several traces are the same disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum SameDisksName {
    /// Those that the traces name the same
    #[default]
    Named,
    /// Those with the same name or number in any file
    Numbered,
    /// Those of the same file only
    File,
}

impl From<SameDisksName> for SameDisks {
    fn from(name: SameDisksName) -> Self {
        match name {
            SameDisksName::Named => Self::Named,
            SameDisksName::Numbered => Self::Numbered,
            SameDisksName::File => Self::OfFile,
        }
    }
}

/// An event of the block layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum EventName {
    /// The request was queued
    #[default]
    Queued,
    /// The request was issued to the device
    Issued,
    /// The device completed the request
    Completed,
}

impl From<EventName> for BlockEvent {
    fn from(name: EventName) -> Self {
        match name {
            EventName::Queued => Self::Queued,
            EventName::Issued => Self::Issued,
            EventName::Completed => Self::Completed,
        }
    }
}

impl ReadArgs {
    /// The options in the form of crate `trace`.
    fn options(&self, position: &Position) -> Options {
        Options {
            format: self.trace_format,
            columns: self.columns.clone(),
            bad_records: match self.bad_records {
                BadRecordsName::Fail => BadRecords::Fatal,
                BadRecordsName::Skip => BadRecords::Skip,
            },
            event: self.event.into(),
            position: Some(position.clone()),
        }
    }
}

/// The options of [`ReadArgs`] as they were given, for a command that prints another one. Both are flattened into its arguments.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions(Vec<String>);

impl ReadOptions {
    /// The options as words of a command line.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl Args for ReadOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for ReadOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let own = ReadArgs::augment_args(Command::new("read"));
        let mut words = Vec::new();
        for option in own.get_arguments() {
            let id = option.get_id().as_str();
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                continue;
            }
            words.extend(option.get_long().map(|name| format!("--{name}")));
            if option.get_action().takes_values() {
                let values = matches.get_raw(id).into_iter().flatten();
                words.extend(values.map(|value| value.to_string_lossy().into_owned()));
            }
        }
        Ok(Self(words))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn format(name: &str) -> Result<Format, String> {
    name.parse().map_err(|e: TraceError| e.to_string())
}

fn columns(map: &str) -> Result<Columns, String> {
    map.parse().map_err(|e: TraceError| e.to_string())
}

/// The error of a trace, with a hint.
#[must_use]
pub fn refused(error: &TraceError) -> Error {
    let way_out = match error.kind {
        ErrorKind::Io => "check the path, its permissions, and whether the file is complete",
        ErrorKind::UnknownFormat => {
            "name the format with --trace-format, or describe the table's columns with --columns"
        }
        ErrorKind::Version => "write or convert it in a version that is read, or describe its columns with --columns",
        ErrorKind::BadRecord => "--bad-records skip leaves such records out; is it the right --trace-format?",
        ErrorKind::Parquet => {
            "check whether the file is complete, and was written by `nitro-lab trace` or `nitro serve --record`"
        }
        ErrorKind::Setting => "see --help for what can be chosen",
    };
    Error::told(&error.to_string()).or(way_out)
}
