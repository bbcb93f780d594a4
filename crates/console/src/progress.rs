//! The progress of a command on standard error: a bar on a terminal, otherwise a line from time to time.

use crate::size::Size;
use crate::text::escaped;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::cell::Cell;
use std::fmt;
use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// A line is printed after each [`LINE_EVERY_PERCENT`] of progress, but not more often than each [`LINE_EVERY`].
const LINE_EVERY_PERCENT: u64 = 10;
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Shows a text in the place of the line that the cursor is on, if standard error is a terminal. Errors are ignored: it may be closed.
pub fn replace_line(text: &str) {
    let mut out = stderr().lock();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{}", escaped(text)).and_then(|()| out.flush());
    }
}

/// The progress of one command.
pub struct Progress {
    begun: Instant,
    total_bytes: u64,
    /// The numbers are not bytes but items.
    counting: bool,
    /// The participle in lines such as "30 % of 2 GiB read".
    verb: String,
    bar: Option<ProgressBar>,
    told_percent: Cell<u64>,
    told_after: Cell<Duration>,
}

impl Progress {
    /// The progress over `total_bytes`. `verb` is a participle, as in "30 % of 2 GiB read".
    pub fn new(total_bytes: u64, verb: impl Into<String>) -> Self {
        let bar = "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        Self::with_bar(total_bytes, verb.into(), bar, false)
    }

    /// As [`new`](Self::new), for items other than bytes, as in "30 % of 2000 extents simulated".
    pub fn counting(total: u64, verb: impl Into<String>) -> Self {
        Self::with_bar(total, verb.into(), "{bar:40} {percent} %, {human_pos} of {human_len}, {rate}, {eta} left", true)
    }

    fn with_bar(total_bytes: u64, verb: String, template: &str, counting: bool) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            // The usual text of a rate has four decimals.
            let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
                // A bar that cannot be drawn is no failure.
                let _ = write!(out, "{:.0}/s", state.per_sec());
            });
            ProgressBar::new(total_bytes).with_style(style)
        });
        Self {
            counting,
            begun: Instant::now(),
            total_bytes,
            verb,
            bar,
            told_percent: Cell::new(0),
            told_after: Cell::default(),
        }
    }

    /// Shows the progress: a position in bytes, or a number of items.
    pub fn show(&self, position_bytes: u64) {
        if let Some(bar) = &self.bar {
            return bar.set_position(position_bytes);
        }
        let percent = (position_bytes as f64 / self.total_bytes.max(1) as f64 * 100.0) as u64;
        let elapsed = self.begun.elapsed();
        if percent >= self.told_percent.get() + LINE_EVERY_PERCENT && elapsed >= self.told_after.get() + LINE_EVERY {
            self.told_percent.set(percent);
            self.told_after.set(elapsed);
            let left = self.total_bytes.saturating_sub(position_bytes);
            let eta = eta(position_bytes, left, elapsed);
            let total = if self.counting { self.total_bytes.to_string() } else { Size(self.total_bytes).to_string() };
            crate::note!("{percent} % of {total} {}{eta} left", self.verb);
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The time that the rest takes at the average speed so far, as the end of a phrase such as ", about 5 s".
pub fn eta(done: u64, left: u64, elapsed: Duration) -> String {
    if done == 0 {
        return String::new();
    }
    format!(", about {:.0} s", (elapsed.as_secs_f64() * left as f64 / done as f64).max(1.0))
}
