//! The report of an estimate.

use nitro_commands::estimate::{Regions, Tally, Totals};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use serde::Serialize;

/// An estimate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Report {
    image_bytes: u64,
    /// Bytes in holes of at least 1 MiB, which are not read.
    hole_bytes: u64,
    /// Bytes that sampling leaves out.
    skipped_bytes: u64,
    extent_sizes: Vec<BySize>,
}

/// The estimate for one extent size. Zero extents take no payload and are counted separately.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct BySize {
    extent_bytes: u64,
    extents: u64,
    zero_extents: u64,
    dedup_ratio: f64,
    /// Whether all fingerprints fitted into RAM; if not, the ratio is estimated from a sample.
    dedup_exact: bool,
    lz4_ratio: f64,
    zstd_ratio: f64,
    /// Payload of the data that were read, with deduplication and LZ4 or, in the next field, Zstandard.
    stored_lz4_bytes: u64,
    stored_zstd_bytes: u64,
}

const COLUMNS: [&str; 9] = [
    "extent_bytes",
    "extents",
    "zero_extents",
    "dedup_ratio",
    "dedup_exact",
    "lz4_ratio",
    "zstd_ratio",
    "stored_lz4_bytes",
    "stored_zstd_bytes",
];

impl Report {
    pub(super) fn new(regions: &Regions, tallies: &[Tally]) -> Self {
        Self {
            image_bytes: regions.size_bytes(),
            hole_bytes: regions.hole_bytes(),
            skipped_bytes: regions.skipped_bytes(),
            extent_sizes: tallies
                .iter()
                .map(|tally| BySize::new(tally.extent_bytes() as u64, tally.totals()))
                .collect(),
        }
    }

    pub(super) fn render(&self, format: Format) -> Result<String, Error> {
        match format {
            Format::Json => output::json_pretty(self),
            Format::Csv => Ok(self.csv()),
            Format::Table => Ok(self.table()),
        }
    }

    fn csv(&self) -> String {
        let mut table = Table::new(COLUMNS);
        for size in &self.extent_sizes {
            let ratio = |ratio: f64| format!("{ratio:.4}");
            table.row(vec![
                size.extent_bytes.to_string(),
                size.extents.to_string(),
                size.zero_extents.to_string(),
                ratio(size.dedup_ratio),
                size.dedup_exact.to_string(),
                ratio(size.lz4_ratio),
                ratio(size.zstd_ratio),
                size.stored_lz4_bytes.to_string(),
                size.stored_zstd_bytes.to_string(),
            ]);
        }
        table.csv(true)
    }

    fn table(&self) -> String {
        let read_bytes = self.image_bytes - self.hole_bytes - self.skipped_bytes;
        let mut out = format!("{} of {} read", Size(read_bytes), Size(self.image_bytes));
        for (bytes, why) in [(self.hole_bytes, "in holes"), (self.skipped_bytes, "not sampled")] {
            if bytes > 0 {
                out += &format!(", {} {why}", Size(bytes));
            }
        }
        let mut table =
            Table::new(["extent", "zero", "dedup", "LZ4", "dedup × LZ4", "stored", "Zstd", "dedup × Zstd", "stored"]);
        for size in &self.extent_sizes {
            let all = size.extents.max(1) as f64;
            let ratio = |ratio: f64| format!("{ratio:.2}");
            let about = if size.dedup_exact { "" } else { "~" };
            table.row(vec![
                Size(size.extent_bytes).to_string(),
                format!("{:.1} %", 100.0 * size.zero_extents as f64 / all),
                format!("{about}{:.2}", size.dedup_ratio),
                ratio(size.lz4_ratio),
                ratio(size.dedup_ratio * size.lz4_ratio),
                Size(size.stored_lz4_bytes).to_string(),
                ratio(size.zstd_ratio),
                ratio(size.dedup_ratio * size.zstd_ratio),
                Size(size.stored_zstd_bytes).to_string(),
            ]);
        }
        out += "\n\n";
        out += &table.aligned();
        if self.extent_sizes.iter().any(|size| !size.dedup_exact) {
            out += "\n~ estimated from a sample of the fingerprints, because all would have taken more RAM\n";
        }
        out
    }
}

impl BySize {
    fn new(extent_bytes: u64, totals: Totals) -> Self {
        let Totals { zeroes, others, dedup_ratio, exact, lz4_ratio, zstd_ratio } = totals;
        let stored = |ratio: f64| ((others * extent_bytes) as f64 / dedup_ratio / ratio).round() as u64;
        Self {
            extent_bytes,
            extents: zeroes + others,
            zero_extents: zeroes,
            dedup_ratio,
            dedup_exact: exact,
            lz4_ratio,
            zstd_ratio,
            stored_lz4_bytes: stored(lz4_ratio),
            stored_zstd_bytes: stored(zstd_ratio),
        }
    }
}
