//! The settings of the cache; each is declared once, with its bounds, default and meaning.

use crate::admission::{AdmissionKind, SecondMiss};
use crate::class::{Allocation, ClassError, Classes, RESERVED_PERCENT_MAX};
use crate::curve::Followed;
use crate::destage::DestageKind;
use crate::eviction::EvictionKind;
use crate::gone::Departed;
use crate::pattern::StreamSettings;
use crate::weu::Address;
use crate::weu::layout::{UNIT_BYTES, entries_max};
use nitro_units::WeuId;
use std::fmt;

/// One numeric setting, from which help texts, checks and documentation are generated.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name in configuration files.
    pub name: &'static str,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Default value.
    pub default: u64,
    /// Only powers of two are valid.
    pub power_of_two: bool,
    /// Unit of the values.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
}

/// Extent size.
pub const EXTENT_BYTES: Setting = Setting {
    name: "extent_size",
    min: 4 << 10,
    max: 128 << 10,
    default: 8 << 10,
    power_of_two: true,
    unit: "bytes",
    meaning: "unit of caching; smaller finds more duplicates and takes more RAM",
};

/// Write-evict unit size.
pub const WEU_BYTES: Setting = Setting {
    name: "weu_size",
    min: 512 << 10,
    max: 8 << 20,
    default: 2 << 20,
    power_of_two: true,
    unit: "bytes",
    meaning: "unit of writing to the SSD and of eviction; one or several erase blocks",
};

/// Fingerprint index ratio.
pub const FINGERPRINT_INDEX_RATIO: Setting = Setting {
    name: "fingerprint_index_ratio",
    min: 0,
    max: 100,
    default: 100,
    power_of_two: false,
    unit: "percent",
    meaning: "share of the cached extents whose fingerprints are kept in RAM to find duplicates",
};

/// What the indexes keep in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IndexKind {
    /// Keys and fingerprints as they are.
    #[default]
    Exact,
    /// Keys in as few bits as their unit needs, and a tag of each fingerprint. What a tag finds is believed only after the
    /// fingerprint in the table of the unit was compared, which is on the SSD.
    Lean,
}

impl IndexKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Exact, Self::Lean];

    /// Its name in configurations and on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lean => "lean",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

crate::by_name::by_name!(IndexKind, "index");

/// With a lean index, so many tables of units on the SSD are kept in RAM at least, to compare fingerprints.
pub const UNIT_TABLES: u64 = 16;

/// Of a lean index, the fingerprints used last are kept whole: one for each so many extents, and so many at least and at
/// most.
const RECENT_SHARE: u64 = 128;
const RECENT: (u64, u64) = (1 << 8, 1 << 16);

/// RAM of a fingerprint that is kept whole, with the slack of the table.
const FINGERPRINT_RAM_BYTES: u64 = 27;
/// Bits of a tag, and of a key's place in a lean file index, with the slack of the tables.
const TAG_BITS: u64 = 53;
const LEAN_FILE_BITS: u64 = 54;

/// RAM of a unit with classified entries in the table of write-evict units, in addition to one byte for each entry.
const WEU_CLASSES_BYTES: u64 = 192;

/// Minimum number of write-evict units of a cache: some are being filled, some are free in reserve, some hold data.
pub const WEU_COUNT_MIN: u64 = 8;

/// Number of write-evict units below which the usual unit is smaller than [`WEU_BYTES`]' default.
const WEU_COUNT_USUAL: u64 = 48;
/// Number of uncompressed extents for which a unit of the usual size has room at least.
const WEU_EXTENTS_USUAL: u64 = 64;

impl Setting {
    /// Checks a value.
    ///
    /// # Errors
    /// [`SettingError`] with the nearest valid value.
    pub fn check(&self, value: u64) -> Result<u64, SettingError> {
        let clamped = value.clamp(self.min, self.max);
        let nearest = if self.power_of_two && !clamped.is_power_of_two() {
            let below = 1 << clamped.ilog2();
            if clamped - below <= below * 2 - clamped { below } else { below * 2 }
        } else {
            clamped
        };
        if nearest == value {
            return Ok(value);
        }
        let power = if self.power_of_two { ", a power of two" } else { "" };
        let reason = format!("must be {} to {} {}{power}", self.min, self.max, self.unit);
        Err(SettingError { name: self.name, value, reason, nearest })
    }
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// Which setting.
    pub name: &'static str,
    /// The refused value.
    pub value: u64,
    /// Why it was refused.
    pub reason: String,
    /// The nearest value that would be accepted.
    pub nearest: u64,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, reason, nearest } = self;
        write!(f, "{name} = {value}: {reason}; the nearest valid value is {nearest}")
    }
}

