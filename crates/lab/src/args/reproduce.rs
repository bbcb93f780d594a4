//! `nitro-lab reproduce`

use clap::{Args, Subcommand};
use nitro_commands::{OutputArgs, between};
use nitro_console::size::Size;
use nitro_papers::ClamPaper;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  All papers in minutes, with scaled traces and small indexes:
    nitro-lab reproduce --quick
  At the papers' sizes (Mail's trace at a sixteenth), in some hours; if interrupted and started again, the
  simulations continue where they stopped:
    nitro-lab reproduce --folder /var/tmp/reproduction
  One figure of Nitro's paper, for a script:
    nitro-lab reproduce --quick --only figure-4 -o json

All evaluations are in one report: Nitro's (`nitro`), its Table 2 and Figures 9 and 10 in front of the store (`cos`), Azor's
(`azor`), Data Domain's (`data-domain`), that of Differentiated Storage Services (`dss`), CLAM's (`clam`) and SILT's (`silt`).
The results are written to the folder: reproduction.html (one file, with charts),
reproduction.md, reproduction.json, and outcomes.jsonl with every finished simulation. --only, --scale and --seed are about
Nitro's evaluation. What is not simulated is measured on this machine: run no other programs at the same time.";

const NITRO_EXAMPLES: &str = "\
Examples:
  In minutes, with scaled traces:
    nitro-lab reproduce nitro --quick
  Only what is known of the traces:
    nitro-lab reproduce nitro --quick --only traces
  Claims on recorded traces of your own:
    nitro-lab reproduce nitro --only recorded-traces --traces /var/traces

The results are written to the folder: nitro.html (one file, with charts), nitro.md, nitro.json, and outcomes.jsonl with every
finished simulation. The FIU traces of the paper are not part of Nitro: synthetic traces with their published figures replace
them, and the report shows both. Figure 8 and the compressors are measured on this machine, everything else is simulated.";

const CLAM_EXAMPLES: &str = "\
Examples:
  In about three minutes:
    nitro-lab reproduce clam --folder /mnt/ssd/clam
  In seconds, smaller, for a script:
    nitro-lab reproduce clam --quick -o json

The results are written to the folder: clam.html (one file, with charts), clam.md and clam.json. A BufferHash of --entries
entries of 20 + 12 bytes is created in a file, filled until the oldest entries are evicted, and then looked up and inserted
into with one operation at a time. A conventional hash table, which reads and writes a random page for each insertion, has the
same load; it represents BerkeleyDB. Both run again on modelled SSDs in virtual time, whose erasures are counted. The file is removed at the end. Run no other
programs at the same time.";

const SILT_EXAMPLES: &str = "\
Examples:
  In some minutes:
    nitro-lab reproduce silt --folder /mnt/ssd/silt
  In seconds, smaller, for a script:
    nitro-lab reproduce silt --quick -o json

The results are written to the folder: silt.html (one file, with charts), silt.md and silt.json. A SILT of --entries entries
of 20 + 1000 bytes is created in a file and filled. It serves 90 % look-ups and 10 % insertions while it converts and merges,
and then look-ups at increasing depth. The file is removed at the end. Run no other programs at the same time.";

const AZOR_EXAMPLES: &str = "\
Examples:
  In minutes:
    nitro-lab reproduce azor --folder /var/tmp/azor
  In seconds, smaller, for a script:
    nitro-lab reproduce azor --quick -o json

The results are written to the folder: azor.html (one file, with charts), azor.md and azor.json. Loads shaped as SPECsfs, TPC-H
and TPC-C are simulated behind a buffer cache, on modelled disks and a modelled SSD, in virtual time: the figures are the same on
every machine.";

const COS_EXAMPLES: &str = "\
Examples:
  In some hours:
    nitro-lab reproduce cos --folder /var/tmp/cos
  In minutes, smaller, for a script:
    nitro-lab reproduce cos --quick -o json

The results are written to the folder: cos.html (one file, with charts), cos.md and cos.json. Synthetic traces of three file
systems are replayed against a store on modelled disks, without a cache and through one on a modelled SSD, warm and cold.
Generations of a volume are written to a store on a modelled disk; snapshots are kept, deleted and collected; they are read
at random and restored, without a cache and through one on a modelled SSD. The data of the modelled devices are in RAM: this
takes four times the size of the volume, and 16 GiB for the traces, or 1 GiB with --quick. Time is virtual, so that figures are the same on every machine.";

