//! Detection beside what the file systems' own tools say.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ext;
mod hostile;
mod support;
mod xfs;
