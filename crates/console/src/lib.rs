//! What a person reads of Nitro: sizes, progress, errors in a line, tables, and the log.
#![forbid(unsafe_code)]

pub mod error;
pub mod logging;
pub mod output;
pub mod progress;
pub mod size;
