//! Tables, CSV and JSON.

use crate::error::Error;
use crate::screen;
use crate::size::Size;
use crate::text::{escaped, escaped_json, escaped_lines};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// The format of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Aligned text for people.
    #[default]
    Table,
    /// One JSON document, or one per line.
    Json,
    /// One header line, then values; new versions add columns only at the end.
    Csv,
}

impl Format {
    /// A size in bytes: with a unit for people, otherwise the number.
    #[must_use]
    pub fn size(self, bytes: u64) -> String {
        if self == Self::Table { Size(bytes).to_string() } else { bytes.to_string() }
    }
}

/// Least width in characters of the columns of tables that are printed row by row.
const FIXED_WIDTH_MIN: usize = 8;

/// A table: column names and rows.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Names of the columns, in their order.
    pub columns: Vec<&'static str>,
    /// Rows, each with a cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: impl Into<Vec<&'static str>>) -> Self {
        Self { columns: columns.into(), rows: Vec::new() }
    }

    /// A table of one row.
    pub fn of_one(columns: impl Into<Vec<&'static str>>, row: Vec<String>) -> Self {
        let mut table = Self::new(columns);
        table.row(row);
        table
    }

    /// Adds a row.
    pub fn row(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// The table in columns of the least sufficient width: the first column is aligned to the left, the others to the
    /// right.
    pub fn aligned(&self) -> String {
        self.aligned_from(0)
    }

    /// The table in columns of a least width, so that the columns of successive tables are aligned with each other.
    pub fn fixed(&self) -> String {
        self.aligned_from(FIXED_WIDTH_MIN)
    }

    fn aligned_from(&self, width_min: usize) -> String {
        let rows: Vec<Vec<Cow<'_, str>>> =
            self.rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
        let width = |i: usize| {
            let cells = rows.iter().map(|row| row[i].chars().count());
            cells.chain([self.columns[i].chars().count(), width_min]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut out = String::new();
            for (i, (cell, &width)) in cells.zip(&widths).enumerate() {
                out += &if i == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
            }
            out.truncate(out.trim_end().len());
            out + "\n"
        };
        let mut out = line(&mut self.columns.iter().copied());
        rows.iter().for_each(|row| out += &line(&mut row.iter().map(|cell| &**cell)));
        out
    }

    /// CSV (RFC 4180, with line feeds), with the header line if `header`.
    pub fn csv(&self, header: bool) -> String {
        let mut out = String::new();
        if header {
            out += &self.columns.join(",");
            out.push('\n');
        }
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(|cell| quoted(cell)).collect();
            out += &cells.join(",");
            out.push('\n');
        }
        out
    }
}

fn quoted(cell: &str) -> String {
    if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}

/// Prints to standard output, with control characters escaped. Returns whether the reader has closed it, so that loops can end.
pub fn print(text: &str) -> Result<Listening, Error> {
    let mut out = io::stdout().lock();
    written(out.write_all(escaped_lines(text).as_bytes()).and_then(|()| out.flush()))
}

fn written(done: io::Result<()>) -> Result<Listening, Error> {
    match done {
        Ok(()) => Ok(Listening::Yes),
        // For example with `| head`.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(Listening::No),
        // A terminal that was closed meanwhile.
        Err(_) if pause(Duration::ZERO).is_ok_and(|listening| listening == Listening::No) => Ok(Listening::No),
        Err(e) => Err(Error::new("standard output", e)),
    }
}

/// Prints a text in place of the one that was printed before: on a terminal from its upper left corner on, as much as there is room
/// for, otherwise behind an empty line.
pub fn redraw(text: &str) -> Result<Listening, Error> {
    let (mut out, text) = (io::stdout().lock(), &escaped_lines(text));
    let frame = match out.is_terminal() {
        true => format!("\x1b[H\x1b[J{}", cut(text, screen::size().1.into())),
        false => format!("{text}\n"),
    };
    written(out.write_all(frame.as_bytes()).and_then(|()| out.flush()))
}

/// The lines that fit a screen, with a note of how many are left out. The last row is left for the cursor.
fn cut(text: &str, rows: usize) -> String {
    let (lines, room) = (text.lines().count(), rows.saturating_sub(1));
    if lines <= room {
        return text.to_owned();
    }
    let shown = room.saturating_sub(1);
    let kept: String = text.lines().take(shown).map(|line| format!("{line}\n")).collect();
    format!("{kept}({} more lines)\n", lines - shown)
}

/// Waits before the next output. Returns sooner if standard output is not read any more: its pipe or its terminal was closed.
pub fn pause(duration: Duration) -> Result<Listening, Error> {
    let until = Instant::now() + duration;
    let out = io::stdout();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // Whatever is asked for, the kernel reports a closed other end.
        let mut ends = [PollFd::new(&out, PollFlags::empty())];
        let timeout = Timespec::try_from(left).map_err(|e| Error::new("standard output", e))?;
        match rustix::event::poll(&mut ends, Some(&timeout)) {
            Ok(0) => return Ok(Listening::Yes),
            Ok(_) => return Ok(Listening::No),
            Err(Errno::INTR) => {}
            Err(error) => return Err(Error::new("standard output", error)),
        }
    }
}

/// Prints a list: `all` as JSON, or `table`, which has the same entries.
pub fn print_list(format: Format, all: &impl Serialize, table: &Table) -> Result<(), Error> {
    let text = match format {
        Format::Json => json_pretty(all)?,
        Format::Csv => table.csv(true),
        Format::Table => table.aligned(),
    };
    print(&text).map(drop)
}

/// Prints a line to standard error. Errors are ignored.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => { $crate::logging::print(format_args!($($text)*)) };
}
pub use crate::note;

/// Whether standard output is still read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listening {
    /// The text was written.
    Yes,
    /// The reader has closed the pipe, as `head` does.
    No,
}

/// A value as JSON in one line, with a line feed.
pub fn json_line(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value).map(|line| escaped_json(&line) + "\n").map_err(|e| Error::new("JSON", e))
}

/// A value as JSON in several lines, with a line feed at the end.
pub fn json_pretty(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map(|text| escaped_json(&text) + "\n").map_err(|e| Error::new("JSON", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_csv_is_quoted() {
        let mut table = Table::new(["name", "n"]);
        table.row(vec!["a,\"b\"".into(), "10".into()]);
        table.row(vec!["c".into(), "7".into()]);
        assert_eq!(table.aligned(), "name    n\na,\"b\"  10\nc       7\n");
        table.row(vec!["d\n\u{1b}[2J".into(), "0".into()]);
        assert!(table.aligned().ends_with("d\\u{a}\\u{1b}[2J   0\n"), "{}", table.aligned());
        table.rows.pop();
        assert_eq!(table.csv(true), "name,n\n\"a,\"\"b\"\"\",10\nc,7\n");
    }
}
