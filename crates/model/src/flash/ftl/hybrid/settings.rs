//! Settings of hybrid mapping, and the areas of the flash that follow from them.

use crate::Error;
use crate::flash::ftl::settings;
use serde::Serialize;

/// The smallest number of blocks beyond the logical ones: a sequential and a random log block, and one to merge into.
const RESERVE_BLOCKS: u32 = 3;

/// Settings of hybrid mapping.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HybridSettings {
    /// Flash beyond the logical capacity and the log, as a share of the logical capacity.
    pub over_provisioning: f64,
    /// Log blocks as a share of the logical blocks; there are at least two.
    pub log_share: f64,
    /// The share of the log blocks for sequential writes; there is at least one sequential and one random log block.
    pub sequential_share: f64,
    /// A request that covers this many pages of a logical block counts as sequential.
    pub long_pages: u32,
}

impl Default for HybridSettings {
    /// 7 % over-provisioning and a log of 10 % (Nitro §5.3); a quarter of the log is for requests of at least 64 pages.
    fn default() -> Self {
        Self { over_provisioning: 0.07, log_share: 0.10, sequential_share: 0.25, long_pages: 64 }
    }
}

/// The areas of the flash, in superblocks; the others are spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Areas {
    pub(super) logical: u32,
    pub(super) sequential: u32,
    pub(super) random: u32,
}

impl HybridSettings {
    /// Superblocks that the host may use on an SSD of `blocks` superblocks.
    ///
    /// # Errors
    /// [`Error::Setting`] or [`Error::TooSmall`].
    pub fn logical_blocks(&self, blocks: u32) -> Result<u32, Error> {
        self.areas(blocks).map(|areas| areas.logical)
    }

    pub(super) fn areas(&self, blocks: u32) -> Result<Areas, Error> {
        settings::check_share("over_provisioning", self.over_provisioning)?;
        settings::check_share("log_share", self.log_share)?;
        if !(0.0..=1.0).contains(&self.sequential_share) {
            return Err(Error::setting("sequential_share", self.sequential_share, "must be from 0 to 1"));
        }
        let logical = settings::logical_blocks(blocks, self.over_provisioning + self.log_share, RESERVE_BLOCKS)?;
        // One block is left to merge into, independent of rounding.
        let log = ((f64::from(logical) * self.log_share).round() as u32).clamp(2, blocks - logical - 1);
        let sequential = ((f64::from(log) * self.sequential_share).round() as u32).clamp(1, log - 1);
        Ok(Areas { logical, sequential, random: log - sequential })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flash_is_divided_as_set() {
        let areas = HybridSettings::default().areas(1170).unwrap();
        assert_eq!(areas, Areas { logical: 1000, sequential: 25, random: 75 });
        assert_eq!(HybridSettings::default().areas(4).unwrap(), Areas { logical: 1, sequential: 1, random: 1 });
        assert_eq!(HybridSettings::default().areas(3), Err(Error::TooSmall { blocks: 3 }));
    }
}
