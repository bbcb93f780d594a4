//! The plane and the channel of each page.

use crate::flash::divisor::Divisor;
use crate::{BlockId, Geometry, Ppn};

/// Consecutive pages of a superblock are on consecutive planes, and consecutive planes are on different channels.
#[derive(Debug)]
pub(super) struct Layout {
    stripe: u32,
    by_block_pages: Divisor,
    by_stripe: Divisor,
    by_planes: Divisor,
    by_channels: Divisor,
}

impl Layout {
    pub(super) fn new(geometry: &Geometry) -> Self {
        Self {
            stripe: geometry.stripe,
            by_block_pages: Divisor::new(geometry.block_pages()),
            by_stripe: Divisor::new(geometry.stripe),
            by_planes: Divisor::new(geometry.planes_all()),
            by_channels: Divisor::new(geometry.channels),
        }
    }

    pub(super) const fn stripe(&self) -> u32 {
        self.stripe
    }

    /// The plane of erase block `part` of a superblock.
    pub(super) const fn plane_of(&self, block: BlockId, part: u32) -> u32 {
        self.by_planes.remainder(block.0 * self.stripe + part)
    }

    /// The plane of a page. The remainder alone is enough, because a superblock's pages are a multiple of the stripe.
    pub(super) const fn plane(&self, ppn: Ppn) -> u32 {
        self.plane_of(BlockId(self.by_block_pages.quotient(ppn.0)), self.by_stripe.remainder(ppn.0))
    }

    pub(super) const fn channel(&self, plane: u32) -> u32 {
        self.by_channels.remainder(plane)
    }
}
