//! Settings of devices and load.

use crate::Error;
use nitro_model::Nanos;
use nitro_model::flash::{NITRO_READS, NITRO_WRITES};
use nitro_model::{Geometry, Timing as Durations};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The arrival of requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// At the times of the trace, divided by this factor. After a warm-up, the first request that is measured arrives
    /// when all earlier ones have ended.
    Open(f64),
    /// With this number of requests in progress: a request starts when another ends, independent of the times of the
    /// trace.
    Closed(u32),
}

/// The layout of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Raid {
    /// Striped, without redundancy.
    Raid0,
    /// Striped, with the capacity of one disk for parity: a small write reads and writes data and parity, in four disk
    /// requests.
    Raid5,
    /// Striped, with the capacity of two disks for parity: a small write takes six disk requests.
    Raid6,
}

impl Raid {
    /// The number of disks with the capacity of the parity.
    #[must_use]
    pub const fn parity(self) -> u32 {
        match self {
            Self::Raid0 => 0,
            Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }
}

/// The origin's disks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Disks {
    /// Revolutions per minute: 7200 or 15000.
    pub rpm: u32,
    /// The number of disks.
    pub spindles: u32,
    /// Of these, the disks of a second array with the same layout; data are striped over both. 0: one array.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub second_array: u32,
    /// The layout of the disks.
    pub raid: Raid,
    /// Consecutive bytes on one disk.
    pub stripe_bytes: u64,
    /// Bytes of a disk, which its arm sweeps.
    pub disk_bytes: u64,
}

impl Default for Disks {
    /// The paper's TPS system (§5.3): eleven 7200 rpm disks of 1 TB in RAID-5.
    fn default() -> Self {
        Self {
            rpm: 7200,
            spindles: 11,
            second_array: 0,
            raid: Raid::Raid5,
            stripe_bytes: 64 << 10,
            disk_bytes: 1_000_000_000_000,
        }
    }
}

impl Disks {
    /// The paper's COS system (§5.3): two shelves of 12 and 15 disks of 7200 rpm, each a RAID-6 with two spare disks,
    /// which leaves 19 disks with data. All have 1 TB; those of the second shelf had 2 TB.
    #[must_use]
    pub fn cos() -> Self {
        Self { spindles: 23, second_array: 13, raid: Raid::Raid6, ..Self::default() }
    }

    /// The number of disks with data in each row of stripes.
    #[must_use]
    pub const fn data_disks(&self) -> u32 {
        let arrays = if self.second_array == 0 { 1 } else { 2 };
        self.spindles - self.raid.parity() * arrays
    }

    /// The first disk, and the number of disks, of each array; the second one may be empty.
    pub(super) const fn arrays(&self) -> [(u32, u32); 2] {
        let first = self.spindles - self.second_array;
        [(0, first), (first, self.second_array)]
    }
}

/// The costs of a capacity-optimized origin in addition to its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cos {
    /// Bytes of logical data whose fingerprints are in one block of a recipe.
    pub recipe_span_bytes: u64,
    /// Bytes of the recipe cache; 20 for each fingerprint.
    pub recipe_cache_bytes: u64,
    /// Random disk requests to find a fingerprint's container, for each extent read.
    pub lookup_ios: u32,
    /// Bytes read from a container for an extent: its compression region.
    pub container_read_bytes: u32,
    /// Random disk requests for each write, to update recipe and metadata.
    pub write_ios: u32,
}

impl Default for Cos {
    /// Assumptions: recipe blocks of 512 fingerprints of 8 KiB, and a recipe cache of 64 MiB. A read takes two look-ups
    /// (fingerprint index and container metadata) and 128 KiB; a write takes two metadata updates.
    fn default() -> Self {
        Self {
            recipe_span_bytes: 4 << 20,
            recipe_cache_bytes: 64 << 20,
            lookup_ios: 2,
            container_read_bytes: 128 << 10,
            write_ios: 2,
        }
    }
}

/// The origin behind the cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Traditional primary storage: data are stored at their offsets.
    Tps,
    /// Capacity-optimized storage: deduplicated and compressed.
    Cos(Cos),
}

/// Processor times, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// The work on a request of any length, without decompression.
    pub request_ns: u64,
    /// The decompression of 8 KiB that were compressed.
    pub decompress_ns: u64,
}

impl Default for Cpu {
    /// Measured for 8 KiB of real data on one core of a server (LZ4: 2.9 to 4.1 µs).
    fn default() -> Self {
        Self { request_ns: 10_000, decompress_ns: 4_100 }
    }
}

