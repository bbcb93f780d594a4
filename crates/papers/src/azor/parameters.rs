//! The set-up: each parameter with its source.

use super::bed::{CHUNK_BYTES, EXTENT_BYTES, SPINDLES};
use super::{SEEDS, Scale};
use crate::report::{Section, Table};
use nitro_console::size::Size;

const TALK: &str = "Azor's talk";
const ASSUMED: &str = "assumption";

/// The sizes of a load at the paper's scale, in GB, and the requests in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) data: f64,
    pub(super) dram: f64,
    /// The sizes of caches, from the smallest on.
    pub(super) caches: &'static [f64],
    pub(super) depth: u32,
}

/// TPC-H (Azor's talk, "Benchmarks"). One query runs at a time, and reads one request ahead: an assumption.
pub(super) const TPCH: Sizes = Sizes { data: 28.0, dram: 4.0, caches: &[7.0, 14.0, 28.0], depth: 2 };
/// SPECsfs (the same; "up to 2 TB"). The number of requests in progress is an assumption.
pub(super) const SFS: Sizes = Sizes { data: 2048.0, dram: 32.0, caches: &[128.0], depth: 32 };
/// TPC-C (the same). "Highly concurrent": the number of requests in progress is an assumption.
pub(super) const TPCC: Sizes = Sizes { data: 155.0, dram: 4.0, caches: &[77.5], depth: 64 };
/// The DRAM of SPECsfs, in GB, from the smallest on: an assumption, around the talk's 32 GB.
pub(super) const SFS_DRAM: [f64; 4] = [8.0, 16.0, 32.0, 64.0];

/// Lists the parameters.
pub(super) fn section(scale: &Scale) -> Section {
    let mut table = Table::new("Parameters", &["what", "the paper's", "here", "source"]);
    let mut row = |what: &str, theirs: &str, here: String, source: &str| {
        table.rows.push(vec![what.to_owned(), theirs.to_owned(), here, source.to_owned()]);
    };
    let gb = |gb: f64, divisor: u64| Size(scale.bytes(gb, divisor)).to_string();
    let caches = |sizes: Sizes, divisor| sizes.caches.iter().map(|s| gb(*s, divisor)).collect::<Vec<_>>().join(", ");
    row("disks", "12 SATA of 500 GB, RAID-0", format!("{SPINDLES} of 7200 rpm, scaled as the load is"), TALK);
    row("chunk of the RAID-0", "64 KB", Size(CHUNK_BYTES).to_string(), TALK);
    row("SSD", "4 × 32 GB SLC, RAID-0", "one with four times the rates".into(), TALK);
    row("requests per second of an SSD", "30,000 reads, 3,500 writes", "the same".into(), TALK);
    row("write policy", "write-through", "the same".into(), TALK);
    row("block of the cache", "4 KiB, one counter each", Size(u64::from(EXTENT_BYTES)).to_string(), TALK);
    for (name, sizes, divisor) in
        [("TPC-H", TPCH, scale.tpch), ("SPECsfs", SFS, scale.sfs), ("TPC-C", TPCC, scale.tpcc)]
    {
        let theirs = |gb: f64| format!("{gb} GB");
        row(&format!("{name}: scale"), "1", format!("1/{divisor}"), "");
        row(&format!("{name}: data"), &theirs(sizes.data), gb(sizes.data, divisor), TALK);
        row(&format!("{name}: DRAM"), &theirs(sizes.dram), gb(sizes.dram, divisor), TALK);
        let all = sizes.caches.iter().map(|size| theirs(*size)).collect::<Vec<_>>().join(", ");
        row(&format!("{name}: caches"), &all, caches(sizes, divisor), TALK);
        row(&format!("{name}: requests in progress"), "–", sizes.depth.to_string(), ASSUMED);
    }
    row("TPC-H: tables and their sizes", "TPC-H", "the same".into(), "TPC-H specification, clause 4.2.5");
    row("TPC-H: tables of each query", "TPC-H", "the same".into(), "TPC-H specification, clause 2.4");
    row("TPC-H: share of indices; scans; probes of indices", "–", "half; see the generator".into(), ASSUMED);
    row(
        "TPC-H: place of files on the volume",
        "XFS",
        "each in the next of 32 groups (inode32), contiguous there".into(),
        "Linux, Documentation/filesystems/xfs.txt; contiguous: assumption",
    );
    row("SPECsfs: files that are accessed", "30 %", "the same; popularity: Zipf, 0.8".into(), TALK);
    row(
        "SPECsfs: operations",
        "CIFS",
        "NFS: 18 % reads, 10 % writes, others on metadata".into(),
        "SPECsfs2008 User's Guide",
    );
    row(
        "SPECsfs: sizes of files",
        "SPECsfs2008",
        "1 KiB to 1 MiB, mean 27 KiB".into(),
        "SPEC SFS 3.0 User's Guide, Table 2",
    );
    row(
        "TPC-C: rows, mix, skew",
        "TPC-C",
        "the same (NURand)".into(),
        "TPC-C specification, clauses 1.2.1, 2.1.6, 5.2.3",
    );
    row(
        "TPC-C: pages, log, delay of writes",
        "–",
        "16 KiB; 16 KiB for 4 transactions; 0.5 % of the pages".into(),
        ASSUMED,
    );
    Section {
        id: "azor-parameters",
        title: "Set-up".into(),
        text: format!(
            "The loads are synthetic: neither the benchmarks' runs nor their traces are public. What is published about \
               them is used, and the rest is assumed; the table says which is which. Sizes are scaled down; disks are scaled with \
               them, so that arms move over the same share of a disk. All figures are means of {} seeds. Requests are issued in closed loops, in virtual time. \
               Metadata of the file server has its class, as recordings have by detection.",
            SEEDS
        ),
        tables: vec![table],
        ..Section::default()
    }
}
