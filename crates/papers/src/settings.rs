//! What a run is told.

use nitro_console::output::Format;
use nitro_console::size::Size;
use std::path::PathBuf;

/// Of Nitro's evaluation.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Scaled traces and few points.
    pub quick: bool,
    /// Traces so many times as large as they would be.
    pub scale: f64,
    /// Only the figures of these names; empty: all.
    pub only: Vec<String>,
    /// Where results go, and are found again; made if need be.
    pub folder: PathBuf,
    /// Threads; `None`: the machine's cores.
    pub threads: Option<u16>,
    /// Another seed makes other traces.
    pub seed: u64,
    /// How what was found is printed.
    pub format: Format,
}

/// What is the same for both papers on hash tables on flash.
#[derive(Debug, Clone)]
pub struct IndexPaper {
    /// A small index and few operations.
    pub quick: bool,
    /// Entries that the index holds; `None`: as many as suit `quick`.
    pub entries: Option<u64>,
    /// RAM that the index may use; `None`: the paper's for each entry.
    pub ram: Option<Size>,
    /// Where results go; made if need be.
    pub folder: PathBuf,
    /// File for the index; must not exist, and is removed at the end. `None`: one in the folder.
    pub file: Option<PathBuf>,
    /// Threads, where more than one operation is in progress; `None`: the machine's cores.
    pub threads: Option<u16>,
    /// How what was found is printed.
    pub format: Format,
}

/// Of BufferHash's evaluation.
#[derive(Debug, Clone)]
pub struct ClamPaper {
    /// What both papers share.
    pub common: IndexPaper,
    /// What SSD and RAM cost, in dollars.
    pub dollars: f64,
}

/// Of SILT's evaluation.
#[derive(Debug, Clone)]
pub struct SiltPaper {
    /// What both papers share.
    pub common: IndexPaper,
}

/// Of the experiments on the deduplicating store.
#[derive(Debug, Clone)]
pub struct StorePaper {
    /// A small volume and few generations.
    pub quick: bool,
    /// A volume so many times as large as it would be.
    pub scale: f64,
    /// Where results go; made if need be.
    pub folder: PathBuf,
    /// How what was found is printed.
    pub format: Format,
}
