//! The settings in force.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// The settings in force, and how they differ from the configuration file. Secrets are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The configuration file, if the server has one.
    pub file: Option<PathBuf>,
    /// Why it cannot be read.
    #[serde(default)]
    pub file_error: Option<String>,
    /// All settings of the server, the caches and the served volumes.
    pub settings: Vec<SettingInForce>,
    /// Caches and volumes, as `volume.NAME`, that the file lists and that are not served.
    #[serde(default)]
    pub only_in_file: Vec<String>,
    /// Caches and volumes that are served and that the file does not list.
    #[serde(default)]
    pub not_in_file: Vec<String>,
}

/// A setting in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingInForce {
    /// `server.KEY`, `cache.NAME.KEY` or `volume.NAME.KEY`.
    pub key: String,
    /// The value in the form of a configuration file; `None`: the default that the reference of the settings describes.
    pub value: Option<Value>,
    /// Where the value comes from.
    pub source: SettingSource,
    /// The value that the configuration file has now.
    #[serde(default)]
    pub file: Option<Value>,
    /// A start with the configuration file as it is now, without options, would use another value.
    #[serde(default)]
    pub differs: bool,
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingSource {
    /// Nothing sets it.
    Default,
    /// The configuration file.
    File,
    /// An option of the command line that started the server.
    CommandLine,
    /// A command to the running server.
    RunTime,
}

impl SettingSource {
    /// The text for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File => "file",
            Self::CommandLine => "command line",
            Self::RunTime => "set at run time",
        }
    }
}
