//! Traces like those of Florida International University: file systems of a web server, a mail server and home
//! directories, over three weeks, with content.

mod history;
mod reader;

pub use reader::FiuLikeReader;

use super::BLOCK_BYTES;
use crate::TraceError;

const DAY_S: f64 = 86_400.0;
/// Blocks that lie side by side; clusters are spread over the volume at random.
const CLUSTER_BLOCKS: u64 = 64;
/// Sectors of 512 bytes in a block.
const SECTORS: f64 = 8.0;
/// Requests have 1, 2, 4, … 32 blocks.
const SIZES: usize = 6;
/// What a block held before the trace has numbers from here on.
const INITIAL: u32 = 1 << 31;
/// Memory is in proportion to the footprint: 4 bytes for each of at most so many blocks.
const FOOTPRINT_BLOCKS_MAX: f64 = 1e9;

/// A synthetic trace with the published figures of one of the FIU traces. It is *not* that trace: its addresses, times
/// and reuse are made up.
///
/// Sources: Nitro §5 for file system and footprint; the counts of sectors read and written in 21 days, as programs that read the
/// traces have them in a header, for blocks and writes per read; the counts of blocks that go with the traces for unique content
/// among what is written (Mail's are a day's). Nitro has 4.3 writes per read for Mail, the header 8.0; for WebVM and Homes they
/// agree (3.6 and 4.2). Fields marked as assumptions follow from no published figure, and were not chosen by what any cache makes
/// of the trace.
#[derive(Debug, Clone, PartialEq)]
pub struct FiuLike {
    /// Bytes of the file system.
    pub volume_bytes: f64,
    /// Share of it that is ever touched.
    pub footprint_share: f64,
    /// 4 KiB blocks read and written.
    pub blocks: f64,
    /// Writes per read.
    pub writes_per_read: f64,
    /// Share of written blocks whose content was written before.
    pub duplicate_share: f64,
    /// Share of the duplicates among what is overwritten that the same content overwrites: an assumption. The others
    /// are contents that were written recently, anywhere.
    pub same_place_share: f64,
    /// Share of read blocks that nothing went to before: an assumption.
    pub first_read_share: f64,
    /// Share of the other reads that come back to what was read, and of the other writes that come back to what was written; the rest
    /// come back to either: an assumption.
    pub own_share: f64,
    /// Bytes of what the volume holds before the trace over bytes of its distinct content: that of the only file system of which
    /// Nitro tells it, the booting machine's (§5).
    pub initial_dedup: f64,
    /// Shares of requests of 1, 2, 4, 8, 16 and 32 blocks: assumptions, but for Mail's 29 % of at most 8 KiB.
    pub sizes: [f64; SIZES],
    /// Days.
    pub days: f64,
    /// Volume, footprint and blocks are multiplied by this; 1 is the published size.
    pub scale: f64,
    /// Another seed makes another trace.
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
            initial_dedup: 1.2,
            sizes: [0.35, 0.15, 0.2, 0.15, 0.1, 0.05],
            days: 21.0,
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
            initial_dedup: 1.2,
            sizes: [0.4, 0.15, 0.15, 0.15, 0.1, 0.05],
            days: 21.0,
            scale,
            seed,
        }
    }

    /// Mail: an e-mail server. 460 million blocks in 21 days, of which 3 % are the first to their place; three quarters of these are
    /// taken to be reads, since Mail reads more places than it writes.
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
            initial_dedup: 1.2,
            sizes: [0.21, 0.08, 0.24, 0.31, 0.12, 0.04],
            days: 21.0,
            scale,
            seed,
        }
    }

    /// Blocks ever touched.
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
            return Err(TraceError::setting("the footprint is not from 64 to a thousand million blocks"));
        }
        let clusters = libm::ceil(footprint / CLUSTER_BLOCKS as f64) + SIZES as f64;
        let fits = clusters * (CLUSTER_BLOCKS * BLOCK_BYTES) as f64 <= self.volume_bytes * self.scale;
        if !fits || self.blocks * self.scale < footprint || self.blocks * self.scale > f64::from(INITIAL) {
            return Err(TraceError::setting("too few blocks, or too small a volume, for the footprint; or too many"));
        }
        if !(0.0..=1.0).contains(&self.first_write_share()) {
            return Err(TraceError::setting("reads and writes cannot make up the footprint"));
        }
        if !(1.0..=1000.0).contains(&self.initial_dedup) {
            return Err(TraceError::setting("the initial dedup ratio is not from 1 to 1000"));
        }
        Ok(())
    }

    /// The share of writes that go where nothing went before, so that the footprint is reached.
    fn first_write_share(&self) -> f64 {
        let first = self.footprint_blocks() / (self.blocks * self.scale);
        let reads = 1.0 / (1.0 + self.writes_per_read);
        (first - reads * self.first_read_share) / (1.0 - reads)
    }

    /// The trace.
    ///
    /// # Errors
    /// A parameter makes no sense.
    pub fn reader(&self) -> Result<FiuLikeReader, TraceError> {
        self.check()?;
        Ok(FiuLikeReader::new(self))
    }
}
