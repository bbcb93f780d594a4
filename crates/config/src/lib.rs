//! The configuration of a server, from a TOML file or from the command line, and files of classes.
#![forbid(unsafe_code)]

mod access;
pub mod accounts;
mod cache;
mod cap;
mod check;
pub mod classes;
mod edit;
mod endurance;
mod etcd;
pub mod file;
mod identity;
mod index_plan;
mod iscsi;
mod otlp;
pub mod reference;
pub mod secret;
mod server;
mod settings;
mod span;
mod text;
mod url;
mod volume;

pub use access::{ModeError, SocketMode};
pub use cache::{CacheConfig, CacheStore, CompressionName, DiscardName, FingerprintIndexName, FingerprintName, Mode};
pub use cache::{FLASH_INDEX_RATIO, SHA1_REFUSED};
pub use cap::Cap;
pub use check::{check_scan, check_share};
pub use edit::{KeyPath, edited};
pub use endurance::{DriveEndurance, DriveEnduranceError};
pub use etcd::EtcdUrl;
pub use identity::check_unit;
pub use index_plan::IndexPlan;
pub use iscsi::IscsiConfig;
pub use otlp::OtlpUrl;
pub use server::{Address, AddressError, HttpAddress, Protocol, ServerConfig, TlsMode, VhostAddress};
pub use settings::{Effect, FIRST, Kind, Scope, Setting, help, on_off};
pub use span::{Span, SpanError};
pub use text::ConfigError;
pub use url::UrlError;
pub use volume::{Certified, Emulation, FILES_SCHEME, VolumeConfig};

use serde::Deserialize;
use std::collections::BTreeMap;

/// The examples of docs/adding-a-setting.md, which are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-a-setting.md")]
struct AddingASetting;

/// A whole configuration: one server, any number of caches, and volumes behind them. Each volume is an NBD export.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `[server]`
    #[serde(default)]
    pub server: ServerConfig,
    /// `[cache.NAME]`
    #[serde(default, rename = "cache")]
    pub caches: BTreeMap<String, CacheConfig>,
    /// `[volume.NAME]`
    #[serde(default, rename = "volume")]
    pub volumes: BTreeMap<String, VolumeConfig>,
    /// Discard dirty data that prevent the start. This is only an option of the command line, not a key of the file.
    #[serde(skip)]
    pub force_discard_dirty: bool,
    /// Volumes whose origins are accepted although their caches do not recognise them. Only an option of the command line, too.
    #[serde(skip)]
    pub accept_origins: Vec<String>,
}

impl Config {
    /// Reads a configuration file's text and checks everything that can be checked without access to devices.
    ///
    /// # Errors
    /// [`ConfigError`] with the line, the wrong key or value, and the most similar valid key, if there is one.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config = Self::read(text)?;
        config.check().map_err(ConfigError::from_check)?;
        Ok(config)
    }

    /// Parses the text of a file, without the checks of [`check`](Self::check).
    fn read(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError::from_toml(text, &error))
    }
}

/// The keys and values of a configuration file, valid or not.
///
/// # Errors
/// The text is not TOML.
pub fn table(text: &str) -> Result<serde_json::Value, ConfigError> {
    toml::from_str(text).map_err(|error| ConfigError::from_toml(text, &error))
}

#[cfg(test)]
mod tests;
