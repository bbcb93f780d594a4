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
/// Requests have 1, 2, 4, … 32 blocks.
const SIZES: usize = 6;
/// What a block held before the trace has numbers from here on.
const INITIAL: u32 = 1 << 31;
/// Memory is in proportion to the footprint: 4 bytes for each of at most so many blocks.
const FOOTPRINT_BLOCKS_MAX: f64 = 1e9;

/// A synthetic trace with the published figures of one of the FIU traces. It is *not* that trace: its addresses, times
/// and reuse are made up.
///
/// Sources: Nitro §5 for file system, footprint and writes per read; the counts of blocks that go with the traces for
/// requests and unique content. The two do not agree on the writes per read of Homes and Mail (23 and 11 by the counts);
/// Nitro's are used, and the counts for the whole and for the share of unique content among writes. Fields marked as
/// assumptions were chosen so that the dedup ratio of what the file systems hold in the end is in the order of Nitro's
/// Figure 1: 1.3 for WebVM, 1.5 for Homes. Mail's is 3.3; with nine of ten written blocks duplicates it cannot be 2.
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
    /// Share of duplicates among what is written where nothing went before, that is of copies: an assumption. Among what
    /// is overwritten there are as many more as make up `duplicate_share`.
    pub copy_share: f64,
    /// Share of the duplicates among what is overwritten that the same content overwrites: an assumption.
    pub same_place_share: f64,
    /// Share of reads that go where nothing went before: an assumption.
    pub first_read_share: f64,
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
            blocks: 14_294_158.0,
            writes_per_read: 3.6,
            duplicate_share: 1.0 - 5_885_997.0 / 11_177_702.0,
            copy_share: 0.8,
            same_place_share: 0.7,
            first_read_share: 0.15,
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
            blocks: 17_836_701.0,
            writes_per_read: 4.2,
            duplicate_share: 1.0 - 11_356_165.0 / 17_110_237.0,
            copy_share: 0.9,
            same_place_share: 0.5,
            first_read_share: 0.5,
            sizes: [0.4, 0.15, 0.15, 0.15, 0.1, 0.05],
            days: 21.0,
            scale,
            seed,
        }
    }

    /// Mail: an e-mail server.
    #[must_use]
    pub const fn mail(scale: f64, seed: u64) -> Self {
        Self {
            volume_bytes: 500e9,
            footprint_share: 0.115,
            blocks: 22_711_276.0,
            writes_per_read: 4.3,
            duplicate_share: 1.0 - 1_871_292.0 / 20_762_862.0,
            copy_share: 0.85,
            same_place_share: 0.7,
            first_read_share: 0.95,
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
        let duplicates = [self.duplicate_share, self.copy_share, self.same_place_share];
        let shares = [self.footprint_share, self.first_read_share];
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
        if !(0.0..=1.0).contains(&self.overwrite_duplicate_share()) {
            return Err(TraceError::setting("copies and overwrites cannot make up the duplicates"));
        }
        Ok(())
    }

    /// The share of writes that go where nothing went before, so that the footprint is reached.
    fn first_write_share(&self) -> f64 {
        let first = self.footprint_blocks() / (self.blocks * self.scale);
        let reads = 1.0 / (1.0 + self.writes_per_read);
        (first - reads * self.first_read_share) / (1.0 - reads)
    }

    /// The share of duplicates among what is overwritten.
    fn overwrite_duplicate_share(&self) -> f64 {
        let first = self.first_write_share();
        if first >= 1.0 { 0.0 } else { (self.duplicate_share - first * self.copy_share) / (1.0 - first) }
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