impl std::error::Error for SettingError {}

/// All settings of the cache manager.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// SSD space for WEUs in bytes; rounded down to whole WEUs.
    pub cache_bytes: u64,
    /// See [`EXTENT_BYTES`].
    pub extent_bytes: u32,
    /// See [`WEU_BYTES`].
    pub weu_bytes: u32,
    /// Find duplicates by fingerprint (the paper's D; else ND).
    pub dedup: bool,
    /// See [`FINGERPRINT_INDEX_RATIO`].
    pub fingerprint_index_percent: u8,
    /// What the indexes keep in RAM.
    pub index: IndexKind,
    /// Which new content is admitted.
    pub admission: AdmissionKind,
    /// Which dirty extents are destaged next.
    pub destage: DestageKind,
    /// Which write-evict unit is evicted next.
    pub eviction: EvictionKind,
    /// The policies of classes of I/O.
    pub classes: Classes,
    /// Sequential detection.
    pub streams: StreamSettings,
    /// Classify content that has no other class by the pattern of the requests: see [`RunDetector`](crate::pattern::RunDetector).
    pub patterns: bool,
    /// Estimate the hits of caches of other sizes: see [`what_if`](crate::CacheManager::what_if).
    pub what_if: bool,
    /// Mixed into hashes; random in the server, so that no client can provoke collisions; fixed in the simulator.
    pub seed: u64,
}

impl Settings {
    /// Defaults for a cache of `cache_bytes`.
    #[must_use]
    pub fn new(cache_bytes: u64) -> Self {
        Self {
            cache_bytes,
            extent_bytes: EXTENT_BYTES.default as u32,
            weu_bytes: WEU_BYTES.default as u32,
            dedup: true,
            fingerprint_index_percent: FINGERPRINT_INDEX_RATIO.default as u8,
            index: IndexKind::default(),
            admission: AdmissionKind::default(),
            destage: DestageKind::default(),
            eviction: EvictionKind::default(),
            classes: Classes::default(),
            what_if: true,
            streams: StreamSettings::default(),
            patterns: false,
            seed: 0,
        }
    }

    /// As [`new`](Self::new), with the policies of the Nitro paper: all content is admitted, and the least recently
    /// used unit is evicted.
    #[must_use]
    pub fn paper(cache_bytes: u64) -> Self {
        Self { admission: AdmissionKind::All, eviction: EvictionKind::Lru, ..Self::new(cache_bytes) }
    }

    /// Bytes of a write-evict unit if nothing else is configured, for a cache of `cache_bytes` with extents of
    /// `extent_bytes`: 2 MiB, or so much less that the cache has 48 of them. Units that are being filled or are free in
    /// reserve would otherwise be a large share of a small cache. A unit has room for 64 extents at least.
    #[must_use]
    pub fn usual_weu_bytes(cache_bytes: u64, extent_bytes: u32) -> u32 {
        let least = WEU_BYTES.min.max(WEU_EXTENTS_USUAL * u64::from(extent_bytes)).min(WEU_BYTES.default);
        let mut bytes = WEU_BYTES.default;
        while bytes > least && cache_bytes < WEU_COUNT_USUAL * bytes {
            bytes /= 2;
        }
        bytes as u32
    }

    /// Default RAM in bytes in which clean content waits before it is packed, for a cache of `cache_bytes`: 6 % of it,
    /// at most 64 MiB. With their overhead, the contents take 1.5 to 2 times their size.
    #[must_use]
    pub const fn usual_staging_bytes(cache_bytes: u64) -> u64 {
        let bytes = cache_bytes / 100 * 6;
        if bytes < 64 << 20 { bytes } else { 64 << 20 }
    }

    /// Checks every setting.
    ///
    /// # Errors
    /// The first [`SettingError`].
    pub fn check(&self) -> Result<(), SettingError> {
        EXTENT_BYTES.check(self.extent_bytes.into())?;
        WEU_BYTES.check(self.weu_bytes.into())?;
        FINGERPRINT_INDEX_RATIO.check(self.fingerprint_index_percent.into())?;
        if self.index == IndexKind::Lean && self.fingerprint_index_percent != 100 {
            return Err(SettingError {
                name: FINGERPRINT_INDEX_RATIO.name,
                value: self.fingerprint_index_percent.into(),
                reason: "a lean index has tags of all fingerprints".into(),
                nearest: 100,
            });
        }
        let weu = u64::from(self.weu_bytes);
        let weus_max = match self.index {
            IndexKind::Exact => WeuId::COUNT_MAX.into(),
            IndexKind::Lean => Address::units_max(self.entry_bits()).min(WeuId::COUNT_MAX.into()),
        };
        let (least, most) = (WEU_COUNT_MIN * weu, (weus_max - 1) * weu);
        if !(least..=most).contains(&self.cache_bytes) {
            return Err(SettingError {
                name: "cache_size",
                value: self.cache_bytes,
                reason: format!("must be {least} to {most} bytes with write-evict units of {weu} bytes"),
                nearest: self.cache_bytes.clamp(least, most),
            });
        }
        Ok(())
    }