const DATA_DOMAIN_EXAMPLES: &str = "\
Examples:
  In about five minutes:
    nitro-lab reproduce data-domain
  In half a minute, smaller, for a script:
    nitro-lab reproduce data-domain --quick -o json

The results are written to the folder: data-domain.html (one file, with charts), data-domain.md and data-domain.json.
Generations of a volume are written to a store on modelled disks. It is read as Data Domain's file system reads, which looks
up each recipe block and each chunk in an index of two levels on the disk, with the caches of the paper on a modelled SSD, with
each change of its software, and as our own store. The data of the modelled devices are in RAM: 1 GiB, or 400 MiB with --quick.
Time is virtual, so that figures are the same on every machine.";

const DSS_EXAMPLES: &str = "\
Examples:
  In some minutes:
    nitro-lab reproduce dss --folder /var/tmp/dss
  In less than a minute, smaller, for a script:
    nitro-lab reproduce dss --quick -o json
  The claims on file systems of this kernel, too, after scripts/record-file-systems /var/tmp/recordings:
    nitro-lab reproduce dss --recordings /var/tmp/recordings

The results are written to the folder: dss.html (one file, with charts), dss.md and dss.json. The paper's test suite (creation
of a file set, transactions of a file server, search of directories, antivirus scan) runs on a modelled file system whose requests have
classes. They run without a cache and through LRU, SLRU, MRU and the cache with the classes' preset `dss`, on modelled disks of 7200 and
15,000 rpm and a modelled SSD, with three seeds. Costs are those of the paper's prices and of later ones. Time is virtual, so that
figures are the same on every machine. Recordings are made by scripts/record-file-systems of the source tree: the same test suite runs on a real
file system in front of `nitro serve --record`.";

/// A paper other than Nitro's, or a part of Nitro's paper.
#[derive(Debug, Subcommand)]
pub(crate) enum Paper {
    /// Reproduce the evaluation of Nitro alone, simulated
    #[command(after_long_help = NITRO_EXAMPLES)]
    Nitro(NitroArgs),
    /// Reproduce the evaluation of BufferHash (CLAM), on this machine and on a modelled SSD, in about three minutes
    #[command(after_long_help = CLAM_EXAMPLES)]
    Clam(ClamArgs),
    /// Reproduce the evaluation of SILT, on this machine
    #[command(after_long_help = SILT_EXAMPLES)]
    Silt(SiltArgs),
    /// Reproduce the evaluation of Azor (two-level block selection, associativity, write policies), simulated
    #[command(after_long_help = AZOR_EXAMPLES)]
    Azor(AzorArgs),
    /// Reproduce Nitro's Table 2 (COS) and Figures 9 and 10 (aged and restored snapshots) on the deduplicating store,
    /// in virtual time
    #[command(after_long_help = COS_EXAMPLES)]
    Cos(CosPaperArgs),
    /// Reproduce the evaluation of Data Domain's SSD caches and changes for random access on the deduplicating store, in
    /// virtual time
    #[command(after_long_help = DATA_DOMAIN_EXAMPLES)]
    DataDomain(DataDomainArgs),
    /// Reproduce the evaluation of Differentiated Storage Services (selective allocation and eviction by class), in virtual
    /// time
    #[command(after_long_help = DSS_EXAMPLES)]
    Dss(DssArgs),
}

/// Where the results go.
#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Folder for the results; created if it does not exist
    #[arg(long, default_value = "nitro-reproduction", value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// How many threads work.
