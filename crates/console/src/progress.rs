//! How far a command is: a bar on a terminal, else a line from time to time, on standard error.

use crate::size::Size;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// A line is printed each time this many percent are done, but not more often than this.
const LINE_EVERY_PERCENT: u64 = 10;
const LINE_EVERY: Duration = Duration::from_secs(1);

/// The progress of one command.
pub struct Progress {
    begun: Instant,
    total_bytes: u64,
    /// What is told of are no bytes.
    counting: bool,
    /// What happens to them, as in "30 % of 2 GiB read".
    verb: &'static str,
    bar: Option<ProgressBar>,
    told_percent: Cell<u64>,
    told_after: Cell<Duration>,
}

impl Progress {
    /// Progress over `total_bytes`, as in "30 % of 2 GiB read".
    pub fn new(total_bytes: u64, verb: &'static str) -> Self {
        let bar = "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
        Self::with_bar(total_bytes, verb, bar, false)
    }

    /// As [`new`](Self::new), for what are no bytes, as in "30 % of 2000 extents simulated".
    pub fn counting(total: u64, verb: &'static str) -> Self {
        Self::with_bar(total, verb, "{bar:40} {percent} %, {human_pos} of {human_len}, {per_sec}, {eta} left", true)
    }

    fn with_bar(total_bytes: u64, verb: &'static str, template: &str, counting: bool) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
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

    /// Shows how far it is.
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
            eprintln!("{percent} % of {total} {}{eta} left", self.verb);
        }
    }

    /// Takes the bar away.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How long the rest takes at the speed so far, as an addition to a sentence.
pub fn eta(done: u64, left: u64, elapsed: Duration) -> String {
    if done == 0 {
        return String::new();
    }
    format!(", about {:.0} s", (elapsed.as_secs_f64() * left as f64 / done as f64).max(1.0))
}
