//! The published figures of the FIU traces, by source.

use crate::nitro::Fiu;

/// Sectors of 512 bytes in a block of 4 KiB.
const SECTORS: f64 = 8.0;

/// The figures of one trace, at its published size.
#[derive(Debug, Clone, Copy)]
pub(in crate::nitro) struct Published {
    /// Nitro §5: the size of the file system in GB.
    pub(in crate::nitro) volume_gb: f64,
    /// Nitro §5: the share of the file system that is accessed, in percent.
    pub(in crate::nitro) accessed_percent: f64,
    /// Nitro §5.
    pub(in crate::nitro) writes_per_read: f64,
    /// Nitro §6.2, of Mail alone: the share of requests of at most 8 KiB, in percent.
    pub(in crate::nitro) small_percent: Option<f64>,
    pub(in crate::nitro) header: Header,
    pub(in crate::nitro) sample: Sample,
    pub(in crate::nitro) blocks: BlockCounts,
}

/// A line of the header file of public programs that replay the traces.
#[derive(Debug, Clone, Copy)]
pub(in crate::nitro) struct Header {
    pub(in crate::nitro) records: f64,
    sectors_read: f64,
    sectors_written: f64,
}

impl Header {
    /// Blocks of 4 KiB that are read.
    pub(in crate::nitro) fn read(&self) -> f64 {
        self.sectors_read / SECTORS
    }

    /// Blocks of 4 KiB that are written.
    pub(in crate::nitro) fn written(&self) -> f64 {
        self.sectors_written / SECTORS
    }

    /// The mean size of a record in KiB.
    pub(in crate::nitro) fn mean_kib(&self) -> f64 {
        (self.sectors_read + self.sectors_written) / 2.0 / self.records
    }
}

/// Figures of a public sample: 1,000 records of WebVM and of Homes, all writes; 9,418 of Mail, 89 % reads.
#[derive(Debug, Clone, Copy)]
pub(in crate::nitro) struct Sample {
    /// The share of records that continue a stream, in percent.
    pub(in crate::nitro) sequential_percent: f64,
    /// The mean size of a run of records in KiB. A run has records of one kind, each of which begins where and within a
    /// millisecond of when the one before it ended.
    pub(in crate::nitro) run_kib: f64,
    /// The share of runs of at most 8 KiB, in percent.
    pub(in crate::nitro) small_percent: f64,
}

/// The counts of 4 KiB blocks that are published for the traces.
#[derive(Debug, Clone, Copy)]
pub(in crate::nitro) struct BlockCounts {
    pub(in crate::nitro) all: f64,
    pub(in crate::nitro) written: f64,
    pub(in crate::nitro) unique_written: f64,
    /// The part of the trace: by the header's sectors, Mail's counts are those of about a day.
    pub(in crate::nitro) name: &'static str,
}

impl BlockCounts {
    pub(in crate::nitro) fn read(&self) -> f64 {
        self.all - self.written
    }

    /// Blocks written for each unique one.
    pub(in crate::nitro) fn per_unique(&self) -> f64 {
        self.written / self.unique_written
    }

    /// Bytes of the unique blocks.
    pub(in crate::nitro) fn unique_bytes(&self) -> f64 {
        self.unique_written * 4096.0
    }
}

/// FIU's page of the traces: 1 to 21 November 2008.
pub(in crate::nitro) const DAYS: f64 = 21.0;
/// Nitro §3: the median size of requests, in KiB.
pub(in crate::nitro) const MEDIAN_KIB: f64 = 8.0;
/// The size of every record in the public samples (1,000 records of WebVM and of Homes, 10,000 of Mail), in KiB.
pub(in crate::nitro) const SAMPLES_KIB: f64 = 4.0;
/// Nitro's Figure 1: about 2.0 in all traces.
pub(in crate::nitro) const FIGURE_1: f64 = 2.0;

const COUNTS: &str = "block counts";

impl Published {
    pub(in crate::nitro) const fn of(fiu: Fiu) -> Self {
        match fiu {
            Fiu::WebVm => Self {
                volume_gb: 70.0,
                accessed_percent: 5.3,
                writes_per_read: 3.6,
                small_percent: None,
                header: Header { records: 14_294_158.0, sectors_read: 24_931_648.0, sectors_written: 89_421_616.0 },
                sample: Sample { sequential_percent: 90.4, run_kib: 19.5, small_percent: 65.0 },
                blocks: BlockCounts {
                    all: 14_294_158.0,
                    written: 11_177_702.0,
                    unique_written: 5_885_997.0,
                    name: COUNTS,
                },
            },
            Fiu::Homes => Self {
                volume_gb: 470.0,
                accessed_percent: 5.8,
                writes_per_read: 4.2,
                small_percent: None,
                header: Header { records: 17_836_701.0, sectors_read: 32_418_889.0, sectors_written: 136_881_792.0 },
                sample: Sample { sequential_percent: 60.2, run_kib: 7.2, small_percent: 85.0 },
                blocks: BlockCounts {
                    all: 17_836_701.0,
                    written: 17_110_237.0,
                    unique_written: 11_356_165.0,
                    name: COUNTS,
                },
            },
            Fiu::Mail => Self {
                volume_gb: 500.0,
                accessed_percent: 11.5,
                writes_per_read: 4.3,
                small_percent: Some(29.0),
                header: Header {
                    records: 460_334_027.0,
                    sectors_read: 410_786_016.0,
                    sectors_written: 3_271_886_200.0,
                },
                sample: Sample { sequential_percent: 96.4, run_kib: 32.4, small_percent: 42.0 },
                blocks: BlockCounts {
                    all: 22_711_276.0,
                    written: 20_762_862.0,
                    unique_written: 1_871_292.0,
                    name: "block counts of about a day",
                },
            },
        }
    }
}
