//! `nitro-lab sim`

use crate::inside::Inside;
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use nitro_commands::traces::ReadArgs;
use nitro_commands::{OutputArgs, between};
use nitro_config::Scope;
use nitro_console::size::Size;
use nitro_sim::{Axis, Knob};
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "\
Examples:
  Simulate a cache of 1 GiB on a recorded trace:
    nitro-lab sim recorded.parquet --cache-size 1G
  Compare cache sizes, with and without deduplication:
    nitro-lab sim recorded.parquet --sweep size=256M..16G:x2 --sweep dedup=on,off
  The miss ratio of plain LRU for all cache sizes, in one pass:
    nitro-lab sim recorded.parquet --mrc
  IOPS and response times, 64 requests at a time, over four disks in RAID-5:
    nitro-lab sim recorded.parquet --cache-size 1G --load closed:64 --disks 7200:4:raid5
  Hits by class, and the effect of their priorities (classes.toml is a file for nitro serve --classes):
    nitro-lab sim recorded.parquet --cache-size 1G --classes classes.toml
  The cost of disks alone, LRU and Nitro for each MB and each I/O a second, for several sizes of the cache:
    nitro-lab sim recorded.parquet --cost --sweep size=1G..8G:x2 --classes classes.toml
  Misses of a policy, where each request is one object of fixed size, named by its address:
    nitro-lab sim cloudPhysicsIO.vscsi --policy lru --objects 1024 -o json
  The same with each block of 512 bytes as an object, as the literature counts the traces of the ARC paper:
    nitro-lab sim P3.lis --policy arc --objects 65536 --object-size 512

--sweep takes NAME=VALUE,VALUE,... or NAME=FROM..TO:xFACTOR or NAME=FROM..TO:+STEP, where NAME is an option of the sections Cache and
Time without the leading dashes (size for --cache-size), except classes and reclassify. Finished points of a sweep are kept in a file, so that an interrupted sweep
continues where it stopped. Traces without fingerprints are simulated without duplicates, and the dedup ratio is unknown; without
compressed sizes, compression ratios are drawn at random (normal distribution, mean 2, variance 0.25). Caches start empty: see --warmup.

The options that nitro serve has, too, mean the same, and without any of them a simulation is that of the server without options. Only other
variants than weu have other defaults: --admission all, --eviction lru, --staging 0; and --cost has --ram 0 and --sequential-threshold 0.
--compression, --admission and --eviction are for write-evict units, where lz4 and zstd are the same; --ram and --sequential-threshold are for
variants on an SSD. Of the policies of admission, extents in separate places (direct-mapped, N-way, extent and its variants) have two-level and
two-level-static in write-through: data then replaces only data that was accessed less often, and never metadata.";

/// `nitro-lab sim`
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Traces, merged in the order of their times
    #[arg(required_unless_present = "print_prices", value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) shared: SharedSettings,
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
    /// File for the finished points of a sweep [default: in the user's cache folder]
    #[arg(long, value_name = "FILE", help_heading = "Many at once")]
    pub(crate) results: Option<PathBuf>,
    /// Simulate all points of a sweep again, including finished ones
    #[arg(long, help_heading = "Many at once")]
    pub(crate) fresh: bool,
    /// Show the miss ratio of LRU by cache size, in one pass over a sample of the extents (SHARDS)
    #[arg(long, conflicts_with_all = ["sweep", "policy"], help_heading = "Many at once")]
    pub(crate) mrc: bool,
    /// For --mrc: percentage of the extents that are sampled; 100 is exact [default: at most 65536 of them]
    #[arg(long, value_name = "PCT", requires = "mrc", value_parser = percentage, help_heading = "Many at once")]
    pub(crate) sample: Option<f64>,
    /// Only count misses of a plain policy: lru, slru (segmented LRU), mru, fifo, clock, arc, s3-fifo or belady; each
    /// request is one object of fixed size, or several with --object-size
    #[arg(long, value_name = "POLICY", requires = "objects", help_heading = "Plain policies")]
    pub(crate) policy: Option<String>,
    /// For --policy: number of objects that the cache holds
    #[arg(long, value_name = "N", requires = "policy", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Plain policies")]
    pub(crate) objects: Option<u32>,
    /// For --policy: each block of this size that a request touches is an object [default: each request is an object]
    #[arg(long, value_name = "SIZE", requires = "policy", help_heading = "Plain policies")]
    pub(crate) object_size: Option<Size>,
    /// Show the cost of the I/O: the price for each MB of disks and each I/O a second, for disks alone, LRU, Nitro, and
    /// Nitro with the policies of --classes, for each kind of disk in the table of prices
    #[arg(long, conflicts_with_all = ["mrc", "policy", "variant", "disks", "parquet", "period"], help_heading = "Cost")]
    pub(crate) cost: bool,
    /// For --cost: table of drives and prices, in TOML [default: drives of 2012, see --print-prices, beside those of 2026]
    #[arg(long, value_name = "FILE", requires = "cost", help_heading = "Cost")]
    pub(crate) prices: Option<PathBuf>,
    /// Print the built-in table of 2012, as a template for --prices
    #[arg(long, help_heading = "Cost")]
    pub(crate) print_prices: bool,
    /// Also write the results as Parquet, with a row for each point and period
    #[arg(long, value_name = "FILE")]
    pub(crate) parquet: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// The program that the laboratory is inside of; no option.
    #[arg(skip)]
    pub(crate) inside: Option<Inside>,
}

