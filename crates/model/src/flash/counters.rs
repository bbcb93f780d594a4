//! Counters of an SSD's operations, and its wear.

use serde::Serialize;

/// Merges of hybrid mapping by kind (Lee et al., "A log buffer-based flash translation layer using fully-associative
/// sector translation", 2007).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Merges {
    /// A complete sequential log block became the data block.
    pub switch: u64,
    /// A sequential log block became the data block after the missing pages at its end were copied to it.
    pub partial: u64,
    /// The pages of a logical block were copied into a fresh block.
    pub full: u64,
}

/// Totals since the SSD was made, in pages unless stated otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Pages read by the host, whether or not they had been written.
    pub host_reads: u64,
    /// Pages written by the host; a partly written page counts once.
    pub host_writes: u64,
    /// Those of [`host_writes`](Self::host_writes) that were partly written, so that the rest had to be read first.
    pub partial_writes: u64,
    /// Pages with content that the host trimmed.
    pub trims: u64,
    /// Pages copied by garbage collection, merges and rewriting.
    pub copies: u64,
    /// Erase blocks erased: "SSD erasures" in Nitro (§5.1).
    pub erasures: u64,
    /// Blocks reclaimed by garbage collection or from the random log, including those without valid pages.
    pub collections: u64,
    /// Merges of hybrid mapping.
    pub merges: Merges,
}

impl Counters {
    /// Pages programmed, for the host and for copies.
    #[must_use]
    pub const fn flash_programs(&self) -> u64 {
        self.host_writes + self.copies
    }

    /// Pages programmed for each page that the host wrote; 1 before the host's first write.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host_writes == 0 {
            return 1.0;
        }
        self.flash_programs() as f64 / self.host_writes as f64
    }

    /// The differences to `earlier`, a copy of the same SSD's counters.
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

/// The distribution of wear among the blocks, in erasures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Wear {
    /// Erasures of the least worn block.
    pub least: u32,
    /// Erasures of the most worn block.
    pub most: u32,
    /// The mean over all blocks.
    pub mean: f64,
}
