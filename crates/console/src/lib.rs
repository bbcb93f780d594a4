//! What every program of Nitro has: output for people (sizes, progress, errors, tables, charts made of characters), the log, and
//! signals.
#![forbid(unsafe_code)]

pub mod chart;
pub mod date;
pub mod error;
pub mod logging;
pub mod output;
pub mod progress;
pub mod screen;
pub mod signals;
pub mod size;
pub mod text;
