//! Options of a store's SSD.

use crate::Error;
use crate::format::superblock::Superblock;
use crate::ssd::piece::PieceKind;
use crate::ssd::short::page;
use nitro_cache::Settings;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::{ClassPolicy, Classes};
use nitro_cache::eviction::EvictionKind;
use nitro_cache::settings::WEU_COUNT_MIN;
use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter};
use std::str::FromStr;

/// Bytes of a recipe block, for planning.
const FMD_PIECE_BYTES: u64 = 16 << 10;
/// The maximum percentage of the SSD that the shares may take together: the rest is for the pieces with the most hits.
const SHARES_PERCENT_MAX: u8 = 80;
/// The assumed size of a piece for the bound of RAM, in bytes; only small recipe blocks are smaller.
const PIECES_A_BLOCK_BYTES: u64 = 4096;

/// What an SSD caches of the fingerprint index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fpi {
    /// Nothing.
    Off,
    /// Pages of the index that look-ups read.
    Pages,
    /// A short fingerprint of each chunk, with its container.
    #[default]
    Short,
}

impl Fpi {
    const NAMES: [(Self, &str); 3] = [(Self::Off, "off"), (Self::Pages, "pages"), (Self::Short, "short")];
}

impl Display for Fpi {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::NAMES[*self as usize].1)
    }
}

impl FromStr for Fpi {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(fpi, _)| *fpi).ok_or_else(|| "it is off, pages or short".to_owned())
    }
}

/// Options of a store's SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SsdOptions {
    /// Bytes of a write-evict unit: a power of two from 512 KiB to 8 MiB.
    pub unit_bytes: u32,
    /// Percent of the SSD below which recipe blocks are not evicted for others.
    pub fmd_percent: u8,
    /// Percent of the SSD below which chunks are not evicted for others.
    pub data_percent: u8,
    /// Whether recipe blocks are cached.
    pub fmd: bool,
    /// What is cached of the fingerprint index.
    pub fpi: Fpi,
    /// Whether chunks are cached. If a cache in front of the store caches them itself, they would be on SSDs twice.
    pub data: bool,
    /// Whether chunks are compressed with LZ4.
    pub lz4: bool,
}

impl Default for SsdOptions {
    fn default() -> Self {
        Self {
            unit_bytes: 1 << 20,
            fmd_percent: 10,
            data_percent: 40,
            fmd: true,
            fpi: Fpi::default(),
            data: true,
            lz4: false,
        }
    }
}

impl SsdOptions {
    /// The order in which units are evicted, within the bounds of the shares (Allu et al. 2018).
    pub const EVICTION: EvictionKind = EvictionKind::Lru;

    /// The minimum size of the SSD in bytes.
    #[must_use]
    pub fn bytes_min(&self) -> u64 {
        (WEU_COUNT_MIN + 1) * u64::from(self.unit_bytes)
    }

    /// The number of units of an SSD of `size_bytes`; the superblocks take the space of one unit.
    pub(crate) fn units(&self, size_bytes: u64) -> Result<u32, Error> {
        let refuse = |what, given, why| Err(Error::Setting { what, given, why });
        if !self.unit_bytes.is_power_of_two() || !(512 << 10..=8 << 20).contains(&self.unit_bytes) {
            let why = "it must be a power of two from 512 KiB to 8 MiB".to_owned();
            return refuse("bytes of a unit of the SSD", self.unit_bytes.into(), why);
        }
        let shares = self.fmd_percent.saturating_add(self.data_percent);
        if shares > SHARES_PERCENT_MAX {
            let why = format!("shares may take {SHARES_PERCENT_MAX} % together");
            return refuse("percent of the SSD for recipes and chunks", shares.into(), why);
        }
        let units = (size_bytes / u64::from(self.unit_bytes)).saturating_sub(1);
        if units < WEU_COUNT_MIN {
            let why = format!("an SSD needs {} bytes at least", self.bytes_min());
            return refuse("size of the SSD in bytes", size_bytes, why);
        }
        Ok(units.min(1 << 23) as u32)
    }

    /// Whether pieces of this kind are cached.
    pub(crate) const fn keeps(&self, kind: PieceKind) -> bool {
        match kind {
            PieceKind::Fmd => self.fmd,
            PieceKind::Fpi => !matches!(self.fpi, Fpi::Off),
            PieceKind::Data => self.data,
        }
    }

    /// The number of pages of short fingerprints; 0: none.
    pub(crate) fn short_pages(&self, store: &Superblock) -> u32 {
        if self.fpi == Fpi::Short { page::pages_for(store.index_entries) } else { 0 }
    }

    /// The settings of the cache manager for `units` units. Eviction is in LRU order (Allu et al. 2018), within the
    /// bounds of the shares.
    pub(crate) fn manager(&self, units: u32, store: &Superblock, seed: u64) -> Settings {
        let cache_bytes = u64::from(units) * u64::from(self.unit_bytes);
        let mut classes = Classes::default();
        let chunk_bytes = u64::from(store.chunk_bytes);
        // The manager counts pieces of the chunk size, while recipe blocks have another size.
        let fmd = (u64::from(self.fmd_percent) * chunk_bytes).div_ceil(FMD_PIECE_BYTES);
        let fmd = fmd.min(SHARES_PERCENT_MAX.saturating_sub(self.data_percent).into()) as u8;
        let (fmd, data) = (if self.fmd { fmd } else { 0 }, if self.data { self.data_percent } else { 0 });
        // Short fingerprints are as many as the store needs, unless the SSD is too small.
        let short_bytes = u64::from(self.short_pages(store)) * chunk_bytes;
        let rest = SHARES_PERCENT_MAX.saturating_sub(fmd.saturating_add(data));
        let short = (short_bytes * 100).div_ceil(cache_bytes.max(1)).min(rest.into()) as u8;
        for (kind, min_percent) in [(PieceKind::Fmd, fmd), (PieceKind::Fpi, short), (PieceKind::Data, data)] {
            classes.set(kind.class(), ClassPolicy { min_percent, ..ClassPolicy::default() });
        }
        Settings {
            extent_bytes: store.chunk_bytes,
            weu_bytes: self.unit_bytes,
            dedup: false,
            fingerprint_index_percent: 0,
            admission: AdmissionKind::All,
            eviction: Self::EVICTION,
            classes,
            seed,
            ..Settings::new(cache_bytes)
        }
    }

    /// The maximum RAM of the manager in bytes.
    pub(crate) fn ram_bytes(settings: &Settings) -> u64 {
        let pieces = u64::from(settings.weu_count()) * u64::from(settings.weu_bytes) / PIECES_A_BLOCK_BYTES;
        settings.index_ram_bytes(pieces, 0) + settings.policy_ram_bytes(0)
    }
}