/// Random requests of 8 KiB per second of the SSD's controller; flash and link may limit them further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdSpeed {
    /// Reads per second.
    pub reads: u32,
    /// Writes per second.
    pub writes: u32,
    /// The number of such drives with SLC flash in RAID-0; 0: one drive with MLC flash.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub slc_drives: u32,
}

impl Default for SsdSpeed {
    /// Nitro's drive (§5.3).
    fn default() -> Self {
        Self { reads: NITRO_READS, writes: NITRO_WRITES, slc_drives: 0 }
    }
}

impl SsdSpeed {
    /// Azor's four Intel SSDs with SLC flash in RAID-0, each with 30,000 reads and 3,500 writes a second (the talk's table of
    /// devices).
    #[must_use]
    pub const fn azor() -> Self {
        Self { reads: 30_000, writes: 3_500, slc_drives: 4 }
    }

    /// The durations of the flash's operations.
    pub(crate) fn timing(&self, geometry: &Geometry) -> Durations {
        match self.slc_drives {
            0 => Durations::of_drive(geometry, self.reads, self.writes),
            drives => Durations::of_slc_raid(geometry, self.reads, self.writes, drives),
        }
    }

    /// The time of a read of an idle SSD.
    pub(crate) fn read_time(&self) -> Nanos {
        Nanos::from(Duration::from_secs(1) / self.reads.max(1))
    }

    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Devices and load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// See [`Load`].
    pub load: Load,
    /// See [`Origin`].
    pub origin: Origin,
    /// See [`Disks`].
    pub disks: Disks,
    /// Bytes of NVRAM for data that the origin does not have yet; a write is acknowledged when it is in NVRAM. 0: when
    /// the origin has it.
    pub nvram_bytes: u64,
    /// The size of the SSD over the part that the cache uses; SSDs made for caching are used entirely.
    pub ssd_times: u8,
    /// See [`SsdSpeed`].
    #[serde(default, skip_serializing_if = "SsdSpeed::is_usual")]
    pub ssd: SsdSpeed,
    /// Whether neighbouring extents of one request are read from the SSD, and written to it, by one command, for variants
    /// with separate places.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub ssd_merges: bool,
    /// A hit takes the time of one read of an idle SSD, and writes to the SSD take none: for comparisons with caches that have
    /// no modelled SSD.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub ssd_is_idle: bool,
    /// See [`Cpu`].
    pub cpu: Cpu,
}

impl Default for Timing {
    /// Write-through, an SSD for the cache alone, TPS, 32 requests at a time, 960 MiB of NVRAM (§5.3).
    fn default() -> Self {
        Self {
            load: Load::Closed(32),
            origin: Origin::Tps,
            disks: Disks::default(),
            nvram_bytes: 960 << 20,
            ssd_times: 1,
            ssd: SsdSpeed::default(),
            ssd_merges: false,
            ssd_is_idle: false,
            cpu: Cpu::default(),
        }
    }
}

impl Timing {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first setting that is not valid.
    pub fn check(&self) -> Result<(), Error> {
        let disks = &self.disks;
        let wrong = match self.load {
            Load::Open(speed) if !(1e-6..=1e9).contains(&speed) => Some("the speed-up is from 1e-6 to 1e9"),
            Load::Closed(depth) if !(1..=1 << 16).contains(&depth) => Some("the depth is from 1 to 65536"),
            _ if !matches!(disks.rpm, 7200 | 15000) => Some("disks have 7200 or 15000 rpm"),
            _ if disks.spindles > 1024
                || disks.spindles.saturating_sub(disks.second_array) <= disks.raid.parity()
                || (1..=disks.raid.parity()).contains(&disks.second_array) =>
            {
                Some("an array has more disks than parity takes, and all have at most 1024")
            }
            _ if disks.stripe_bytes < 4096 || disks.disk_bytes < disks.stripe_bytes.saturating_mul(16) => {
                Some("stripes have at least 4 KiB, and disks at least 16 of them")
            }
            _ if !(1..=64).contains(&self.ssd_times) => Some("the SSD is 1 to 64 times as large as the cache"),
            _ if self.ssd.reads == 0 || self.ssd.writes == 0 => {
                Some("the SSD does at least one read and write a second")
            }
            _ => None,
        };
        wrong.map_or(Ok(()), |why| Err(Error::setting(why)))
    }
}
