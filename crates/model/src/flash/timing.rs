//! The durations of the flash's operations.

use crate::{Geometry, Nanos};
use serde::Serialize;

/// Durations of operations, and transfer rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Reading a page into its plane's register.
    pub read: Nanos,
    /// Programming a page from its plane's register.
    pub program: Nanos,
    /// Erasing an erase block.
    pub erase: Nanos,
    /// The transfer rate of a channel, between controller and planes, in bytes per second.
    pub channel_bytes_per_second: u64,
    /// The transfer rate of the host's link, for both directions together, in bytes per second.
    pub link_bytes_per_second: u64,
    /// The controller's latency for each request; it processes several requests at once.
    pub command: Nanos,
    /// The time that the controller takes for each read, one request at a time.
    pub each_read: Nanos,
    /// The same for each write and trim.
    pub each_write: Nanos,
}

/// Random reads of 8 KiB per second of the paper's drive (Nitro §5.3).
pub const NITRO_READS: u32 = 18_700;
/// Random writes of 8 KiB per second of the paper's drive (Nitro §5.3).
pub const NITRO_WRITES: u32 = 4_200;

impl Timing {
    /// Micron's 64 Gb MLC NAND (data sheet L74A, rev. G): page read 75 µs, page program 1300 µs, channels of 200 MT/s,
    /// erasure as in [`erase_of`](Self::erase_of). The link is SATA-2 with 3 Gb/s (Nitro §5.3), which is 300 MB/s with
    /// 8b/10b. A command takes 10 µs.
    #[must_use]
    pub fn for_geometry(geometry: &Geometry) -> Self {
        Self {
            read: Nanos::from_us(75),
            program: Nanos::from_us(1300),
            erase: Self::erase_of(geometry.erase_block_bytes()),
            channel_bytes_per_second: 200_000_000,
            link_bytes_per_second: 300_000_000,
            command: Nanos::from_us(10),
            each_read: Nanos::ZERO,
            each_write: Nanos::ZERO,
        }
    }

    /// The same flash with the controller of the paper's drive, which does 18,700 random reads or 4,200 random writes
    /// of 8 KiB per second (Nitro §5.3). Flash and link alone would reach two to three times as many, so the controller
    /// is modelled as the bottleneck: a time for each request, of any size. No other parameter is fitted; the results
    /// for larger requests are predictions.
    #[must_use]
    pub fn nitros_drive(geometry: &Geometry) -> Self {
        Self::of_drive(geometry, NITRO_READS, NITRO_WRITES)
    }

    /// The same flash with a controller that does this number of random reads and writes per second (at least 1 each),
    /// if flash and link allow it.
    #[must_use]
    pub fn of_drive(geometry: &Geometry, reads: u32, writes: u32) -> Self {
        let each = |per_second: u32| Nanos(1_000_000_000 / u64::from(per_second.max(1)));
        Self { each_read: each(reads), each_write: each(writes), ..Self::for_geometry(geometry) }
    }

    /// A RAID-0 of `drives` (at least 1) of Azor's drive, the X25-E, as one: SLC flash with a page read of 25 µs, a page
    /// program of 250 µs (usual for SLC NAND of its time: an assumption) and a SATA-2 link for each drive. `reads` and `writes` are the
    /// random requests per second of one drive. Flash, channels, links and controllers are `drives` times as fast.
    #[must_use]
    pub fn of_slc_raid(geometry: &Geometry, reads: u32, writes: u32, drives: u32) -> Self {
        let one = Self::of_drive(geometry, reads.saturating_mul(drives), writes.saturating_mul(drives));
        let share = |us: u64| Nanos(us * 1000 / u64::from(drives.max(1)));
        Self {
            read: share(25),
            program: share(250),
            erase: Nanos(one.erase.0 / u64::from(drives.max(1))),
            channel_bytes_per_second: one.channel_bytes_per_second * u64::from(drives),
            link_bytes_per_second: one.link_bytes_per_second * u64::from(drives),
            // The response time of the paper's drive is 0.17 ms.
            command: Nanos::from_us(100),
            ..one
        }
    }

    /// The time to erase a block of `bytes`: 2 ms for 128 KiB and 3.8 ms for 2 MiB (Nitro §5.3). Other sizes follow by
    /// 0.45 ms for each doubling, with a minimum of 1 ms.
    #[must_use]
    pub fn erase_of(bytes: u64) -> Nanos {
        let doublings = (bytes.max(1) as f64 / f64::from(128 << 10)).log2();
        Nanos((2e6 + 0.45e6 * doublings).max(1e6).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasing_takes_what_the_paper_says() {
        assert_eq!(Timing::erase_of(128 << 10), Nanos::from_us(2000));
        assert_eq!(Timing::erase_of(2 << 20), Nanos::from_us(3800));
    }
}
