//! The daemon of `nitro serve`: caches, volumes, reactors, its control socket and its configuration.
#![forbid(unsafe_code)]
// The futures of a request reach from a connection down into a store.
#![recursion_limit = "256"]

pub mod config;
pub mod control;
pub mod cos;
mod export;
pub mod files;
mod record;
pub mod serve;
pub mod signals;
