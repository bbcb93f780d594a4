//! The store against a naive model, on devices whose power fails.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod automatic;
mod compare;
mod crash;
mod crowd;
mod flushes;
mod format_doc;
mod growth;
mod lookups;
mod many;
mod model;
mod monotonic;
mod quota;
mod requests;
mod room;
mod shares;
mod ssd;
mod streams;
mod transfers;
