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
    /// Time of the controller for each request.
    pub command: Nanos,
}

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
        }
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
