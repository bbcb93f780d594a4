//! How long the flash needs.

use crate::{Geometry, Nanos};
use serde::Serialize;

/// Durations of the operations and speeds of the ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// Reading a page into its plane's register.
    pub read: Nanos,
    /// Programming a page from its plane's register.
    pub program: Nanos,
    /// Erasing an erase block.
    pub erase: Nanos,
    /// What a channel transfers between controller and planes, in bytes a second.
    pub channel_bytes_per_second: u64,
    /// What the host's link transfers, both directions together, in bytes a second.
    pub link_bytes_per_second: u64,
    /// Time of the controller for each request; several have it at once.
    pub command: Nanos,
    /// What the controller does for each read, and for no other request meanwhile.
    pub each_read: Nanos,
    /// The same for each write and trim.
    pub each_write: Nanos,
}

/// Random reads of 8 KiB a second of the paper's drive (Nitro §5.3).
pub const NITRO_READS: u32 = 18_700;
/// The same of random writes.
pub const NITRO_WRITES: u32 = 4_200;

impl Timing {
    /// Micron's 64 Gb MLC NAND (data sheet L74A, rev. G): page read 75 µs, program 1300 µs, 200 MT/s on a channel; erasing
    /// as [`erase_of`](Self::erase_of) says; a SATA-2 link of 3 Gb/s (Nitro §5.3), which is 300 MB/s with 8b/10b; 10 µs
    /// for a command.
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

    /// The same flash behind the controller of the paper's drive, as its 18,700 random reads and 4,200 random writes of 8 KiB a second
    /// were measured (Nitro §5.3). Flash and link alone would do two and three times as much, so that the controller is what limits both:
    /// a time for each request, whatever its size. Nothing else is fitted: what larger requests reach is a prediction.
    #[must_use]
    pub fn nitros_drive(geometry: &Geometry) -> Self {
        Self::of_drive(geometry, NITRO_READS, NITRO_WRITES)
    }

    /// The same with a controller that does so many random reads and writes a second, at least 1 each, where flash and link allow it.
    #[must_use]
    pub fn of_drive(geometry: &Geometry, reads: u32, writes: u32) -> Self {
        let each = |per_second: u32| Nanos(1_000_000_000 / u64::from(per_second.max(1)));
        Self { each_read: each(reads), each_write: each(writes), ..Self::for_geometry(geometry) }
    }

    /// Time to erase a block of `bytes`: 2 ms for 128 KiB and 3.8 ms for 2 MiB (Nitro §5.3), 0.45 ms more for each doubling
    /// between and beyond, and at least 1 ms.
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
