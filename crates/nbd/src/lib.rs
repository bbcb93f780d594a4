//! Nitro's NBD server.
#![forbid(unsafe_code)]
