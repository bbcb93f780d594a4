//! The SSD of a store: its configuration, opening it, and operations on it.

use super::store::{CosStore, device_path};
use nitro_console::error::Error;
use nitro_console::output::{Format, Table, json_line};
use nitro_console::size::Size;
use nitro_cos::{Fpi, SsdOptions, SsdSource, SsdState, SsdStats, is_ssd};
use nitro_device::{CompioClock, FileDevice, FileOptions};
use nitro_files::{self as files, Links};
use nitro_port::Device;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an SSD may take to answer, before the store goes on without it.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Maximum bytes of the file with an SSD's configuration.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// The SSD of a store and its use, as stored in the file `store.nitro.ssd` in the store's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// A file or block device.
    pub path: PathBuf,
    /// Percentage of the SSD that is reserved for blocks of recipes.
    #[serde(default = "fmd_percent")]
    pub fmd_percent: u8,
    /// Percentage of the SSD that is reserved for chunks.
    #[serde(default = "data_percent")]
    pub data_percent: u8,
    /// Whether blocks of recipes are kept.
    #[serde(default = "yes")]
    pub fmd: bool,
    /// What is kept of the fingerprint index.
    #[serde(default, deserialize_with = "fpi")]
    pub fpi: Fpi,
    /// Whether chunks are kept.
    #[serde(default = "yes")]
    pub data: bool,
    /// Whether chunks are compressed (LZ4).
    #[serde(default)]
    pub lz4: bool,
}

fn fmd_percent() -> u8 {
    SsdOptions::default().fmd_percent
}

fn data_percent() -> u8 {
    SsdOptions::default().data_percent
}

/// What is kept of the index; files of earlier versions only have whether anything is.
fn fpi<'de, D: Deserializer<'de>>(given: D) -> Result<Fpi, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Any(bool),
        Named(String),
    }
    match Given::deserialize(given)? {
        Given::Any(true) => Ok(Fpi::default()),
        Given::Any(false) => Ok(Fpi::Off),
        Given::Named(name) => name.parse().map_err(|why| D::Error::custom(format!("fpi = {name:?}: {why}"))),
    }
}

const fn yes() -> bool {
    true
}

impl SsdConfig {
    /// The SSD at a path, with default settings.
    #[must_use]
    pub fn usual(path: PathBuf) -> Self {
        Self {
            path,
            fmd_percent: fmd_percent(),
            data_percent: data_percent(),
            fmd: true,
            fpi: Fpi::default(),
            data: true,
            lz4: false,
        }
    }

    fn options(&self) -> SsdOptions {
        let Self { fmd_percent, data_percent, fmd, fpi, data, lz4, .. } = *self;
        SsdOptions { fmd_percent, data_percent, fmd, fpi, data, lz4, ..SsdOptions::default() }
    }

    fn source(&self, device: FileDevice) -> SsdSource {
        SsdSource::new(device, self.options()).within(CompioClock::new(), ANSWER_MAX)
    }

    /// Opens the SSD exclusively.
    ///
    /// # Errors
    /// It does not exist, is in use, or access is denied.
    pub fn open(&self) -> Result<SsdSource, Error> {
        let device = FileOptions::new(&self.path).open().map_err(|e| Error::with_sources(self.path.display(), &e))?;
        Ok(self.source(device))
    }

    /// As [`open`](Self::open), for a store that has not used it yet: the file is created if it does not exist, which
    /// requires a `size`. A file or device with other data is refused unless `force` is set.
    ///
    /// # Errors
    /// As [`open`](Self::open), or it holds other data.
    pub fn prepare(&self, size: Option<Size>, force: bool) -> Result<SsdSource, Error> {
        let what = self.path.display();
        let is_there = fs::symlink_metadata(&self.path).is_ok();
        let device: FileDevice = match (is_there, size) {
            (true, _) => FileOptions::new(&self.path).open().map_err(|e| Error::with_sources(what, &e))?,
            (false, Some(size)) => FileOptions::new(&self.path)
                .create(size.0 / 4096 * 4096)
                .map_err(|e| Error::with_sources(self.path.display(), &e))?,
            (false, None) => {
                return Err(Error::new(what, "it does not exist yet").or("give its size to create it: --ssd-size"));
            }
        };
        let have = device.geometry().size_bytes;
        if let Some(size) = size.filter(|size| size.0.abs_diff(have) >= 4096) {
            let why = format!("it has {}, not the requested {size}", Size(have));
            return Err(Error::new(self.path.display(), why).or("give no size to use all of it, or name another file"));
        }
        if is_there && !force && !is_free(&self.path).map_err(|e| Error::new(self.path.display(), e))? {
            return Err(Error::new(self.path.display(), "it is not empty, and not the SSD of a store")
                .or("choose another path, or add --force to overwrite it"));
        }
        Ok(self.source(device))
    }
}

