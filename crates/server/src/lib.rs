//! The daemon of `nitro serve`: caches, volumes, reactors and its control socket.
#![forbid(unsafe_code)]
// The futures of a request reach from a connection down into a store.
#![recursion_limit = "256"]

pub mod control;
pub mod cos;
mod device_error;
pub mod doctor;
mod export;
mod http;
pub mod metrics;
pub mod origins;
mod peers;
mod record;
pub mod serve;
mod socket;
mod spans;

/// docs/adding-an-origin.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-an-origin.md")]
struct AddingAnOrigin;
