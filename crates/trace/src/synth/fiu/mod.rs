//! Traces that resemble those of Florida International University: file systems of a web server, a mail server and home
//! directories over three weeks, with content.

mod digest;
mod history;
mod reader;
mod records;

pub use reader::FiuLikeReader;
pub use records::FiuLikeRecords;

use super::BLOCK_BYTES;
use crate::TraceError;

const DAY_S: f64 = 86_400.0;
/// Blocks of a cluster, which are adjacent; clusters are at random places of the volume.
const CLUSTER_BLOCKS: u64 = 64;
/// Sectors of 512 bytes in a block.
const SECTORS: f64 = 8.0;
/// Number of request sizes: 1, 2, 4, … 32 blocks.
const SIZES: usize = 6;
/// The first number of contents that blocks had before the trace.
const INITIAL: u32 = 1 << 31;
/// Most blocks of the footprint. Each takes 4 bytes of memory.
const FOOTPRINT_BLOCKS_MAX: f64 = 1e9;

/// A synthetic trace with the published figures of one of the FIU traces. It is *not* that trace: its addresses, times
/// and reuse are generated.
///
/// Sources:
/// - File system and footprint: Nitro §5.
/// - Blocks and writes per read: the counts of sectors read and written in 21 days, from a header file of programs that
///   read the traces.
/// - Unique content of writes: the counts of 4 KiB blocks (all, written, unique written) that are published with the
///   traces (for Mail, those of about a day).
///
/// Where sources disagree:
/// - Writes per read: for Mail, Nitro has 4.3, the header 8.0, the counts of a day 10.7. For WebVM all agree (3.6). For
///   Homes, Nitro and the header have 4.2, but the counts of blocks 23.6: they have 0.7 million blocks read, the
///   header's sectors 4.1 million.
/// - Unique content: by the counts of blocks, 1.90 are written for each unique one in WebVM, 1.51 in Homes and 11.1 in
///   Mail's day. Nitro has about 2.0 for all (Figure 1), and less for WebVM than for Homes and Mail (§6.1).
/// - Sizes: a record of the traces has 4 KiB in the mean (Homes 4.7), by the header, and every record of the public
///   samples has 4 KiB; but Nitro has requests with a median of 8 KiB (§3), and 29 % of Mail's of at most 8 KiB (§6.2).
///   In the samples, records that continue one another follow within 35 µs in the median: the tracer cut requests into
///   records. [`reader`](Self::reader) has the requests, [`records`](Self::records) the records.
///
/// Fields marked as assumptions do not follow from published figures, and were not chosen by the results of any cache.
#[derive(Debug, Clone, PartialEq)]
pub struct FiuLike {
    /// Bytes of the file system.
    pub volume_bytes: f64,
    /// Share of the volume that is read or written.
    pub footprint_share: f64,
    /// Number of 4 KiB blocks read and written.
    pub blocks: f64,
    /// Writes per read.
    pub writes_per_read: f64,
    /// Share of written blocks whose content was written before.
    pub duplicate_share: f64,
    /// Share of the duplicates written over written blocks that leave the content unchanged: an assumption. The others
    /// have the content of recent writes to any place.
    pub same_place_share: f64,
    /// Share of read blocks that no request touched before: an assumption.
    pub first_read_share: f64,
    /// Share of the other reads that return to the places of reads, and of the other writes that return to the places
    /// of writes: an assumption. The rest return to places of either.
    pub own_share: f64,
    /// How far requests return: the density of the logarithm of an age, from the least to the greatest, is proportional to
    /// its position to the power of this number, above −1. 0, the assumption of the three traces, is a uniform
    /// distribution; more means later returns.
    pub reuse: f64,
    /// Dedup ratio of the volume's content before the trace: that of the booting machine's file system, the only one
    /// for which Nitro (§5) has it.
    pub initial_dedup: f64,
    /// Shares of requests of 1, 2, 4, 8, 16 and 32 blocks. WebVM and Homes have Nitro's median of 8 KiB, and above it the
    /// shares of the samples' runs: records that continue one another within a millisecond. Mail, whose sample has
    /// mostly reads, has Nitro's 29 % of at most 8 KiB; the other shares are assumptions.
    pub sizes: [f64; SIZES],
    /// The mean size of a record in blocks, from 1 to 1.5: a record has one block or two.
    pub record_blocks: f64,
    /// Length of the trace in days.
    pub days: f64,
    /// The share by which the rate of requests rises above its mean in the afternoon, and falls below it at night: an
    /// assumption.
    pub rhythm: f64,
    /// Factor of volume, footprint and number of blocks; 1 is the published size.
    pub scale: f64,
    /// The seed: another one results in another trace.
    pub seed: u64,
}

impl FiuLike {
    /// WebVM: a virtual machine with two web servers.
    #[must_use]
    pub const fn web_vm(scale: f64, seed: u64) -> Self {
        Self {
            volume_bytes: 70e9,
            footprint_share: 0.053,
            blocks: (24_931_648.0 + 89_421_616.0) / SECTORS,
            writes_per_read: 89_421_616.0 / 24_931_648.0,
            duplicate_share: 1.0 - 5_885_997.0 / 11_177_702.0,
            same_place_share: 0.5,
            first_read_share: 0.15,
            own_share: 0.0,
            reuse: 0.0,
            initial_dedup: 1.2,
            sizes: [0.49, 0.164, 0.073, 0.122, 0.112, 0.039],
            record_blocks: 1.0,
            days: 21.0,
            rhythm: 0.6,
            scale,
            seed,
        }
    }

