//! The daemon of `nitro serve`: caches, volumes, reactors, its control socket and its configuration.
#![forbid(unsafe_code)]
// The futures of a request reach from a connection down into a store.
#![recursion_limit = "256"]

pub mod classes;
pub mod config;
pub mod control;
pub mod cos;
mod device_error;
pub mod doctor;
mod export;
pub mod files;
mod http;
pub mod metrics;
pub mod origins;
mod peers;
mod record;
pub mod serve;
pub mod signals;
mod spans;

/// docs/adding-an-origin.md, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-an-origin.md")]
struct AddingAnOrigin;
