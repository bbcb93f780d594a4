//! Tests of the shares of a device's time, in virtual time.

mod bench;
mod device;
mod mixes;
mod rules;
