//! The program itself, as its users run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod estimating;
mod generated;
mod serving;
mod status;
mod support;
mod wrong_use;
