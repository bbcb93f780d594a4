//! `nitro sim`

use super::{OutputArgs, ReadArgs};
use crate::sim::{Axis, Knob};
use clap::Args;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  What a cache of 1 GiB would have done for a recorded volume:
    nitro sim recorded.parquet --cache-size 1G
  How large should it be, and is deduplication worth its RAM?
    nitro sim recorded.parquet --sweep size=256M..16G:x2 --sweep dedup=on,off
  The same in one pass, for plain LRU:
    nitro sim recorded.parquet --mrc
  IOPS and response times, 64 requests at a time, over four disks in RAID-5:
    nitro sim recorded.parquet --cache-size 1G --load closed:64 --disks 7200:4:raid5
  Misses of a policy over requests as objects of one size, named by their addresses:
    nitro sim cloudPhysicsIO.vscsi --policy lru --objects 1024 -o json

--sweep takes NAME=VALUE,VALUE,... or NAME=FROM..TO:xFACTOR or NAME=FROM..TO:+STEP, with NAME one of the settings above without
its dashes (size for --cache-size). Finished points of a sweep are kept in a file, so that one that was stopped goes on where it
was. Traces without fingerprints have no duplicates; without compressed sizes, compression ratios are drawn by chance (normal,
mean 2, variance 0.25). Caches begin empty: see --warmup.";

/// `nitro sim`
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Traces, taken together, in the order of their times
    #[arg(required = true, value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) cache: CacheSettings,
    #[command(flatten)]
    pub(crate) devices: DeviceSettings,
    /// Simulate all combinations of several values; may be given several times
    #[arg(long, value_name = "NAME=VALUES", help_heading = "Many at once")]
    pub(crate) sweep: Vec<Axis>,
    /// Threads of a sweep [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Many at once")]
    pub(crate) threads: Option<u16>,
    /// Where finished points of a sweep are kept [default: in the user's cache folder]
    #[arg(long, value_name = "FILE", help_heading = "Many at once")]
    pub(crate) results: Option<PathBuf>,
    /// Simulate points again that were finished before
    #[arg(long, help_heading = "Many at once")]
    pub(crate) fresh: bool,
    /// The miss ratio of LRU over the cache's size, in one pass over a sample of the extents (SHARDS)
    #[arg(long, conflicts_with_all = ["sweep", "policy"], help_heading = "Many at once")]
    pub(crate) mrc: bool,
    /// For --mrc: the percentage of the extents that is followed; 100 is exact [default: at most 65536 of them]
    #[arg(long, value_name = "PCT", requires = "mrc", value_parser = percentage, help_heading = "Many at once")]
    pub(crate) sample: Option<f64>,
    /// Count misses of a plain policy only: lru, fifo, clock, arc, s3-fifo or belady, over requests as objects of one size
    #[arg(long, value_name = "POLICY", requires = "objects", help_heading = "Plain policies")]
    pub(crate) policy: Option<String>,
    /// Objects that such a cache holds
    #[arg(long, value_name = "N", requires = "policy", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Plain policies")]
    pub(crate) objects: Option<u32>,
    /// Write the results also as Parquet: a row for each point and period
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// The cache, and what is measured of it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CacheSettings {
    /// What the SSD offers to the cache
    #[arg(long, value_name = "SIZE")]
    cache_size: Option<String>,
    /// How the SSD is used: weu (Nitro), weu-lru-mod, weu-lru-trim, extent, direct-mapped, 4-way, extent-lru-mod, extent-lru-trim, naive, lru, fifo, clock, arc, s3-fifo, belady, none
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// Store duplicates once [default: on]
    #[arg(long, value_name = "on|off")]
    dedup: Option<String>,
    /// Store extents compressed; for write-evict units only [default: on]
    #[arg(long, value_name = "on|off")]
    compress: Option<String>,
    /// Unit of caching, 4K to 128K [default: 8K]
    #[arg(long, value_name = "SIZE")]
    extent_size: Option<String>,
    /// Unit of writing and eviction, 512K to 8M [default: 2M]
    #[arg(long, value_name = "SIZE")]
    weu_size: Option<String>,
    /// Percentage of the cached extents whose fingerprints are kept [default: 100]
    #[arg(long, value_name = "PCT")]
    fingerprint_index: Option<String>,
    /// The origin tells fingerprints, so that reads find duplicates that another extent brought [default: off]
    #[arg(long, value_name = "on|off")]
    recipes: Option<String>,
    /// Writes of a part of an extent that is not cached: merge leaves it uncached, fetch reads the rest [default: merge]
    #[arg(long, value_name = "HOW")]
    partial_writes: Option<String>,
    /// Keep reads of streams from so many consecutive bytes on out of the cache; 0 keeps none out [default: 0]
    #[arg(long, value_name = "SIZE")]
    sequential: Option<String>,
    /// Mean compression ratio, for traces that do not tell [default: 2]
    #[arg(long, value_name = "RATIO")]
    compression: Option<String>,
    /// Do not measure the beginning: a time such as 16d or 90m, or a number of requests [default: 0]
    #[arg(long, value_name = "SPAN")]
    warmup: Option<String>,
    /// Tell the results also by period, such as 1d
    #[arg(long, value_name = "SPAN")]
    period: Option<String>,
    /// Another seed, another hash and other compression ratios [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<String>,
}

/// Devices: any of these has their time modelled.
#[derive(Debug, Args)]
#[command(next_help_heading = "Time")]
pub(crate) struct DeviceSettings {
    /// closed:N, so many requests at a time; or open:X, at the trace's times, X times as fast
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,
    /// tps (plain storage) or cos (deduplicating storage)
    #[arg(long, value_name = "KIND")]
    origin: Option<String>,
    /// The origin's disks: RPM[:SPINDLES[:raid0|raid5|raid6]] [default: 7200:11:raid5]
    #[arg(long, value_name = "DISKS")]
    disks: Option<String>,
    /// NVRAM in which writes are acknowledged while there is room [default: 960M]
    #[arg(long, value_name = "SIZE")]
    nvram: Option<String>,
}

impl SimArgs {
    /// The settings that were given.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Knob, &str)> {
        let (cache, devices) = (&self.cache, &self.devices);
        let all = [
            (Knob::Size, &cache.cache_size),
            (Knob::Variant, &cache.variant),
            (Knob::Dedup, &cache.dedup),
            (Knob::Compress, &cache.compress),
            (Knob::ExtentSize, &cache.extent_size),
            (Knob::WeuSize, &cache.weu_size),
            (Knob::FingerprintIndex, &cache.fingerprint_index),
            (Knob::Recipes, &cache.recipes),
            (Knob::PartialWrites, &cache.partial_writes),
            (Knob::Sequential, &cache.sequential),
            (Knob::Compression, &cache.compression),
            (Knob::Warmup, &cache.warmup),
            (Knob::Period, &cache.period),
            (Knob::Seed, &cache.seed),
            (Knob::Load, &devices.load),
            (Knob::Origin, &devices.origin),
            (Knob::Disks, &devices.disks),
            (Knob::Nvram, &devices.nvram),
        ];
        all.into_iter().filter_map(|(knob, text)| Some((knob, text.as_deref()?)))
    }
}

fn percentage(text: &str) -> Result<f64, String> {
    super::between(text, 0.0001, 100.0, "percent")
}
