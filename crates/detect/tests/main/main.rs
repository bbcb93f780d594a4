//! Detection beside what the file systems' own tools say.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod aged;
mod btrfs;
mod ext;
mod hostile;
mod ntfs;
mod support;
mod xfs;
