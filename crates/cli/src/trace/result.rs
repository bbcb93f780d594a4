//! The file that a command makes: there when it is whole, and not before.

use super::refused;
use nitro_console::error::Error;
use nitro_console::output;
use nitro_console::size::Size;
use nitro_server::files;
use nitro_trace::parquet::{ParquetWriter, convert};
use nitro_trace::{Reader, TraceError};
use std::fs;
use std::path::{Path, PathBuf};

/// What the name of an unfinished file ends with.
const PART_SUFFIX: &str = ".part";

pub(super) struct ResultFile {
    path: PathBuf,
    part: PathBuf,
}

impl ResultFile {
    /// The file at `path`, which must not be there yet, unless it is to be replaced.
    pub(super) fn new(path: &Path, force: bool) -> Result<Self, Error> {
        let what = format!("result {}", path.display());
        if path.is_dir() {
            return Err(Error::new(what, "it is a directory").or("name a file"));
        }
        if path.exists() && !force {
            return Err(Error::new(what, "it exists").or("choose another name, or give --force to replace it"));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(PART_SUFFIX);
        Ok(Self { path: path.to_owned(), part: part.into() })
    }

    /// Writes all of a trace, and tells how much that was.
    pub(super) fn fill(self, reader: &mut dyn Reader, notes: &[(&str, &str)]) -> Result<(), Error> {
        let what = format!("result {}", self.path.display());
        let unusable =
            |e: &dyn std::fmt::Display| Error::new(&what, e).or("name a file in a folder that can be written to");
        let file = files::create_anew(&self.part).map_err(|e| unusable(&e))?;
        let mut writing = |file| -> Result<u64, TraceError> { convert(reader, ParquetWriter::new(file, notes)?) };
        let requests = writing(file).map_err(|e| {
            // A failure to remove it is not worth more words than the failure itself.
            let _ = fs::remove_file(&self.part);
            refused(&e)
        })?;
        fs::rename(&self.part, &self.path).map_err(|e| unusable(&e))?;
        let bytes = fs::metadata(&self.path).map_or(0, |found| found.len());
        output::print(&format!("{requests} requests in {}: {}\n", self.path.display(), Size(bytes))).map(|_| ())
    }
}