/// The settings that the server has, too, with its names, values and help texts: those of its settings for which there is a [`Knob`].
#[derive(Debug)]
pub(crate) struct SharedSettings(Vec<(Knob, String)>);

impl SharedSettings {
    /// The settings given as options.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Knob, &str)> {
        self.0.iter().map(|(knob, text)| (*knob, text.as_str()))
    }

    /// The options of the server, with the knobs that they set.
    fn options() -> impl Iterator<Item = (Knob, Arg)> {
        let options =
            [Scope::Cache, Scope::Volume].map(|scope| scope.options().get_arguments().cloned().collect::<Vec<_>>());
        options.into_iter().flatten().filter_map(|option| Some((option.get_long()?.parse().ok()?, option)))
    }
}

impl Args for SharedSettings {
    fn augment_args(command: Command) -> Command {
        // Without what the server's options require.
        let options = Self::options().map(|(knob, option)| {
            let help = option.get_help().cloned().unwrap_or_default();
            // A simulated cache is in no file.
            let help = if knob == Knob::Size { "Size of the cache on the SSD".into() } else { help };
            let values = option.get_possible_values();
            let parser =
                if values.is_empty() { ValueParser::string() } else { PossibleValuesParser::new(values).into() };
            Arg::new(option.get_id().clone())
                .long(knob.long())
                .value_names(option.get_value_names().unwrap_or_default().iter().cloned())
                .value_parser(parser)
                .hide_possible_values(option.is_hide_possible_values_set())
                .help(help)
                .help_heading("Cache")
        });
        command.args(options)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SharedSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            |(knob, option): (Knob, Arg)| Some((knob, matches.get_one::<String>(option.get_id().as_str())?.clone()));
        Ok(Self(Self::options().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What is assumed of a trace, and the part of it that is measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct MeasuredSettings {
    /// Mean compression ratio, for traces without compressed sizes [default: 2]
    #[arg(long, value_name = "RATIO")]
    compression_ratio: Option<String>,
    /// Exclude the beginning of the trace from the results: a time such as 16d or 90m, or a number of requests
    /// [default: 0]
    #[arg(long, value_name = "SPAN")]
    warmup: Option<String>,
}

impl MeasuredSettings {
    /// The settings given as options.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Knob, &str)> {
        let all = [(Knob::Compression, &self.compression_ratio), (Knob::Warmup, &self.warmup)];
        all.into_iter().filter_map(|(knob, text)| Some((knob, text.as_deref()?)))
    }
}

/// The settings of the cache that only a simulation has, and the measured part of the trace.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CacheSettings {
    /// Organisation of the cache on the SSD: weu (Nitro), weu-lru-mod, weu-lru-trim, extent, direct-mapped, N-way (for
    /// any N that divides the extents of the cache, such as 4-way), fully-associative, extent-lru-mod, extent-lru-trim,
    /// naive, lru, slru, mru, fifo, clock, arc, s3-fifo, belady, none
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The former name of --compression
    #[arg(long, hide = true, value_parser = renamed)]
    compress: Option<String>,
    /// Bytes that may be written to the SSD for each byte requested, such as 0.25: close to it, less new content is
    /// admitted and copied forward [default: no limit]
    #[arg(long, value_name = "RATIO")]
    write_budget: Option<String>,
    /// The origin supplies fingerprints, so that reads find content that is cached for another extent [default: off]
    #[arg(long, value_name = "on|off")]
    recipes: Option<String>,
    /// Write-back: clients flush after every N writes, besides the flushes of the trace; flushed data take whole blocks
    /// of the SSD, 4 KiB each [default: 0: only the flushes of the trace; if it has none, each write is durable at once,
    /// and takes only its own space]
    #[arg(long, value_name = "N")]
    flush_every: Option<String>,
    /// Classes of requests, as for nitro serve: a file in TOML or Open-CAS's CSV with rules by offset, request_size and
    /// direction, or, for traces that have classes, file-server, database, hypervisor or dss [default: the trace's classes,
    /// all treated alike]
    #[arg(long, value_name = "FILE|PRESET", conflicts_with_all = ["mrc", "policy"])]
    pub(crate) classes: Option<PathBuf>,
    /// Also apply the rules of --classes to requests that have a class in the trace [default: these keep their class]
    #[arg(long, requires = "classes")]
    pub(crate) reclassify: bool,
    #[command(flatten)]
    measured: MeasuredSettings,
    /// Also show the results by period, such as 1d
    #[arg(long, value_name = "SPAN")]
    period: Option<String>,
    /// Seed of the hash and of random compression ratios [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<String>,
}

/// Devices. Any of these options enables the time model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Time")]
pub(crate) struct DeviceSettings {
    /// closed:N for N requests at a time, or open:X for requests at the trace's times, X times as fast [default:
    /// closed:32]
    #[arg(long, value_name = "LOAD")]
    load: Option<String>,
    /// Kind of the origin: tps (plain storage) or cos (deduplicating storage)
    #[arg(long, value_name = "KIND")]
    origin_kind: Option<String>,
    /// The origin's disks: RPM[:SPINDLES[:raid0|raid5|raid6]] [default: 7200:11:raid5]
    #[arg(long, value_name = "DISKS")]
    disks: Option<String>,
    /// Size of the NVRAM, in which writes are acknowledged while it has room [default: 960M, or 0 with --cost]
    #[arg(long, value_name = "SIZE")]
    nvram: Option<String>,
}

impl SimArgs {
    /// The settings given as options.
    pub(crate) fn given(&self) -> impl Iterator<Item = (Knob, &str)> {
        let (cache, devices) = (&self.cache, &self.devices);
        let all = [
            (Knob::Variant, &cache.variant),
            (Knob::WriteBudget, &cache.write_budget),
            (Knob::Recipes, &cache.recipes),
            (Knob::FlushEvery, &cache.flush_every),
            (Knob::Period, &cache.period),
            (Knob::Seed, &cache.seed),
            (Knob::Load, &devices.load),
            (Knob::Origin, &devices.origin_kind),
            (Knob::Disks, &devices.disks),
            (Knob::Nvram, &devices.nvram),
        ];
        // The mode comes first: the other settings of write-back need it.
        let others = all.into_iter().filter_map(|(knob, text)| Some((knob, text.as_deref()?)));
        self.shared.given().chain(others).chain(cache.measured.given())
    }

    /// Whether a setting is given as an option or in a sweep.
    pub(crate) fn asked(&self, knob: Knob) -> bool {
        self.given().any(|(given, _)| given == knob) || self.sweep.iter().any(|axis| axis.knob == knob)
    }
}

fn renamed(_: &str) -> Result<String, String> {
    Err("it is called --compression now, as in nitro serve: lz4, zstd or none".into())
}

pub(super) fn percentage(text: &str) -> Result<f64, String> {
    between(text, 0.0001, 100.0, "percent")
}
