//! The cache manager against a naive model, and its promises of RAM.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classes;
mod destage;
mod eviction;
mod forget;
mod forward;
mod model;
mod pins;
mod ram;
mod records;
mod slots;
mod world;