#[derive(Debug, Args)]
pub(crate) struct ThreadArgs {
    /// Threads [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// Options of both papers on hash tables on flash.
#[derive(Debug, Args)]
pub(crate) struct IndexPaperArgs {
    /// Use a small index and few operations: takes seconds, with less precise figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Number of entries of the index [default: BufferHash 4000000, SILT 2000000; with --quick 200000 and 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100_000..=1 << 34))]
    pub(crate) entries: Option<u64>,
    /// RAM that the index may use [default: as in the paper: CLAM 4 bytes for each entry, and 800 KiB in addition; SILT
    /// 0.7 bytes for each entry, or the minimum that the entries need]
    #[arg(long, value_name = "BYTES")]
    pub(crate) ram: Option<Size>,
    /// File for the index, on the SSD to be measured; must not exist, and is removed at the end [default: one in the
    /// folder]
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<PathBuf>,
    /// Number of threads for concurrent operations [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// `nitro-lab reproduce clam`
#[derive(Debug, Args)]
pub(crate) struct ClamArgs {
    #[command(flatten)]
    pub(crate) common: IndexPaperArgs,
    /// Price of SSD and RAM, in dollars; the default is the paper's price of 2009
    #[arg(long, default_value_t = ClamPaper::DOLLARS, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) dollars: f64,
    /// A file whose content is also sent through the WAN optimizer (its first GiB)
    #[arg(long, value_name = "FILE")]
    pub(crate) content: Option<PathBuf>,
}

/// `nitro-lab reproduce silt`
#[derive(Debug, Args)]
pub(crate) struct SiltArgs {
    #[command(flatten)]
    pub(crate) common: IndexPaperArgs,
}

/// `nitro-lab reproduce azor`
#[derive(Debug, Args)]
pub(crate) struct AzorArgs {
    /// Use small loads: takes seconds, with less precise figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Factor on the sizes of the loads; below 1, they become smaller
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub(crate) scale: f64,
    /// Folder of recorded traces: DiskSim's TPC-C sample (disksim/tpcc-small.trace) is run beside the synthetic load
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// Seed of the synthetic loads
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// `nitro-lab reproduce cos`
#[derive(Debug, Args)]
pub(crate) struct CosPaperArgs {
    /// Use small traces, a small volume and few generations: takes minutes, with less precise figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Size of the volume as a multiple of 256 MiB, or of 96 MiB with --quick; the volume has at least 208 MiB, or 80
    /// MiB with --quick
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub(crate) scale: f64,
    /// Run only these; Figures 9 and 10 have the same store, and are run together
    #[arg(long, value_delimiter = ',', value_name = "IDS", value_parser = ["table-2", "figure-9", "figure-10"])]
    pub(crate) only: Vec<String>,
    /// Number of experiments at a time; each takes RAM of its own [default: the machine's cores with --quick, otherwise 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// `nitro-lab reproduce data-domain`
#[derive(Debug, Args)]
pub(crate) struct DataDomainArgs {
    /// Use a small volume and few generations: takes half a minute, with less precise figures
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// `nitro-lab reproduce dss`
#[derive(Debug, Args)]
pub(crate) struct DssArgs {
    /// Use a small file set: takes less than a minute, with less precise figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder of recordings of real file systems, made by scripts/record-file-systems: the claims are also judged on each of
    /// them
    #[arg(long, value_name = "DIR")]
    pub(crate) recordings: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// Seed of the first of three loads
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) results: ResultArgs,
}

/// `nitro-lab reproduce`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ReproduceArgs {
    #[command(subcommand)]
    pub(crate) paper: Option<Paper>,
    #[command(flatten)]
    pub(crate) nitro: NitroArgs,
}

/// `nitro-lab reproduce nitro`
#[derive(Debug, Args)]
pub(crate) struct NitroArgs {
    /// Use scaled traces and few points: takes minutes instead of hours
    #[arg(long)]
    pub(crate) quick: bool,
    /// Factor on the size of the traces; below 1, they become smaller
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = factor)]
    pub(crate) scale: f64,
    /// Reproduce only these: traces, table-1, figure-1, figure-4, figure-5, figure-6, ssd-throughput, table-2, figure-7,
    /// figure-8, compressors, ssd-writes, sensitivity, recorded-traces
    #[arg(long, value_delimiter = ',', value_name = "IDS")]
    pub(crate) only: Vec<String>,
    /// Folder for the results; results of earlier runs in it are used again; created if it does not exist
    #[arg(long, default_value = "nitro-reproduction", value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Folder of recorded traces, in any format that `nitro-lab trace info` reads: claims that need no contents are also judged
    /// on each of them
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    /// Seed of the synthetic traces
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

fn dollars(text: &str) -> Result<f64, String> {
    between(text, 1.0, 1e9, "dollars")
}

fn factor(text: &str) -> Result<f64, String> {
    between(text, 0.01, 100.0, "times")
}
