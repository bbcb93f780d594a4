//! Tests of the shares of a device's time, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bench;
mod device;
mod mixes;
mod rules;
