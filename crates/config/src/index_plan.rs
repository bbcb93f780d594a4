//! The sizes of the index of fingerprints on a part of the cache device.

use crate::{CacheConfig, FingerprintIndexName};
use nitro_engine::{ContentPlace, EngineSettings};
use nitro_index::{Kind, Options, Shape, bufferhash, silt};

/// Fingerprints, and where their contents are.
const SHAPE: Shape = Shape { key_bytes: 20, value_bytes: ContentPlace::BYTES as u16 };
/// The assumed reduction of extents: so many times more are cached than would fit uncompressed.
const REDUCTION: u64 = 2;
/// Default RAM for each entry, in bytes.
const RAM_PER_ENTRY_BYTES: u64 = 4;
const RAM_BASE_BYTES: u64 = 4 << 20;

/// The sizes of an index.
#[derive(Debug, Clone, Copy)]
pub enum IndexPlan {
    /// Of a BufferHash.
    BufferHash(bufferhash::Plan),
    /// Of a SILT.
    Silt(silt::Plan),
}

impl IndexPlan {
    /// The sizes of the index for a cache; `None`: all fingerprints are in RAM.
    ///
    /// # Errors
    /// The configured RAM is not sufficient.
    pub fn of(config: &CacheConfig, settings: &EngineSettings) -> Result<Option<Self>, nitro_index::Error> {
        let Some(kind) = config.fingerprint_index.and_then(FingerprintIndexName::kind) else { return Ok(None) };
        Self::for_entries(kind, config, Self::entries(settings)).map(Some)
    }

    /// The entries that a cache needs at most.
    #[must_use]
    pub fn entries(settings: &EngineSettings) -> u64 {
        settings.manager.extents_raw() * REDUCTION
    }

    /// The sizes of an index of that many entries.
    ///
    /// # Errors
    /// The configured RAM is not sufficient.
    pub fn for_entries(kind: Kind, config: &CacheConfig, entries: u64) -> Result<Self, nitro_index::Error> {
        let ram_bytes = config.fingerprint_index_ram.map(|size| size.0);
        match kind {
            Kind::BufferHash => {
                let ram_bytes = ram_bytes.unwrap_or(entries * RAM_PER_ENTRY_BYTES + RAM_BASE_BYTES);
                let options = Options { shape: SHAPE, entries, ram_bytes };
                bufferhash::Plan::new(&options).map(Self::BufferHash)
            }
            Kind::Silt => {
                let ram_bytes = ram_bytes.unwrap_or(entries + RAM_BASE_BYTES);
                silt::Plan::new(&Options { shape: SHAPE, entries, ram_bytes }).map(Self::Silt)
            }
        }
    }

    /// Bytes on the cache device.
    #[must_use]
    pub fn flash_bytes(&self) -> u64 {
        match self {
            Self::BufferHash(plan) => plan.flash_bytes,
            Self::Silt(plan) => plan.flash_bytes,
        }
    }

    /// Bytes in RAM.
    #[must_use]
    pub fn ram_bytes(&self) -> u64 {
        match self {
            Self::BufferHash(plan) => plan.ram_bytes,
            Self::Silt(plan) => plan.ram_bytes,
        }
    }
}
