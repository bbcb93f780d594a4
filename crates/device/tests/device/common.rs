//! Folders for test files.

use tempfile::TempDir;

/// A folder on the file system that the code is built on, which is a real disk's more often than /tmp is.
pub fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
