//! What a configuration must fulfil, as far as it can be told without looking at devices.

use super::text::nearest;
use super::{CacheConfig, CacheStore, Config, Mode, ServerConfig, TlsMode};
use crate::error::Error;
use nitro_cache::settings::{EXTENT_BYTES, FINGERPRINT_INDEX_RATIO, WEU_BYTES};

/// Longest name of an export ("Values" of names in the NBD protocol: 4096 bytes; here short enough for a file name).
const NAME_BYTES_MAX: usize = 200;
/// Reactor threads at most.
const THREADS_MAX: usize = 256;

impl Config {
    /// Checks it.
    ///
    /// # Errors
    /// The first fault, with the way out.
    pub fn check(&self) -> Result<(), Error> {
        if self.volumes.is_empty() {
            return Err(Error::new("volumes", "there is nothing to serve").or("add a section such as [volume.vm]"));
        }
        self.server.check()?;
        for (name, cache) in &self.caches {
            cache.check().map_err(|e| e.within(format_args!("cache.{name}")))?;
        }
        for name in self.volumes.keys() {
            check_name(name)?;
            self.cache_of(name)?;
        }
        Ok(())
    }

    /// The name of a volume's cache.
    ///
    /// # Errors
    /// If it names none that exists, or none where there are several.
    pub fn cache_of(&self, volume: &str) -> Result<&str, Error> {
        let what = format!("volume.{volume}.cache");
        match self.volumes.get(volume).and_then(|v| v.cache.as_deref()) {
            Some(cache) => match self.caches.get_key_value(cache) {
                Some((name, _)) => Ok(name),
                None => Err(Error::new(what, format_args!("there is no cache {cache:?}")).or(
                    match nearest(cache, self.caches.keys().map(String::as_str)) {
                        Some(near) => format!("did you mean {near:?}?"),
                        None => format!("add a section [cache.{cache}]"),
                    },
                )),
            },
            None => match self.caches.keys().next() {
                Some(only) if self.caches.len() == 1 => Ok(only),
                Some(_) => Err(Error::new(what, "there are several caches").or("name the one to use")),
                None => Err(Error::new(what, "there is no cache")
                    .or("add a section such as [cache.fast], with path = \"none\" to go without")),
            },
        }
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let fine = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(|c: char| c.is_control() || c == '/');
    if fine {
        return Ok(());
    }
    let rule = format!("use 1 to {NAME_BYTES_MAX} characters, without slashes");
    Err(Error::new(format_args!("volume {name:?}"), "the name cannot be used").or(rule))
}

impl CacheConfig {
    fn check(&self) -> Result<(), Error> {
        if self.mode == Mode::WriteBack {
            return Err(Error::new("mode", "write-back is not in this version").or("use write-through, the default"));
        }
        if self.path == CacheStore::None && self.size.is_some_and(|size| size.0 > 0) {
            return Err(Error::new("size", "there is no cache to have a size").or("leave it out, or name a path"));
        }
        let refuse = |error: nitro_cache::SettingError| {
            let (what, value, nearest) = (error.name, error.value, error.nearest);
            Error::new(format_args!("{what} = {value}"), error.reason)
                .or(format_args!("the nearest valid value is {nearest}"))
        };
        for (setting, value) in [
            (EXTENT_BYTES, self.extent_size.map(|size| size.0)),
            (WEU_BYTES, self.weu_size.map(|size| size.0)),
            (FINGERPRINT_INDEX_RATIO, self.fingerprint_index_ratio.map(u64::from)),
        ] {
            value.map_or(Ok(0), |value| setting.check(value)).map_err(refuse)?;
        }
        Ok(())
    }
}

impl ServerConfig {
    fn check(&self) -> Result<(), Error> {
        let counts = [("threads", self.threads, THREADS_MAX), ("max_connections", self.max_connections, 65_536)];
        for (name, value, max) in counts {
            if let Some(value) = value.filter(|value| !(1..=max).contains(value)) {
                return Err(Error::new(format_args!("{name} = {value}"), format_args!("must be 1 to {max}")));
            }
        }
        let has_files = self.tls_cert.is_some() || self.tls_key.is_some() || self.tls_client_ca.is_some();
        match self.tls {
            TlsMode::Off if has_files => {
                Err(Error::new("tls", "certificates are given but TLS is off").or("set tls to on or required"))
            }
            TlsMode::On | TlsMode::Required if self.tls_cert.is_none() || self.tls_key.is_none() => {
                Err(Error::new("tls", "it needs a certificate and its key").or("give tls_cert and tls_key"))
            }
            _ => Ok(()),
        }
    }
}
