//! Tests of volumes in buckets, against a store in RAM with faults, in virtual time.

mod basics;
mod crash;
mod model;
mod sim;