/// Whether the file or device begins with zeroes or is a store's SSD, so that it may be overwritten.
fn is_free(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    files::open_device_to_read(path)?.take(64 << 10).read_to_end(&mut start)?;
    Ok(is_ssd(&start) || start.iter().all(|byte| *byte == 0))
}

/// The path of the SSD's configuration file.
fn config_path(store: &Path) -> PathBuf {
    let mut path = device_path(store).into_os_string();
    path.push(".ssd");
    path.into()
}

/// The SSD of a store, if it has one.
///
/// # Errors
/// The configuration file cannot be read.
pub fn configured(store: &Path) -> Result<Option<SsdConfig>, Error> {
    let path = config_path(store);
    let text = files::read_text(&path, Links::Followed, TEXT_BYTES_MAX).map_err(|e| Error::new(path.display(), e))?;
    let parse = |text: String| toml::from_str(&text).map_err(|e| Error::new(path.display(), e.message()));
    text.map(parse).transpose()
}

/// The SSD with which to open a store. If the SSD cannot be opened, there is a warning, and the store opens without it:
/// the disk has all data.
#[must_use]
pub fn source(store: &Path) -> Option<SsdSource> {
    let opened = configured(store).and_then(|config| config.map(|config| config.open()).transpose());
    opened.unwrap_or_else(|error| {
        tracing::warn!("store {}: opened without its SSD: {error}", store.display());
        None
    })
}

/// An operation on a store's SSD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SsdAction {
    /// Attaches an SSD to the store, or replaces its SSD.
    Attach {
        /// The SSD.
        config: SsdConfig,
        /// Bytes of the file, if it has to be created.
        size: Option<u64>,
        /// Overwrite it even if it holds data.
        force: bool,
        /// True: the store must have an SSD already; false: it must have none.
        replace: bool,
    },
    /// Detaches it.
    Detach,
    /// Shows it.
    Status {
        /// How the answer is printed.
        format: Format,
    },
}

impl SsdAction {
    /// Carries out the operation and returns the text to print.
    pub(super) async fn act(&self, store: &CosStore, path: &Path) -> Result<String, Error> {
        match self {
            Self::Attach { config, size, force, replace } => {
                let has = store.ssd_stats().is_some();
                if has != *replace {
                    let (why, way_out) = match has {
                        true => ("it has an SSD already", "nitro cos ssd replace gives it another one"),
                        false => ("it has no SSD", "nitro cos ssd attach gives it one"),
                    };
                    return Err(Error::new(path.display(), why).or(way_out));
                }
                attach(store, path, config, (size.map(Size), *force)).await?;
                Ok(String::new())
            }
            Self::Detach => {
                let was_there = store.detach_ssd();
                let config = config_path(path);
                let is_configured = fs::symlink_metadata(&config).is_ok();
                if is_configured {
                    files::remove_durably(&config, Links::Followed).map_err(|e| Error::new(config.display(), e))?;
                }
                if !was_there && !is_configured {
                    return Err(Error::new(path.display(), "it has no SSD"));
                }
                Ok(String::new())
            }
            Self::Status { format } => status(store, path, *format),
        }
    }
}

/// Attaches an SSD to a store, and writes its configuration file.
///
/// # Errors
/// The SSD cannot be used; or its configuration file cannot be written, and the store continues without it.
pub async fn attach(
    store: &CosStore,
    path: &Path,
    config: &SsdConfig,
    (size, force): (Option<Size>, bool),
) -> Result<(), Error> {
    let source = config.prepare(size, force)?;
    store.attach_ssd(source).await.map_err(|e| Error::with_sources(config.path.display(), &e))?;
    let at = config_path(path);
    let noted = toml::to_string(config)
        .map_err(std::io::Error::other)
        .and_then(|text| files::write_durably(&at, Links::Followed, text.as_bytes()));
    noted.map_err(|e| {
        store.detach_ssd();
        Error::new(at.display(), e)
    })
}

