//! What an SSD has done, and what that wore out.

use serde::Serialize;

/// Merges of hybrid mapping by kind (Lee et al., "A log buffer-based flash translation layer using fully-associative
/// sector translation", 2007).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Merges {
    /// A sequential log block became the data block as it was.
    pub switch: u64,
    /// A sequential log block became the data block once the pages behind its end were copied to it.
    pub partial: u64,
    /// The pages of a logical block were collected into a fresh block.
    pub full: u64,
}

/// Totals since the SSD was made. Pages unless said otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Read by the host, whether or not anything had been written there.
    pub host_reads: u64,
    /// Written by the host; a page written in part counts once.
    pub host_writes: u64,
    /// Of those, written in part, so that the rest had to be read first.
    pub partial_writes: u64,
    /// Trimmed by the host, of those that held something.
    pub trims: u64,
    /// Copied by garbage collection, merges and rewriting.
    pub copies: u64,
    /// Erase blocks erased: Nitro's "SSD erasures" (§5.1).
    pub erasures: u64,
    /// Blocks reclaimed by garbage collection or out of the random log, those without anything valid included.
    pub collections: u64,
    /// Merges of hybrid mapping.
    pub merges: Merges,
}

impl Counters {
    /// Pages programmed into the flash, for the host and for copies.
    #[must_use]
    pub const fn flash_programs(&self) -> u64 {
        self.host_writes + self.copies
    }

    /// Pages programmed for each page that the host wrote; 1 before the first.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 {
            return 1.0;
        }
        self.flash_programs() as f64 / self.host_writes as f64
    }

    /// What was added since `earlier`, a copy of the same SSD's counters.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            host_reads: self.host_reads - earlier.host_reads,
            host_writes: self.host_writes - earlier.host_writes,
            partial_writes: self.partial_writes - earlier.partial_writes,
            trims: self.trims - earlier.trims,
            copies: self.copies - earlier.copies,
            erasures: self.erasures - earlier.erasures,
            collections: self.collections - earlier.collections,
            merges: Merges {
                switch: self.merges.switch - earlier.merges.switch,
                partial: self.merges.partial - earlier.merges.partial,
                full: self.merges.full - earlier.merges.full,
            },
        }
    }
}

/// How evenly the blocks are worn, in erasures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Wear {
    /// Of the least worn block.
    pub least: u32,
    /// Of the most worn block.
    pub most: u32,
    /// Over all blocks.
    pub mean: f64,
}
