//! Nitro's cache manager.
#![forbid(unsafe_code)]
