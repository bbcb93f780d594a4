//! How devices and load are set.

use crate::Error;
use nitro_model::flash::{NITRO_READS, NITRO_WRITES};
use serde::{Deserialize, Serialize};

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// At the trace's times, this many times as fast.
    Open(f64),
    /// So many at a time, each when another is done: the trace's times are not looked at.
    Closed(u32),
}

/// How disks are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Raid {
    /// Striped, without redundancy.
    Raid0,
    /// Striped over one disk less than there are: a small write reads and writes data and parity, four requests to disks.
    Raid5,
    /// Striped over two disks less than there are: a small write comes to six requests.
    Raid6,
}

impl Raid {
    /// Disks' worth of parity.
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
    /// 7200 or 15000.
    pub rpm: u32,
    /// How many.
    pub spindles: u32,
    /// How they are put together.
    pub raid: Raid,
    /// Bytes on one disk before the next one's turn.
    pub stripe_bytes: u64,
    /// Bytes of a disk: what its arm has to cross.
    pub disk_bytes: u64,
}

impl Default for Disks {
    /// The paper's TPS system (§5.3): eleven 7200 rpm disks of 1 TB in RAID-5.
    fn default() -> Self {
        Self { rpm: 7200, spindles: 11, raid: Raid::Raid5, stripe_bytes: 64 << 10, disk_bytes: 1_000_000_000_000 }
    }
}

/// What requests cost a capacity-optimized origin besides the data they move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Cos {
    /// Bytes of logical data that one block of a recipe tells the fingerprints of.
    pub recipe_span_bytes: u64,
    /// Bytes of the recipe cache; 20 for each fingerprint.
    pub recipe_cache_bytes: u64,
    /// Random disk requests to look up where a fingerprint's container is, for each extent that is read from it.
    pub lookup_ios: u32,
    /// Bytes read of a container for an extent: its compression region.
    pub container_read_bytes: u32,
    /// Random disk requests for each write: recipe and metadata updates.
    pub write_ios: u32,
}

impl Default for Cos {
    /// Assumptions: recipe blocks of 512 fingerprints of 8 KiB, 64 MiB of recipe cache; two look-ups (fingerprint index and
    /// container metadata) and 128 KiB a read; two metadata updates a write.
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

/// What is behind the cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Traditional primary storage: data where their addresses say.
    Tps,
    /// Capacity-optimized storage: deduplicated and compressed.
    Cos(Cos),
}

/// Time of the processor for each extent, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Everything else of a request.
    pub request_ns: u64,
    /// Decompressing 8 KiB that were compressed.
    pub decompress_ns: u64,
}

impl Default for Cpu {
    /// Measured for 8 KiB of real data on one core of a server (LZ4: 2.9 to 4.1 µs).
    fn default() -> Self {
        Self { request_ns: 10_000, decompress_ns: 4_100 }
    }
}

/// What the controller of the SSD does of random requests of 8 KiB a second; its flash and its link may do less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SsdSpeed {
    /// Reads.
    pub reads: u32,
    /// Writes.
    pub writes: u32,
}

impl Default for SsdSpeed {
    /// Nitro's drive (§5.3).
    fn default() -> Self {
        Self { reads: NITRO_READS, writes: NITRO_WRITES }
    }
}

impl SsdSpeed {
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
    /// Writes are acknowledged when they are in NVRAM, as long as no more than this many bytes of it wait for the origin; 0: when the
    /// origin has them.
    pub nvram_bytes: u64,
    /// The SSD is so many times as large as what the cache uses of it; those made for caching have all of theirs used.
    pub ssd_times: u8,
    /// See [`SsdSpeed`].
    #[serde(default, skip_serializing_if = "SsdSpeed::is_usual")]
    pub ssd: SsdSpeed,
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
            cpu: Cpu::default(),
        }
    }
}

impl Timing {
    /// Checks every setting.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let disks = &self.disks;
        let wrong = match self.load {
            Load::Open(speed) if !(1e-6..=1e9).contains(&speed) => Some("the speed-up is from 1e-6 to 1e9"),
            Load::Closed(depth) if !(1..=1 << 16).contains(&depth) => Some("the depth is from 1 to 65536"),
            _ if !matches!(disks.rpm, 7200 | 15000) => Some("disks have 7200 or 15000 rpm"),
            _ if disks.spindles <= disks.raid.parity() || disks.spindles > 1024 => {
                Some("there are more disks than parity takes, and at most 1024")
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
