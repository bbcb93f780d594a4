//! How far an estimate is: a bar on a terminal, else a line now and then, on standard error.

use crate::size::Size;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::io::{IsTerminal, stderr};

/// A line is printed each time this many percent are done.
const LINE_EVERY_PERCENT: u64 = 10;

pub(super) struct Progress {
    total_bytes: u64,
    bar: Option<ProgressBar>,
    told_percent: Cell<u64>,
}

impl Progress {
    pub(super) fn new(total_bytes: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(
                "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total_bytes).with_style(style)
        });
        Self { total_bytes, bar, told_percent: Cell::new(0) }
    }

    pub(super) fn show(&self, position_bytes: u64) {
        if let Some(bar) = &self.bar {
            return bar.set_position(position_bytes);
        }
        let percent = (position_bytes as f64 / self.total_bytes.max(1) as f64 * 100.0) as u64;
        if percent >= self.told_percent.get() + LINE_EVERY_PERCENT {
            self.told_percent.set(percent);
            eprintln!("{percent} % of {} read", Size(self.total_bytes));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
