//! The indexes against a naive map, on devices whose power fails and whose pages rot.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bufferhash;
mod fixture;
mod format_doc;
mod lies;
mod model;
mod pace;
mod resealed;
mod silt;
