//! Collects information for the analysis of a fault in one document.

use super::{device, machine};
use crate::control::protocol::Status;
use nitro_config::{self as config, secret};
use nitro_console::error::Error;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Maximum number of characters from a file of the kernel.
const TEXT_MAX: usize = 64 << 10;

/// Collects the document; `status` is the status of a running server, if there is one. Secrets of its configuration are
/// omitted.
#[must_use]
pub fn bundle(status: &Result<Status, Error>) -> Value {
    let (status, error) = (status.as_ref().ok(), status.as_ref().err().map(Error::to_string));
    let mut shown = json!(status);
    secret::redact_urls(&mut shown);
    json!({
        "nitro": env!("CARGO_PKG_VERSION"),
        "doctor": machine::look().into_iter().chain(devices(status)).collect::<Vec<_>>(),
        "configuration": status.and_then(|status| status.server.config_file.as_deref()).map(configuration),
        "status": shown,
        "status_error": error,
        "os": text("/etc/os-release"),
        "kernel": text("/proc/version"),
        "memory": text("/proc/meminfo"),
        "mounts": text("/proc/self/mounts"),
        "limits": text("/proc/self/limits"),
    })
}

fn devices(status: Option<&Status>) -> Vec<super::Finding> {
    let paths = status.into_iter().flat_map(|status| status.volumes.iter().map(|volume| volume.origin.clone()));
    paths.filter(|path| Path::new(path).exists()).flat_map(|path| device::look(Path::new(&path))).collect()
}

fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.chars().take(TEXT_MAX).collect())
}

/// A configuration file without comments and secrets.
fn configuration(file: &Path) -> Value {
    let table = fs::read_to_string(file).map_err(|e| e.to_string());
    let table = table.and_then(|text| config::table(&text).map_err(|e| e.to_string()));
    match table {
        Ok(mut table) => {
            secret::redact(&mut table);
            table
        }
        Err(error) => Value::from(error),
    }
}
