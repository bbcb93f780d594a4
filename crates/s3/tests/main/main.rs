//! Tests of volumes in buckets, against a store in RAM with faults, in virtual time.

#![expect(clippy::unwrap_used, reason = "a failing test says where")]

mod basics;
mod crash;
mod model;
mod sim;
mod snapshots;