#[derive(Serialize)]
struct Shown {
    /// The configuration in the store's folder.
    configured: Option<SsdConfig>,
    /// The statistics of the SSD in use.
    ssd: Option<SsdStats>,
}

fn status(store: &CosStore, path: &Path, format: Format) -> Result<String, Error> {
    let shown = Shown { configured: configured(path)?, ssd: store.ssd_stats() };
    if format == Format::Json {
        return json_line(&shown);
    }
    let mut table = Table::new(["", "value"]);
    if let Some(config) = &shown.configured {
        table.row(vec!["SSD".to_owned(), config.path.display().to_string()]);
    }
    match &shown.ssd {
        Some(stats) => rows(stats).into_iter().for_each(|(name, value)| table.row(vec![name, value])),
        None => table.row(vec!["state".to_owned(), "no SSD in use".to_owned()]),
    }
    Ok(if format == Format::Csv { table.csv(true) } else { table.aligned() })
}

/// The rows of a table about an SSD.
pub(super) fn rows(stats: &SsdStats) -> Vec<(String, String)> {
    let state = match &stats.state {
        SsdState::Kept => "in use, kept from the last session".to_owned(),
        SsdState::Emptied { why } => format!("in use, emptied when it was attached: {why}"),
        SsdState::Failed { why } => format!("FAILED, everything is read from the disk: {why}"),
    };
    let used = (stats.units - stats.units_free) * (stats.size_bytes / stats.units.max(1));
    let mut rows = vec![
        ("SSD state".to_owned(), state),
        ("SSD".to_owned(), format!("{} of {}", Size(used), Size(stats.size_bytes))),
        ("SSD written".to_owned(), Size(stats.written_bytes).to_string()),
        ("SSD trouble".to_owned(), format!("{} reads failed, {} damaged", stats.read_errors, stats.damaged)),
    ];
    for pieces in &stats.pieces {
        let asked = pieces.hits + pieces.misses;
        let percent = pieces.hits as f64 * 100.0 / asked.max(1) as f64;
        let text = format!("{} pieces, {} of {asked} look-ups hit ({percent:.1} %)", pieces.pieces, pieces.hits);
        rows.push((format!("SSD {}", pieces.kind), text));
    }
    if let Some(short) = &stats.short {
        let percent = short.found as f64 * 100.0 / short.lookups.max(1) as f64;
        let text = format!(
            "{} of {} look-ups found ({percent:.1} %), {} collisions, {} entries out of date; {} in {} pages",
            short.found,
            short.lookups,
            short.false_tags,
            short.stale,
            Size(short.bytes),
            short.pages_max
        );
        rows.push(("SSD short fingerprints".to_owned(), text));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_earlier_versions_say_only_whether_the_index_is_cached() {
        let config = |line: &str| toml::from_str::<SsdConfig>(&format!("path = \"/dev/x\"\n{line}"));
        for (line, wanted) in [
            ("", Fpi::default()),
            ("fpi = true", Fpi::default()),
            ("fpi = false", Fpi::Off),
            ("fpi = \"pages\"", Fpi::Pages),
            ("fpi = \"short\"", Fpi::Short),
        ] {
            let config = config(line).unwrap();
            assert_eq!(config.fpi, wanted, "{line}");
            assert_eq!(toml::from_str::<SsdConfig>(&toml::to_string(&config).unwrap()).unwrap(), config);
        }
        let refused = config("fpi = \"all\"").unwrap_err().to_string();
        assert!(refused.contains("it is off, pages or short"), "{refused}");
    }

    #[test]
    fn a_cache_is_not_taken_for_a_free_ssd() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ssd");
        fs::write(&path, vec![0; 128 << 10]).unwrap();
        assert!(is_free(&path).unwrap());
        // A cache begins with the same magic.
        fs::write(&path, [&b"NITROSSD"[..], &vec![0; 128 << 10]].concat()).unwrap();
        assert!(!is_free(&path).unwrap());
    }
}
