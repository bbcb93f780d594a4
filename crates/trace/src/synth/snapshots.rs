//! A chain of daily snapshots of a virtual machine, and restores from it (Nitro §5 and §6.3, Figure 10).

use super::{BLOCK_BYTES, print};
use crate::rng::{Rng, hash, unit};
use crate::{Op, Reader, Request, TraceError};

const DAY_NS: u64 = 86_400 * 1_000_000_000;
/// Nominal time of a backup or restore per MiB: that of 256 MiB/s. A replay may be slower or faster.
const NS_PER_MIB: u64 = 1_000_000_000 / 256;
/// A seed for the choice of the parts of the image that never change.
const PINNED: u64 = 0x5049_4E4E;

/// A chain of snapshots. Snapshot `n` is the image after `n` days; the last one is the *primary*.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotChain {
    /// Bytes of the image: 38 GB in the paper.
    pub image_bytes: u64,
    /// Number of snapshots: 100 in the paper.
    pub snapshots: u32,
    /// Share of the image overwritten from one day to the next: 0.023 in the paper.
    pub daily_change: f64,
    /// Share of the image that is never overwritten: an assumption, chosen so that the overlap with the primary falls
    /// from about 80 % (the newest 25 snapshots) to 20 % (the oldest 25), as in Figure 10.
    pub pinned_share: f64,
    /// Bytes of a unit that changes as a whole: an assumption.
    pub change_bytes: u64,
    /// Bytes of the requests that read or write a whole image: 512 KiB in the paper.
    pub request_bytes: u64,
    /// The seed: another one results in another chain.
    pub seed: u64,
}

impl Default for SnapshotChain {
    fn default() -> Self {
        Self {
            image_bytes: 38_000_000_000 / (512 << 10) * (512 << 10),
            snapshots: 100,
            daily_change: 0.023,
            pinned_share: 0.12,
            change_bytes: 64 << 10,
            request_bytes: 512 << 10,
            seed: 1,
        }
    }
}

impl SnapshotChain {
    fn check(&self, snapshot: u32) -> Result<(), TraceError> {
        let block_wise = |bytes: u64| bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES);
        if ![self.image_bytes, self.change_bytes, self.request_bytes].into_iter().all(block_wise) {
            return Err(TraceError::setting(
                "the size of the image, of changes or of requests is 0 or not a multiple of 4096 bytes",
            ));
        }
        if self.request_bytes > 64 << 20 || self.image_bytes > 1 << 50 || self.snapshots > 1 << 16 {
            return Err(TraceError::setting(
                "requests are above 64 MiB, the image is above 1 PiB, or there are more than 65536 snapshots",
            ));
        }
        if snapshot >= self.snapshots {
            return Err(TraceError::setting("there is no snapshot of that number"));
        }
        let change = self.daily_change / (1.0 - self.pinned_share);
        if !(0.0..1.0).contains(&self.pinned_share) || !(0.0..1.0).contains(&change) {
            return Err(TraceError::setting("the shares of the image are not from 0 to 1"));
        }
        Ok(())
    }

    /// The last day, up to `day`, on which a change unit was overwritten; 0 if it never was.
    fn version(&self, change_unit: u64, day: u32) -> u32 {
        if unit(hash(self.seed ^ PINNED, change_unit)) < self.pinned_share || self.daily_change == 0.0 {
            return 0;
        }
        // Days between two changes are geometrically distributed.
        let log_same = libm::log1p(-self.daily_change / (1.0 - self.pinned_share));
        let mut rng = Rng::new(hash(self.seed, change_unit));
        let mut version = 0;
        loop {
            let next = f64::from(version) + 1.0 + libm::floor(libm::log(1.0 - rng.unit()) / log_same);
            if next > f64::from(day) {
                return version;
            }
            version = next as u32;
        }
    }

    /// The share of the image that two snapshots have in common, from 0 to 1.
    #[must_use]
    pub fn overlap(&self, one: u32, other: u32) -> f64 {
        let units = self.image_bytes.div_ceil(self.change_bytes.max(1));
        let same = (0..units).filter(|&change| self.version(change, one) == self.version(change, other)).count();
        same as f64 / units as f64
    }

    fn reader(&self, first: u32, behind: u32, pass: Pass) -> SnapshotReader {
        SnapshotReader { chain: self.clone(), pass, snapshot: first, behind, offset: 0, time_ns: 0 }
    }

    /// The backups: writes of all snapshots, one per day, each as an object of its own.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn backups(&self) -> Result<SnapshotReader, TraceError> {
        self.check(0)?;
        Ok(self.reader(0, self.snapshots, Pass::Backup))
    }

    /// The machine's own writes to object 0: the whole image on day 0, then the changes of each day.
    ///
    /// # Errors
    /// A parameter is invalid.
    pub fn changes(&self) -> Result<SnapshotReader, TraceError> {
        self.check(0)?;
        Ok(self.reader(0, self.snapshots, Pass::Changes))
    }

    /// A restore: reads of a whole snapshot, which is object `snapshot`.
    ///
    /// # Errors
    /// A parameter is invalid, or the snapshot does not exist.
    pub fn restore(&self, snapshot: u32) -> Result<SnapshotReader, TraceError> {
        self.check(snapshot)?;
        Ok(self.reader(snapshot, snapshot + 1, Pass::Restore))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    Backup,
    Changes,
    Restore,
}

/// The reader of [`SnapshotChain`].
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    chain: SnapshotChain,
    pass: Pass,
    snapshot: u32,
    /// The number after the last snapshot.
    behind: u32,
    offset: u64,
    time_ns: u64,
}

impl SnapshotReader {
    /// Offset and length of the next request in bytes.
    fn next_range(&mut self) -> Option<(u64, u64)> {
        let chain = &self.chain;
        while self.snapshot < self.behind {
            let only_changes = self.pass == Pass::Changes && self.snapshot > 0;
            while self.offset < chain.image_bytes {
                let start = self.offset;
                let step = if only_changes { chain.change_bytes } else { chain.request_bytes };
                self.offset = (start + step).min(chain.image_bytes);
                let change = start / chain.change_bytes;
                if !only_changes || chain.version(change, self.snapshot) == self.snapshot {
                    return Some((start, self.offset - start));
                }
            }
            self.snapshot += 1;
            self.offset = 0;
            self.time_ns = u64::from(self.snapshot) * DAY_NS;
        }
        None
    }
}

impl Reader for SnapshotReader {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let Some((offset, len)) = self.next_range() else { return Ok(false) };
        request.clear();
        let chain = &self.chain;
        request.op = if self.pass == Pass::Restore { Op::Read } else { Op::Write };
        request.object = if self.pass == Pass::Changes { 0 } else { self.snapshot };
        request.time_ns = self.time_ns;
        (request.offset, request.len) = (offset, len);
        request.block_bytes = BLOCK_BYTES as u32;
        let mut known = None;
        for block in request.blocks(BLOCK_BYTES) {
            let change = block * BLOCK_BYTES / chain.change_bytes;
            let version = match known {
                Some((same, version)) if same == change => version,
                _ => chain.version(change, self.snapshot),
            };
            known = Some((change, version));
            request.fingerprints.push(print(chain.seed, u64::from(version) << 40 | block));
        }
        self.time_ns += (len * NS_PER_MIB) >> 20;
        Ok(true)
    }
}
