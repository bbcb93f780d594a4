//! What a start with a configuration would find missing, or create.

use crate::origins::origin_of;
use nitro_config::Config;
use nitro_config::classes::ClassTable;
use nitro_console::error::Error;

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
