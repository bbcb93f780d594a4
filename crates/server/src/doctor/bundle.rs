//! Collects information for the analysis of a fault in one document.

use super::{device, machine};
use crate::control::protocol::Status;
use nitro_config as config;
use nitro_console::error::Error;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The values of keys that contain one of these words are secret.
const SECRET: [&str; 6] = ["secret", "password", "passwd", "token", "tls_key", "chap"];
const LEFT_OUT: &str = "(left out)";
/// Maximum number of characters from a file of the kernel.
const TEXT_MAX: usize = 64 << 10;

/// Collects the document; `status` is the status of a running server, if there is one. Secrets of its configuration are
/// omitted.
#[must_use]
pub fn bundle(status: &Result<Status, Error>) -> Value {
    let (status, error) = (status.as_ref().ok(), status.as_ref().err().map(Error::to_string));
    json!({
        "nitro": env!("CARGO_PKG_VERSION"),
        "doctor": machine::look().into_iter().chain(devices(status)).collect::<Vec<_>>(),
        "configuration": status.and_then(|status| status.server.config_file.as_deref()).map(configuration),
        "status": status,
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
            redact(&mut table);
            table
        }
        Err(error) => Value::from(error),
    }
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let key = key.to_lowercase();
                match SECRET.iter().any(|secret| key.contains(secret)) {
                    true => *value = LEFT_OUT.into(),
                    false => redact(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(redact),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_are_left_out() {
        let mut table = json!({"server": {"tls_key": "/k.pem", "http_token": "x", "listen": ["a"]}, "volume": {"v": {"chap_secret": "y"}}});
        redact(&mut table);
        assert_eq!(
            table,
            json!({"server": {"tls_key": LEFT_OUT, "http_token": LEFT_OUT, "listen": ["a"]}, "volume": {"v": {"chap_secret": LEFT_OUT}}})
        );
    }
}
