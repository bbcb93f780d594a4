//! Reads, checks and changes a configuration file.

use super::{Config, ConfigError, KeyPath, edited};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_files as files;
use std::fs;
use std::path::Path;

fn read(file: &Path) -> Result<String, Error> {
    fs::read_to_string(file).map_err(|e| Error::new(file.display(), e).or("check the path"))
}

/// Reads a file and checks everything that can be checked without access to devices.
///
/// # Errors
/// The file cannot be read, or is invalid.
pub fn load(file: &Path) -> Result<Config, Error> {
    parse(file, &read(file)?)
}

/// As [`load`], with all errors instead of the first. Of keys and values that cannot be read, only the first is known.
///
/// # Errors
/// As [`load`].
pub fn load_all(file: &Path) -> Result<Config, Vec<Error>> {
    let text = read(file).map_err(|error| vec![error])?;
    let config = Config::read(&text).map_err(|e| vec![e.in_file(file)])?;
    let errors: Vec<_> = config.errors().into_iter().map(|e| ConfigError::from_check(e).in_file(file)).collect();
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

fn parse(file: &Path, text: &str) -> Result<Config, Error> {
    Config::parse(text).map_err(|e| e.in_file(file))
}

/// Changes one key of a file. The file must be valid before and after the change.
///
/// # Errors
/// There is no such section, the value is invalid, or the file cannot be written.
pub fn change(file: &Path, path: &KeyPath, value: &str) -> Result<(), Error> {
    let text = edited(&read(file)?, path, value)?;
    parse(file, &text)?;
    let fail = |e| Error::new(file.display(), e).or("run as a user who may change it");
    files::rewrite_durably(file, text.as_bytes()).map_err(fail)
}

/// The size of a cache in a file, if the file sets it.
#[must_use]
pub fn size_of_cache(file: &Path, cache: &str) -> Option<Size> {
    Config::parse(&fs::read_to_string(file).ok()?).ok()?.caches.get(cache)?.size
}
