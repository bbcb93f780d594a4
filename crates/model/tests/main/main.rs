//! The model of the SSD against analysis, hand-worked examples and flash that checks what it is told.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod amplification;
mod cache_ssd;
mod device;
mod merges;
mod model;
mod settings;
mod support;
mod time;
