//! Parts that the evaluations of both hash tables on flash share: the file, the modelled SSD, loads, and the beginnings
//! of reports.

mod conventional;
mod modelled;
mod timed;

pub(super) use conventional::Conventional;
pub(super) use modelled::{Layer, Modelled, ModelledDevice};
pub(super) use timed::{Draws, KeyValue, Load, Timed, Watch, load};

use crate::load::Drive;
use crate::parallel::threads_or_cores;
use crate::report::{Bars, Chart};
use crate::settings::IndexPaper;
use nitro_console::error::Error;
use nitro_device::{FileDevice, FileOptions};
use nitro_index::Shape;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sizes of the entries: a fingerprint, and a location on the SSD.
pub(super) const SHAPE: Shape = Shape { key_bytes: 20, value_bytes: 12 };
/// The number of entries without `--entries`.
const ENTRIES: u64 = 4_000_000;
const ENTRIES_QUICK: u64 = 200_000;

pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Error {
    Error::with_sources("reproduce", error).or("give a --folder, or a --file, on a disk with a gigabyte of room")
}

impl IndexPaper {
    pub(super) fn entries(&self) -> u64 {
        self.entries.unwrap_or(if self.quick { ENTRIES_QUICK } else { ENTRIES })
    }

    /// The path of the file of an index.
    fn file(&self, name: &str) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.folder.join(format!("{name}.img")))
    }

    /// A load with `depth` operations at a time; there are never more threads than operations.
    pub(super) fn drive(&self, depth: usize) -> Drive {
        let threads = threads_or_cores(self.threads);
        Drive { threads: threads.min(depth), depth }
    }

    /// The command that reproduces the report.
    pub(super) fn command(&self, paper: &str) -> String {
        let mut command = format!("nitro-lab reproduce {paper}");
        if self.quick {
            command += " --quick";
        }
        if let Some(entries) = self.entries {
            command += &format!(" --entries {entries}");
        }
        if let Some(ram) = self.ram {
            command += &format!(" --ram {ram}");
        }
        if let Some(threads) = self.threads {
            command += &format!(" --threads {threads}");
        }
        command
    }
}

/// A file that is removed on drop.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Creates a file, with a device of `bytes`.
    pub(super) fn create(args: &IndexPaper, name: &str, bytes: u64) -> Result<(Self, Arc<FileDevice>), Error> {
        let path = args.file(name);
        let what = || format!("file {}", path.display());
        // A file left by an earlier run that was killed is replaced, unless the user named it.
        if args.file.is_none() && fs::exists(&path).map_err(|e| Error::new(what(), e))? {
            fs::remove_file(&path).map_err(|e| Error::new(what(), e))?;
        }
        if fs::exists(&path).map_err(|e| Error::new(what(), e))? {
            return Err(Error::new(what(), "it exists").or("name one that does not, for it is removed at the end"));
        }
        let device = FileOptions::new(&path).create(bytes);
        let device = device.map_err(|e| Error::with_sources(what(), &e).or("name one on a disk with room for it"))?;
        Ok((Self(path), Arc::new(device)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // An error means that the file was removed before.
        let _ = fs::remove_file(self.path());
    }
}

/// A bar chart with a logarithmic axis.
pub(super) fn log_bars(title: &str, y_label: &str, groups: &[&str], bars: Vec<(String, Vec<Option<f64>>)>) -> Chart {
    Chart::Bars(Bars {
        title: title.to_owned(),
        y_label: y_label.to_owned(),
        log_y: true,
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        bars,
    })
}
