//! Nitro's output for people: sizes, progress, errors, tables, charts made of characters, and the log.
#![forbid(unsafe_code)]

pub mod chart;
pub mod error;
pub mod logging;
pub mod output;
pub mod progress;
pub mod screen;
pub mod size;
