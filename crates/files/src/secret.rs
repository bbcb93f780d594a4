//! Files with secrets.

use super::{Links, read_text};
use nitro_console::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The text of a file with secrets of at most `bytes_max`, which must be accessible only to its owner. Its content is
/// never part of a message.
///
/// # Errors
/// It does not exist, others can access it, or it cannot be read.
pub fn read_secret(path: &Path, bytes_max: u64) -> Result<String, Error> {
    let refuse = |why: &dyn std::fmt::Display| Error::new(path.display(), why);
    let mode = fs::metadata(path).map_err(|e| refuse(&e))?.mode();
    if mode & 0o077 != 0 {
        let way_out = format!("chmod go= {}", path.display());
        return Err(refuse(&"its secrets are accessible to others than its owner").or(way_out));
    }
    let text = read_text(path, Links::Followed, bytes_max).map_err(|e| refuse(&e))?;
    text.ok_or_else(|| refuse(&"there is no such file"))
}