    /// Number of WEU slots.
    #[must_use]
    pub fn weu_count(&self) -> u32 {
        (self.cache_bytes / u64::from(self.weu_bytes)) as u32
    }

    /// Number of slots that are kept free in reserve.
    #[must_use]
    pub fn free_reserve(&self) -> u32 {
        (self.weu_count() / 256).clamp(2, 8)
    }

    /// Units for clean content that may be open at once in a cache of `weus` units.
    #[must_use]
    pub fn open_max(&self, weus: u32) -> u32 {
        self.lanes(weus) * self.classes.bands(weus) as u32
    }

    /// Number of lanes that may be open at once in a cache of `weus` units: the smallest cache has no unit for a second
    /// lane.
    #[must_use]
    pub const fn lanes(&self, weus: u32) -> u32 {
        if self.admission.has_side_lane() && weus as u64 > WEU_COUNT_MIN { 2 } else { 1 }
    }

    /// Checks that the cache can guarantee the minimums of `classes` in addition to `dirty_percent` of it for dirty
    /// extents, and to `pinned` extents.
    ///
    /// # Errors
    /// [`ClassError`].
    pub fn check_classes(&self, classes: &Classes, dirty_percent: u8, pinned: u64) -> Result<(), ClassError> {
        let minimums = classes.check_bounds()?;
        if minimums == 0 && pinned == 0 {
            return Ok(());
        }
        let open = Self { classes: *classes, ..*self }.open_max(self.weu_count()) + 1;
        let open = (u64::from(open) * 100).div_ceil(u64::from(self.weu_count()));
        let pins = crate::pins::percent(pinned, self.extents_raw());
        if minimums.saturating_add(pins) + u64::from(dirty_percent) + open > RESERVED_PERCENT_MAX {
            return Err(ClassError::Promised { minimums, pins, dirty: dirty_percent, open });
        }
        Ok(())
    }

    /// The percentage of the units that no dirty data can pin, of which there may be `dirty_percent`, rounded up.
    /// [`Allocation::WhileClean`] can refuse something if it is at most [`CLEAN_PERCENT_MIN`](crate::class::CLEAN_PERCENT_MIN).
    #[must_use]
    pub fn clean_percent_least(&self, dirty_percent: u8) -> u64 {
        let weus = u64::from(self.weu_count());
        let for_dirty = (weus + 1).saturating_sub(self.open_max(self.weu_count()).into());
        // One of them stays free for other volumes.
        let pinned_max = (for_dirty * u64::from(dirty_percent) / 100).saturating_sub(1);
        ((weus - pinned_max.min(weus)) * 100).div_ceil(weus.max(1))
    }

    /// Extents that the cache holds without compression.
    #[must_use]
    pub fn extents_raw(&self) -> u64 {
        u64::from(self.weu_count()) * u64::from(self.weu_bytes / self.extent_bytes)
    }

    /// See [`entries_max`](crate::weu::layout::entries_max).
    #[must_use]
    pub fn weu_entries_max(&self) -> u32 {
        entries_max(self.weu_bytes, self.extent_bytes)
    }

    /// The bits of an entry's number within a unit.
    pub(crate) fn entry_bits(&self) -> u32 {
        u32::BITS - (self.weu_entries_max() - 1).leading_zeros()
    }

    /// The number of fingerprints that are kept whole beside `extents` base entries.
    pub(crate) fn fingerprints_max(&self, extents: u64) -> usize {
        let most = match (self.index, self.fingerprint_index_percent) {
            (IndexKind::Lean, _) => (extents / RECENT_SHARE).clamp(RECENT.0, RECENT.1),
            (IndexKind::Exact, 100..) => return usize::MAX,
            (IndexKind::Exact, percent) => (extents * u64::from(percent)).div_ceil(100),
        };
        most as usize
    }

    /// Maximum number of dup entries: eight times the number of uncompressed extents.
    #[must_use]
    pub fn dup_entries_max(&self) -> u32 {
        u32::try_from(self.extents_raw() * 8).unwrap_or(u32::MAX - 1)
    }

