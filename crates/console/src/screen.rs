//! The terminal's size, and text that fits it.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::termios::tcgetwinsize;
use std::io;
use std::time::Duration;

/// The number of columns and rows that is assumed if the size of the terminal is not known.
pub const USUAL: (u16, u16) = (80, 24);
/// Text is not wrapped to fewer columns than this beside its indentation.
const WIDTH_MIN: usize = 20;

/// Columns and rows of the terminal; without a terminal, `COLUMNS` and `LINES` of the environment.
#[must_use]
pub fn size() -> (u16, u16) {
    if let Some(size) = of_terminal() {
        return size;
    }
    let given = |name, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    (given("COLUMNS", USUAL.0), given("LINES", USUAL.1))
}

/// The size of the terminal; `None` if standard output is none.
fn of_terminal() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some((size.ws_col, size.ws_row))
}

/// What a wait for input has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// There is input.
    Ready,
    /// There is none; a signal may have arrived.
    None,
    /// The terminal, or the other end of the pipe, was closed.
    Closed,
}

/// Waits for input on standard input, at most `time_max`. Returns sooner when a signal arrives.
///
/// # Errors
/// The kernel cannot wait for it.
pub fn wait_for_input(time_max: Duration) -> io::Result<Input> {
    let input = io::stdin();
    let mut ends = [PollFd::new(&input, PollFlags::IN)];
    let timeout = Timespec::try_from(time_max).map_err(io::Error::other)?;
    match rustix::event::poll(&mut ends, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => Ok(Input::None),
        Ok(_) if ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) => Ok(Input::Closed),
        Ok(_) => Ok(Input::Ready),
        Err(error) => Err(error.into()),
    }
}

/// The text with long lines broken at blanks, if standard output is a terminal. The rest of a line is indented by
/// `indent` columns.
#[must_use]
pub fn fitted(text: &str, indent: usize) -> String {
    of_terminal().map_or_else(|| text.to_owned(), |(columns, _)| wrapped(text, columns.into(), indent))
}

/// A time for people: `59 s`, `12 min 3 s`, `5 h 12 min`, `3 d 4 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let width = columns.max(indent + WIDTH_MIN);
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let (mut rest, mut margin) = (line, 0);
        while let Some(at) = break_of(rest, width - margin, if margin == 0 { indent } else { 0 }) {
            out += rest[..at].trim_end();
            out += "\n";
            out += &" ".repeat(indent);
            (rest, margin) = (rest[at..].trim_start(), indent);
        }
        out += rest;
        out += "\n";
    }
    out
}

/// The byte at which a line is broken: behind the last blank that fits, after the first `from` columns. `None`: the line
/// fits, or cannot be broken.
fn break_of(line: &str, width: usize, from: usize) -> Option<usize> {
    let (end, _) = line.char_indices().nth(width)?;
    let start = line.char_indices().nth(from)?.0;
    let blank = line[start..=end].rfind(' ').map(|at| start + at);
    blank.or_else(|| line[end..].find(' ').map(|at| end + at)).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_at_blanks_and_indented() {
        let text = "Heading\n  label   one two three four five six\n  x       short\n";
        let expected = "Heading\n  label   one two three four\n          five six\n  x       short\n";
        assert_eq!(wrapped(text, 30, 10), expected);
        assert_eq!(wrapped(text, 80, 10), text);
    }

    #[test]
    fn times_have_two_units() {
        let times = [0.4, 59.9, 61.0, 3600.0, 90_000.0].map(duration);
        assert_eq!(times, ["0 s", "59 s", "1 min 1 s", "1 h 0 min", "1 d 1 h"]);
    }

    #[test]
    fn a_word_that_does_not_fit_stays_whole() {
        let long = "x".repeat(60);
        let text = format!("  label   {long} end\n");
        assert_eq!(wrapped(&text, 30, 10), format!("  label   {long}\n          end\n"));
        assert_eq!(wrapped(&format!("  label   {long}\n"), 30, 10), format!("  label   {long}\n"));
        // Characters count, and not bytes.
        let wide = "  label   –––– –––– –––– ––––\n";
        assert_eq!(wrapped(wide, 30, 10), wide);
    }
}
