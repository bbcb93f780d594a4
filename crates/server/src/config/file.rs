//! Reads, checks and changes a configuration file.

use super::{Config, KeyPath, edited};
use crate::classes::ClassTable;
use crate::files;
use crate::origins::origin_of;
use nitro_console::error::Error;
use nitro_console::size::Size;
use std::fs;
use std::path::Path;

/// Notes on files that a start with this configuration would find missing, or create.
///
/// # Errors
/// A file of classes, a file of accounts or the name of an origin is invalid.
pub fn notes(config: &Config) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    for (name, cache) in &config.caches {
        for path in cache.path.paths().iter().filter(|path| !path.exists()) {
            notes.push(match cache.size {
                Some(size) => format!("cache.{name}: {} does not exist, and is created with {size}", path.display()),
                None => format!("cache.{name}: {} does not exist; give its size to have it created", path.display()),
            });
        }
        if let Some(classes) = &cache.classes {
            ClassTable::open(classes).map_err(|e| e.within(format_args!("cache.{name}.classes")))?;
        }
    }
    for (name, volume) in &config.volumes {
        let origin = origin_of(&volume.origin)?;
        if let Some(path) = origin.host_path().filter(|path| !path.exists()) {
            notes.push(format!("volume.{name}: {} does not exist", path.display()));
        }
    }
    notes.extend(config.account_notes()?);
    let server = &config.server;
    let files = [
        ("http_token_file", &server.http_token_file),
        ("tls_cert", &server.tls_cert),
        ("tls_key", &server.tls_key),
        ("tls_client_ca", &server.tls_client_ca),
    ];
    for (key, path) in files {
        if let Some(path) = path.as_ref().filter(|path| !path.exists()) {
            notes.push(format!("server.{key}: {} does not exist", path.display()));
        }
    }
    Ok(notes)
}

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
