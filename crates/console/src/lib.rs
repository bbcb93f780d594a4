//! What a person reads of Nitro: sizes, progress, errors in a line, tables, charts of letters, and the log.
#![forbid(unsafe_code)]

pub mod chart;
pub mod error;
pub mod logging;
pub mod output;
pub mod progress;
pub mod size;
