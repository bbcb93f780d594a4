//! Options of a store's SSD.

use crate::Error;
use crate::format::superblock::Superblock;
use crate::ssd::piece::PieceKind;
use nitro_cache::Settings;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::{ClassPolicy, Classes};
use nitro_cache::eviction::EvictionKind;
use nitro_cache::settings::WEU_COUNT_MIN;

/// Bytes of a recipe block, for planning.
const FMD_PIECE_BYTES: u64 = 16 << 10;
/// The maximum percentage of the SSD that the shares may take together: the rest is for the pieces with the most hits.
const SHARES_PERCENT_MAX: u8 = 80;
/// The assumed size of a piece for the bound of RAM, in bytes; only small recipe blocks are smaller.
const PIECES_A_BLOCK_BYTES: u64 = 4096;

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
    /// Whether pages of the fingerprint index are cached.
    pub fpi: bool,
    /// Whether chunks are cached. If a cache in front of the store caches them itself, they would be on SSDs twice.
    pub data: bool,
    /// Whether chunks are compressed with LZ4.
    pub lz4: bool,
}

impl Default for SsdOptions {
    fn default() -> Self {
        Self { unit_bytes: 1 << 20, fmd_percent: 10, data_percent: 40, fmd: true, fpi: true, data: true, lz4: false }
    }
}

impl SsdOptions {
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
            PieceKind::Fpi => self.fpi,
            PieceKind::Data => self.data,
        }
    }

    /// The settings of the cache manager for `units` units. Eviction is in LRU order (Allu et al. 2018), within the
    /// bounds of the shares.
    pub(crate) fn manager(&self, units: u32, store: &Superblock, seed: u64) -> Settings {
        let cache_bytes = u64::from(units) * u64::from(self.unit_bytes);
        let mut classes = Classes::default();
        let chunk_bytes = u64::from(store.chunk_bytes);
        // The manager counts pieces of the chunk size, while recipe blocks have another size.
        let fmd = (u64::from(self.fmd_percent) * chunk_bytes).div_ceil(FMD_PIECE_BYTES).min(90) as u8;
        for (kind, keeps, min_percent) in
            [(PieceKind::Fmd, self.fmd, fmd), (PieceKind::Data, self.data, self.data_percent)]
        {
            let min_percent = if keeps { min_percent } else { 0 };
            classes.set(kind.class(), ClassPolicy { min_percent, ..ClassPolicy::default() });
        }
        Settings {
            extent_bytes: store.chunk_bytes,
            weu_bytes: self.unit_bytes,
            dedup: false,
            fingerprint_index_percent: 0,
            admission: AdmissionKind::All,
            eviction: EvictionKind::Lru,
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
