//! Logging to standard error.
//!
//! A server's log goes through a bounded queue to a thread of its own, so that a stopped terminal, or a pipe that no
//! process reads, does not delay requests. Lines for which the queue has no room are dropped and counted. While clients are
//! served, each place in the program logs at most ten times in 10 s (`limit`).

mod limit;
mod repeats;

pub use limit::{EACH, limit, lines_limited};
pub use repeats::Repeats;

use crate::error::Error;
use crate::text::escaped_lines;
use limit::Limited;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Format;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Most lines that wait to be written.
const LINES_MAX: usize = 1024;
/// Longest time that the end of the process waits for lines to be written.
const END_MAX: Duration = Duration::from_secs(1);

/// A message to the writing thread.
enum Message {
    Line(Vec<u8>),
    /// Is answered when all lines before it are written.
    Written(SyncSender<()>),
}

static QUEUE: OnceLock<SyncSender<Message>> = OnceLock::new();
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain lines.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging the events that `filter` selects; with `queued`, through the queue.
///
/// # Errors
/// The filter is invalid, or the thread cannot be started.
pub fn start(filter: &str, format: LogFormat, queued: bool) -> Result<(), Error> {
    let filter = EnvFilter::try_new(filter).map_err(|e| {
        Error::new(format!("--log {filter}"), e).or("give error, warn, info, debug or trace, or a filter by target")
    })?;
    let writer = if queued {
        start_thread()?;
        BoxMakeWriter::new(|| Queued)
    } else {
        BoxMakeWriter::new(io::stderr)
    };
    // Standard error may be a closed terminal: lines that cannot be written are lost, without an error.
    let builder = tracing_subscriber::fmt().log_internal_errors(false);
    let builder = builder.with_env_filter(filter).with_writer(writer).with_ansi(false);
    match format {
        LogFormat::Text => {
            let inner = Format::default().with_ansi(false).with_target(false);
            builder.event_format(Limited { inner, format }).init();
        }
        LogFormat::Json => builder.json().map_event_format(|inner| Limited { inner, format }).init(),
    }
    Ok(())
}

fn start_thread() -> Result<(), Error> {
    let (queue, messages) = mpsc::sync_channel(LINES_MAX);
    let write = move || {
        for message in messages {
            let _ = match message {
                Message::Line(line) => io::stderr().write_all(&line),
                Message::Written(answer) => answer.try_send(()).map_err(io::Error::other),
            };
        }
    };
    let started = thread::Builder::new().name("nitro-log".to_owned()).spawn(write);
    started.map_err(|e| Error::new("the thread of the log", e).or("raise the limit of threads"))?;
    QUEUE.get_or_init(|| queue);
    Ok(())
}

/// Standard error, through the queue if there is one. Each call writes whole lines.
struct Queued;

impl Write for Queued {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => {
                if queue.try_send(Message::Line(line.to_vec())).is_err() {
                    LEFT_OUT.fetch_add(1, Ordering::Relaxed);
                }
                Ok(line.len())
            }
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a line to standard error, in order with the lines of the log, with control characters escaped.
pub fn print(text: std::fmt::Arguments<'_>) {
    let _ = Queued.write_all((escaped_lines(&text.to_string()) + "\n").as_bytes());
}

/// Number of lines that were dropped because the queue was full.
pub fn lines_left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Waits until all queued lines are written, at most `END_MAX`. To be called before the process ends.
pub fn end() {
    let Some(queue) = QUEUE.get() else { return };
    let (answer, answered) = mpsc::sync_channel(1);
    if queue.try_send(Message::Written(answer)).is_ok() {
        let _ = answered.recv_timeout(END_MAX);
    }
}
