//! `nitro sim --cost`: what disks alone, LRU and Nitro cost for the I/O that they do.

use super::source::{Source, failed};
use super::{Knob, adapt, many};
use crate::args::SimArgs;
use nitro_cache::admission::AdmissionKind;
use nitro_cache::class::Classes;
use nitro_cache::eviction::EvictionKind;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_server::files::{self, Links};
use nitro_sim::cost::{Cost, Hdd, Prices};
use nitro_sim::timing::{Load, Timing};
use nitro_sim::{Outcome, Settings, Variant};
use serde::Serialize;
use std::path::Path;

/// The longest table of prices that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is in front of the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Front {
    /// Nothing.
    None,
    /// A cache of single extents, the least recently used replaced first; neither deduplication nor compression.
    Lru,
    /// Nitro, all classes treated alike.
    Nitro,
    /// Nitro with the policies of classes.
    Classes,
}

impl Front {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lru => "lru",
            Self::Nitro => "nitro",
            Self::Classes => "classes",
        }
    }

    /// The settings of a simulation with it.
    fn settings(self, args: &SimArgs, base: &Settings, cache_bytes: u64) -> Settings {
        let mut settings = Settings { cache_bytes, ..*base };
        match self {
            Self::None => {
                settings.cache_bytes = 0;
                settings.variant = Variant::None;
            }
            Self::Lru => settings.variant = Variant::Extent { ways: 0 },
            Self::Nitro => settings.classes = Classes::default(),
            Self::Classes => {}
        }
        adapt(args, &mut settings);
        if settings.variant.has_weus() {
            return settings;
        }
        let (admission, eviction) = (AdmissionKind::All, EvictionKind::Lru);
        let plain = Settings { dedup: false, compress: false, recipes: false, admission, eviction, ..settings };
        Settings { staging_bytes: 0, write_budget: None, ..plain }
    }
}

/// A line of the result.
#[derive(Debug, Serialize)]
struct Row<'a> {
    hdd: &'a str,
    cache: Front,
    cache_bytes: u64,
    read_hit_ratio: f64,
    iops: f64,
    #[serde(flatten)]
    cost: Cost,
    /// By how much it costs less for each MB and I/O a second than the disks alone, 0 to 1; below 0, if it costs more.
    saving_over_none: f64,
    /// The same over LRU on a cache of the same size; `None` for the disks alone.
    saving_over_lru: Option<f64>,
}

#[derive(Serialize)]
struct Report<'a> {
    prices: &'a Prices,
    rows: Vec<Row<'a>>,
}

/// The table that `--prices` names, or the one that is built in.
fn prices(named: Option<&Path>) -> Result<Prices, Error> {
    let Some(path) = named else { return Prices::built_in().map_err(|error| Error::new("prices", error)) };
    let what = format!("--prices {}", path.display());
    let way_out = "print a table to start from with `nitro sim --print-prices`";
    let text = files::read_text(path, Links::Followed, FILE_BYTES_MAX)
        .map_err(|error| Error::new(&what, error).or(way_out))?
        .ok_or_else(|| Error::new(&what, "there is no such file").or(way_out))?;
    Prices::parse(&text).map_err(|error| Error::new(&what, error).or(way_out))
}

