//! The parameters of runs.

use nitro_cache::class::Classes;
use nitro_console::output::Format;
use nitro_console::size::Size;
use std::path::PathBuf;

/// Parameters of Nitro's evaluation.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Whether traces are scaled down and figures have few points.
    pub quick: bool,
    /// A factor on the sizes of the traces.
    pub scale: f64,
    /// The figures to reproduce; empty: all.
    pub only: Vec<String>,
    /// A folder of recorded traces.
    pub traces: Option<PathBuf>,
    /// The folder of results, where earlier outcomes are read; it is created if it does not exist.
    pub folder: PathBuf,
    /// The number of threads; `None`: the machine's cores.
    pub threads: Option<u16>,
    /// The seed of the traces.
    pub seed: u64,
    /// The format of the printed results.
    pub format: Format,
}

/// Parameters that both papers on hash tables on flash share.
#[derive(Debug, Clone)]
pub struct IndexPaper {
    /// Whether the index is small and operations are few.
    pub quick: bool,
    /// The number of entries of the index; `None`: a number that depends on `quick`.
    pub entries: Option<u64>,
    /// RAM that the index may use; `None`: the paper's RAM for each entry.
    pub ram: Option<Size>,
    /// The folder of results; it is created if it does not exist.
    pub folder: PathBuf,
    /// The file of the index; it must not exist, and is removed at the end. `None`: a file in the folder.
    pub file: Option<PathBuf>,
    /// The number of threads of measurements with several operations in progress; `None`: the machine's cores.
    pub threads: Option<u16>,
    /// The format of the printed results.
    pub format: Format,
}

/// Parameters of BufferHash's evaluation.
#[derive(Debug, Clone)]
pub struct ClamPaper {
    /// The shared parameters.
    pub common: IndexPaper,
    /// The price of SSD and RAM, in dollars.
    pub dollars: f64,
    /// A file whose content is sent through the WAN optimizer, too.
    pub content: Option<PathBuf>,
}

impl ClamPaper {
    /// The paper's price of SSD and RAM in 2009, in dollars.
    pub const DOLLARS: f64 = 400.0;
}

/// Parameters of SILT's evaluation.
#[derive(Debug, Clone)]
pub struct SiltPaper {
    /// The shared parameters.
    pub common: IndexPaper,
}

/// Parameters of Azor's evaluation.
#[derive(Debug, Clone)]
pub struct AzorPaper {
    /// Whether the loads are small.
    pub quick: bool,
    /// A factor on the sizes of the loads.
    pub scale: f64,
    /// A folder of recorded traces.
    pub traces: Option<PathBuf>,
    /// The folder of results; it is created if it does not exist.
    pub folder: PathBuf,
    /// The number of threads; `None`: the machine's cores.
    pub threads: Option<u16>,
    /// The seed of the loads.
    pub seed: u64,
    /// The format of the printed results.
    pub format: Format,
}

/// Parameters of the experiments on the deduplicating store.
#[derive(Debug, Clone)]
pub struct StorePaper {
    /// Whether the volume is small and generations are few.
    pub quick: bool,
    /// A factor on the size of the volume.
    pub scale: f64,
    /// The parts to run, of `table-2`, `figure-9` and `figure-10`; empty: all.
    pub only: Vec<String>,
    /// The folder of results; it is created if it does not exist.
    pub folder: PathBuf,
    /// The number of threads; `None`: the machine's cores if `quick`, otherwise one, because each takes RAM of its own.
    pub threads: Option<u16>,
    /// The format of the printed results.
    pub format: Format,
}

/// Parameters of Data Domain's evaluation.
#[derive(Debug, Clone)]
pub struct DataDomainPaper {
    /// Whether the volume is small and generations are few.
    pub quick: bool,
    /// The folder of results; it is created if it does not exist.
    pub folder: PathBuf,
    /// The format of the printed results.
    pub format: Format,
}

/// Parameters of the evaluation of Differentiated Storage Services.
#[derive(Debug, Clone)]
pub struct DssPaper {
    /// Whether the file set is small.
    pub quick: bool,
    /// The policies of the preset `dss`.
    pub classes: Classes,
    /// A folder of recordings of real file systems, as `scripts/record-file-systems` makes them.
    pub recordings: Option<PathBuf>,
    /// The folder of results; it is created if it does not exist.
    pub folder: PathBuf,
    /// The number of threads; `None`: the machine's cores.
    pub threads: Option<u16>,
    /// The first seed of the generated loads.
    pub seed: u64,
    /// The format of the printed results.
    pub format: Format,
}
