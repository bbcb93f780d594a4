//! The cache manager against a naive model, and its promises of RAM.

mod model;
mod ram;