    /// Homes: a file server with home directories.
    #[must_use]
    pub const fn homes(scale: f64, seed: u64) -> Self {
        Self {
            volume_bytes: 470e9,
            footprint_share: 0.058,
            blocks: (32_418_889.0 + 136_881_792.0) / SECTORS,
            writes_per_read: 136_881_792.0 / 32_418_889.0,
            duplicate_share: 1.0 - 11_356_165.0 / 17_110_237.0,
            same_place_share: 0.5,
            first_read_share: 0.5,
            own_share: 0.0,
            reuse: 0.0,
            initial_dedup: 1.2,
            sizes: [0.49, 0.356, 0.101, 0.024, 0.025, 0.004],
            record_blocks: (32_418_889.0 + 136_881_792.0) / SECTORS / 17_836_701.0,
            days: 21.0,
            rhythm: 0.6,
            scale,
            seed,
        }
    }

    /// Mail: an e-mail server. Of 460 million blocks in 21 days, 3 % are the first access to their place. It is assumed
    /// that three quarters of these are reads, since Mail reads more places than it writes.
    #[must_use]
    pub const fn mail(scale: f64, seed: u64) -> Self {
        Self {
            volume_bytes: 500e9,
            footprint_share: 0.115,
            blocks: (410_786_016.0 + 3_271_886_200.0) / SECTORS,
            writes_per_read: 3_271_886_200.0 / 410_786_016.0,
            duplicate_share: 1.0 - 1_871_292.0 / 20_762_862.0,
            same_place_share: 0.5,
            first_read_share: 0.205,
            own_share: 0.8,
            reuse: 0.0,
            initial_dedup: 1.2,
            sizes: [0.21, 0.08, 0.24, 0.31, 0.12, 0.04],
            record_blocks: 1.0,
            days: 21.0,
            rhythm: 0.6,
            scale,
            seed,
        }
    }

    /// Number of blocks that are read or written.
    fn footprint_blocks(&self) -> f64 {
        self.volume_bytes * self.scale * self.footprint_share / BLOCK_BYTES as f64
    }

    fn check(&self) -> Result<(), TraceError> {
        let duplicates = [self.duplicate_share, self.same_place_share];
        let shares = [self.footprint_share, self.first_read_share, self.own_share];
        if duplicates.iter().chain(&shares).chain(&self.sizes).any(|share| !(0.0..=1.0).contains(share)) {
            return Err(TraceError::setting("a share is not from 0 to 1"));
        }
        if (self.sizes.iter().sum::<f64>() - 1.0).abs() > 1e-6 {
            return Err(TraceError::setting("the shares of request sizes do not add up to 1"));
        }
        let amounts = [self.volume_bytes, self.blocks, self.days, self.scale, self.writes_per_read];
        if amounts.iter().any(|amount| !amount.is_finite() || *amount <= 0.0) {
            return Err(TraceError::setting("a size, a number or the scale is not above 0"));
        }
        let footprint = self.footprint_blocks();
        if !(CLUSTER_BLOCKS as f64..=FOOTPRINT_BLOCKS_MAX).contains(&footprint) {
            return Err(TraceError::setting("the footprint is not from 64 to 10^9 blocks"));
        }
        let clusters = libm::ceil(footprint / CLUSTER_BLOCKS as f64) + SIZES as f64;
        let fits = clusters * (CLUSTER_BLOCKS * BLOCK_BYTES) as f64 <= self.volume_bytes * self.scale;
        if !fits || self.blocks * self.scale < footprint || self.blocks * self.scale > f64::from(INITIAL) {
            return Err(TraceError::setting(
                "the volume or the number of blocks is too small for the footprint, or there are too many blocks",
            ));
        }
        if !(0.0..=1.0).contains(&self.first_write_share()) {
            return Err(TraceError::setting("the first reads and writes cannot add up to the footprint"));
        }
        if !(0.0..=0.99).contains(&self.rhythm) {
            return Err(TraceError::setting("the daily rhythm is not from 0 to 0.99"));
        }
        if !(1.0..=1.5).contains(&self.record_blocks) {
            return Err(TraceError::setting("the mean record is not from 1 to 1.5 blocks"));
        }
        if !(-0.9..=100.0).contains(&self.reuse) {
            return Err(TraceError::setting("the exponent of reuse is not from -0.9 to 100"));
        }
        if !(1.0..=1000.0).contains(&self.initial_dedup) {
            return Err(TraceError::setting("the initial dedup ratio is not from 1 to 1000"));
        }
        Ok(())
    }

    /// The share of writes to places that no request touched before, with which the footprint is reached.
    fn first_write_share(&self) -> f64 {
        let first = self.footprint_blocks() / (self.blocks * self.scale);
        let reads = 1.0 / (1.0 + self.writes_per_read);
        (first - reads * self.first_read_share) / (1.0 - reads)
    }

    /// The reader of the trace.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn reader(&self) -> Result<FiuLikeReader, TraceError> {
        self.check()?;
        Ok(FiuLikeReader::new(self))
    }

    /// The reader of the records into which a tracer cuts the requests of [`reader`](Self::reader).
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn records(&self) -> Result<FiuLikeRecords, TraceError> {
        Ok(FiuLikeRecords::new(self.reader()?, self))
    }
}