/// The sizes of `--cache-size` and `--sweep size=...`; nothing else can be swept.
fn sizes(args: &SimArgs, settings: &Settings) -> Result<Vec<u64>, Error> {
    let mut sizes = Vec::new();
    for axis in &args.sweep {
        if axis.knob != Knob::Size {
            let what = format!("--sweep {}", axis.knob.name());
            return Err(Error::new(what, "costs are over sizes of the cache").or("sweep size alone beside --cost"));
        }
        for value in &axis.values {
            let mut point = *settings;
            Knob::Size.set(&mut point, value).map_err(|why| Error::new(format_args!("--sweep size={value}"), why))?;
            sizes.push(point.cache_bytes);
        }
    }
    if sizes.is_empty() {
        sizes.push(settings.cache_bytes);
    }
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

/// Devices as the user asked for them. NVRAM has no price in the table, so there is none unless it was asked for.
fn timing(args: &SimArgs, settings: &Settings) -> Result<Timing, Error> {
    let mut timing = settings.timing.unwrap_or_default();
    if let Load::Open(_) = timing.load {
        return Err(Error::new(
            "--load open",
            "the trace's own times say how many I/Os a second there are, not what is possible",
        )
        .or("choose closed:N beside --cost, such as closed:32"));
    }
    if !args.given().any(|(knob, _)| knob == Knob::Nvram) {
        timing.nvram_bytes = 0;
    }
    Ok(timing)
}

/// Simulates disks alone, LRU, and Nitro with and without classes, and prints what each costs.
pub(super) fn run(source: &Source<'_>, args: &SimArgs, base: &Settings) -> Result<(), Error> {
    let prices = prices(args.prices.as_deref())?;
    let timing = timing(args, base)?;
    let sizes = sizes(args, base)?;
    let fronts = [Front::Lru, Front::Nitro, Front::Classes];
    let fronts = &fronts[..if base.classes.are_usual() { 2 } else { 3 }];
    let (mut plan, mut points) = (Vec::new(), Vec::new());
    for hdd in &prices.hdds {
        let timing = Timing { disks: hdd.disks(), ssd: prices.ssd.speed, ..timing };
        let base = Settings { timing: Some(timing), ..*base };
        let cached = sizes.iter().flat_map(|size| fronts.iter().map(|front| (*front, *size)));
        for (front, size) in std::iter::once((Front::None, 0)).chain(cached) {
            plan.push((hdd, front));
            points.push(front.settings(args, &base, size));
        }
    }
    points.iter().try_for_each(Settings::check).map_err(failed)?;
    let outcomes = many(source, args, &points)?;
    if outcomes.iter().any(|outcome| outcome.measured.pace.is_none_or(|pace| pace.iops <= 0.0)) {
        return Err(Error::new("--cost", "no reads or writes were measured: there are no I/Os to pay for")
            .or("name a trace that has some, with less --warmup"));
    }
    let report = Report { rows: rows(&prices, &plan, &outcomes), prices: &prices };
    let text = match args.output.format {
        Format::Json => output::json_pretty(&report)?,
        Format::Csv => csv(&report).csv(true),
        Format::Table => people(&report),
    };
    output::print(&text).map(drop)
}

fn rows<'a>(prices: &Prices, plan: &[(&'a Hdd, Front)], outcomes: &[Outcome]) -> Vec<Row<'a>> {
    let (mut rows, mut alone, mut lru): (Vec<Row<'a>>, f64, f64) = (Vec::new(), 0.0, 0.0);
    for ((hdd, front), outcome) in plan.iter().zip(outcomes) {
        let iops = outcome.measured.pace.as_ref().map_or(0.0, |pace| pace.iops);
        let cost = prices.cost(hdd, outcome.settings.cache_bytes, iops);
        // Disks alone come first, and LRU before the others of its size.
        match front {
            Front::None => alone = cost.price_per_mb_iops,
            Front::Lru => lru = cost.price_per_mb_iops,
            Front::Nitro | Front::Classes => {}
        }
        rows.push(Row {
            hdd: &hdd.name,
            cache: *front,
            cache_bytes: outcome.settings.cache_bytes,
            read_hit_ratio: outcome.measured.read_hit_ratio,
            iops,
            cost,
            saving_over_none: 1.0 - cost.price_per_mb_iops / alone,
            saving_over_lru: (*front != Front::None).then_some(1.0 - cost.price_per_mb_iops / lru),
        });
    }
    rows
}

fn people(report: &Report<'_>) -> String {
    let Prices { currency, ssd, whole_drives, .. } = report.prices;
    let mut table = Table::new([
        "disks",
        "cache",
        "size",
        "read_hits",
        "iops",
        "price",
        "per_mb",
        "per_mb_iops",
        "saving_over_none",
        "saving_over_lru",
    ]);
    // No minus sign before what rounds to nothing.
    let percent = |share: f64| format!("{:.1} %", (share * 1000.0).round() / 10.0 + 0.0);
    for row in &report.rows {
        table.row(vec![
            row.hdd.to_owned(),
            row.cache.name().to_owned(),
            if row.cache == Front::None { "-".to_owned() } else { Size(row.cache_bytes).to_string() },
            percent(row.read_hit_ratio),
            format!("{:.0}", row.iops),
            format!("{:.2}", row.cost.hdd_price + row.cost.ssd_price),
            format!("{:.2}e-6", row.cost.price_per_mb * 1e6),
            format!("{:.4}e-6", row.cost.price_per_mb_iops * 1e6),
            percent(row.saving_over_none),
            row.saving_over_lru.map_or_else(|| "-".to_owned(), percent),
        ]);
    }
    let bought = if *whole_drives { "bought whole" } else { "a cache costs its share" };
    format!("{}\nPrices in {currency}; SSD: {}, {bought}. A MB has 10^6 bytes.\n", table.aligned(), ssd.name)
}

fn csv(report: &Report<'_>) -> Table {
    let mut table = Table::new([
        "hdd",
        "cache",
        "cache_bytes",
        "read_hit_ratio",
        "iops",
        "hdd_price",
        "ssd_price",
        "price_per_mb",
        "price_per_mb_iops",
        "saving_over_none",
        "saving_over_lru",
    ]);
    for row in &report.rows {
        table.row(vec![
            row.hdd.to_owned(),
            row.cache.name().to_owned(),
            row.cache_bytes.to_string(),
            format!("{:.4}", row.read_hit_ratio),
            format!("{:.1}", row.iops),
            format!("{:.2}", row.cost.hdd_price),
            format!("{:.4}", row.cost.ssd_price),
            format!("{:e}", row.cost.price_per_mb),
            format!("{:e}", row.cost.price_per_mb_iops),
            format!("{:.4}", row.saving_over_none),
            row.saving_over_lru.map_or_else(String::new, |saving| format!("{saving:.4}")),
        ]);
    }
    table
}