    /// The maximum RAM of the policies in bytes, with `dirty` dirty extents and if all extents are classified.
    #[must_use]
    pub fn policy_ram_bytes(&self, dirty: u64) -> u64 {
        let classes = u64::from(self.weu_count()) * (u64::from(self.weu_entries_max()) + WEU_CLASSES_BYTES);
        let orders = self.classes.bands(self.weu_count()) as u64;
        let eviction = self.eviction.ram_bytes_max(self.weu_count()) * orders + u64::from(self.weu_count());
        let seen = match self.classes.uses(Allocation::SecondAccess) {
            true => SecondMiss::ram_bytes_max(self.extents_raw()),
            false => 0,
        };
        let departed = Departed::ram_bytes_max(self.index, self.extents_raw());
        let admission = self.admission.ram_bytes_max(self.extents_raw());
        let followed = if self.what_if { Followed::ram_bytes_max() } else { 0 };
        followed + admission + self.destage.ram_bytes_max(dirty) + eviction + classes + departed + seen
    }

    /// RAM of the indexes in bytes with `unique` extents and `dups` further keys; an upper estimate.
    #[must_use]
    pub fn index_ram_bytes(&self, unique: u64, dups: u64) -> u64 {
        // The widest keys are those of extents of many objects.
        self.ram_bytes_with(unique, dups, u64::BITS.into())
    }

    /// As [`index_ram_bytes`](Self::index_ram_bytes), with keys as wide as those of extents at random in an origin of 16
    /// times the size of the cache.
    #[must_use]
    pub fn usual_index_ram_bytes(&self, unique: u64, dups: u64) -> u64 {
        let key_bits = u64::BITS - (self.extents_raw() * 16).leading_zeros();
        self.ram_bytes_with(unique, dups, key_bits.into())
    }

    fn ram_bytes_with(&self, unique: u64, dups: u64, key_bits: u64) -> u64 {
        let weus = u64::from(self.weu_count());
        // Three bits an entry: its heat, and whether a dup refers to it.
        let (entry, dup, weu, fixed) = match self.index {
            // A dup, its place in the file index, its record, and its place in the queue for one.
            IndexKind::Exact => (21 * 8 + 3, 42, 256, 0),
            IndexKind::Lean => {
                let length_bits = u32::BITS - (self.extent_bytes / UNIT_BYTES).leading_zeros();
                // Its place in the file index, key, length, and its share of a mark.
                let entry = LEAN_FILE_BITS + key_bits + u64::from(length_bits) + 2;
                (entry + 3, 41, 352, 4 * self.extents_raw().min(unique))
            }
        };
        let fingerprints = match self.index {
            _ if !self.dedup => 0,
            IndexKind::Exact => unique * FINGERPRINT_RAM_BYTES * u64::from(self.fingerprint_index_percent) / 100,
            IndexKind::Lean => unique * TAG_BITS / 8 + FINGERPRINT_RAM_BYTES * self.fingerprints_max(unique) as u64,
        };
        unique * entry / 8 + fingerprints + dups * dup + weus * weu + fixed + (64 << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_nearest_valid_value() {
        for (setting, value, nearest) in [
            (EXTENT_BYTES, 6000, 4096),
            (EXTENT_BYTES, 100, 4096),
            (EXTENT_BYTES, 1 << 20, 131_072),
            (EXTENT_BYTES, 13_000, 16_384),
            (WEU_BYTES, 3_000_000, 2 << 20),
            (FINGERPRINT_INDEX_RATIO, 101, 100),
        ] {
            let error = setting.check(value).expect_err("refused");
            assert_eq!(error.nearest, nearest);
            assert!(setting.check(nearest).is_ok() && error.to_string().contains(&nearest.to_string()));
        }
        let small = Settings::new(1 << 20).check().expect_err("too small");
        assert_eq!((small.name, small.nearest), ("cache_size", 16 << 20));
        assert!(Settings::new(16 << 20).check().is_ok());
    }

    #[test]
    fn a_small_cache_has_small_units_unless_its_extents_are_large() {
        for (cache_mib, extent_kib, unit_kib) in [
            (4, 8, 512),
            (47, 8, 512),
            (48, 8, 1024),
            (95, 8, 1024),
            (96, 8, 2048),
            (1 << 20, 8, 2048),
            (4, 16, 1024),
            (4, 32, 2048),
            (4, 128, 2048),
        ] {
            assert_eq!(Settings::usual_weu_bytes(cache_mib << 20, extent_kib << 10), unit_kib << 10);
        }
    }
}
