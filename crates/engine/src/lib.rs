//! Nitro's engine: moves the bytes as the cache manager (`nitro-cache`) decides.
//!
//! The engine is generic over its ports ([`port::Device`], [`port::Clock`]) and names no async runtime, so that the
//! same code runs on io_uring in the server and on a deterministic executor with simulated devices in tests.
#![forbid(unsafe_code)]

pub mod buf;
pub mod port;
