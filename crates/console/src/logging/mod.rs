//! Logging to standard error.
//!
//! A server's log goes through a thread of its own and a bounded queue: a terminal that is stopped, or a pipe that nobody
//! reads, keeps no request waiting. What the queue has no room for is counted and left out.

mod repeats;

pub use repeats::Repeats;

use crate::error::Error;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Lines that wait to be written.
const LINES_MAX: usize = 1024;
/// How long the end of the process waits for lines that were not written yet.
const END_MAX: Duration = Duration::from_secs(1);

/// What the writing thread gets.
enum Message {
    Line(Vec<u8>),
    /// To be answered when all lines before it are written.
    Written(SyncSender<()>),
}

static QUEUE: OnceLock<SyncSender<Message>> = OnceLock::new();
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Plain lines.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging what `filter` lets through; with `queued`, by way of the queue.
///
/// # Errors
/// The filter cannot be read, or no thread can be started.
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
    // Standard error may be a terminal that was closed: what cannot be written there is lost, and nothing else happens.
    let builder = tracing_subscriber::fmt().log_internal_errors(false);
    let builder = builder.with_env_filter(filter).with_writer(writer).with_ansi(false);
    match format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().init(),
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
    started.map_err(|e| Error::new("the log's thread", e).or("raise the limit of threads"))?;
    QUEUE.get_or_init(|| queue);
    Ok(())
}

/// Standard error, by way of the queue if there is one. Each call writes whole lines.
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

/// Prints a line to standard error, in the order of the log's lines.
pub fn print(text: std::fmt::Arguments<'_>) {
    let _ = Queued.write_all(format!("{text}\n").as_bytes());
}

/// Lines that were left out since nobody took them.
pub fn lines_left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Waits for what was logged to be written, [`END_MAX`] at most. To be called before the process ends.
pub fn end() {
    let Some(queue) = QUEUE.get() else { return };
    let (answer, answered) = mpsc::sync_channel(1);
    if queue.try_send(Message::Written(answer)).is_ok() {
        let _ = answered.recv_timeout(END_MAX);
    }
}
