//! The program itself, as its users run it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod costs;
mod documented;
mod generated;
mod inside;
mod options;
mod reproducing;
mod simulating;
mod simulating_classes;
mod sizing;
mod support;
mod tables;
mod traces;
