//! The layout of the flash.

use crate::Error;
use serde::Serialize;

/// The largest number of physical pages.
const PAGES_MAX: u64 = u32::MAX as u64;

/// Pages, blocks, planes and channels.
///
/// `stripe` erase blocks, each on another plane, form a superblock. Consecutive pages of a superblock are on
/// consecutive planes ("horizontal super-page striping", Nitro §4), and consecutive planes are on different channels.
/// If a superblock has the size of a WEU, a WEU is written to all planes at once, and its eviction leaves whole blocks
/// of garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// Bytes of a page, the unit of reads and programs.
    pub page_bytes: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks of a superblock.
    pub stripe: u32,
    /// The number of channels; they transfer in parallel.
    pub channels: u32,
    /// Dies on each channel.
    pub dies: u32,
    /// Planes of each die; each reads, programs and erases independently.
    pub planes: u32,
    /// The number of superblocks.
    pub superblocks: u32,
}

impl Default for Geometry {
    /// 2 GiB in superblocks of 2 MiB, Nitro's default WEU: 16 erase blocks of 128 KiB (§5.3) in pages of 8 KiB, on 8
    /// channels of one die with two planes each.
    fn default() -> Self {
        Self { page_bytes: 8192, pages_per_block: 16, stripe: 16, channels: 8, dies: 1, planes: 2, superblocks: 1024 }
    }
}

impl Geometry {
    /// Checks the bounds of every field.
    ///
    /// # Errors
    /// [`Error::Setting`] for a field outside its bounds, [`Error::TooLarge`] for more than 2³² - 1 physical pages.
    pub fn check(&self) -> Result<(), Error> {
        let fields = [
            ("page_bytes", self.page_bytes, 512, 1 << 20),
            ("pages_per_block", self.pages_per_block, 1, 1 << 14),
            ("stripe", self.stripe, 1, 1 << 10),
            ("channels", self.channels, 1, 1 << 8),
            ("dies", self.dies, 1, 1 << 8),
            ("planes", self.planes, 1, 1 << 8),
            ("superblocks", self.superblocks, 1, u32::MAX - 1),
        ];
        for (name, value, min, max) in fields {
            if !(min..=max).contains(&value) {
                return Err(Error::setting(name, value, "outside the bounds of the model"));
            }
        }
        if !self.page_bytes.is_power_of_two() {
            return Err(Error::setting("page_bytes", self.page_bytes, "must be a power of two"));
        }
        let pages = u64::from(self.superblocks) * u64::from(self.pages_per_block) * u64::from(self.stripe);
        if pages < PAGES_MAX { Ok(()) } else { Err(Error::TooLarge { pages }) }
    }

    /// Pages of a superblock.
    #[must_use]
    pub const fn block_pages(&self) -> u32 {
        self.pages_per_block * self.stripe
    }

    /// Bytes of a superblock.
    #[must_use]
    pub const fn block_bytes(&self) -> u64 {
        self.block_pages() as u64 * self.page_bytes as u64
    }

    /// Bytes of an erase block.
    #[must_use]
    pub const fn erase_block_bytes(&self) -> u64 {
        self.pages_per_block as u64 * self.page_bytes as u64
    }

    /// Physical pages of the SSD.
    #[must_use]
    pub const fn physical_pages(&self) -> u32 {
        self.superblocks * self.block_pages()
    }

    /// Bytes of flash of the SSD, its reserve included.
    #[must_use]
    pub const fn physical_bytes(&self) -> u64 {
        self.superblocks as u64 * self.block_bytes()
    }

    /// Planes of all dies on all channels.
    #[must_use]
    pub const fn planes_all(&self) -> u32 {
        self.channels * self.dies * self.planes
    }
}
