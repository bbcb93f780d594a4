//! `nitro-lab sim --cost`: the cost of disks alone, LRU and Nitro for the I/O that they perform.

use super::many;
use super::report::{Known, compression_of};
use crate::args::SimArgs;
use crate::source::{Traces, failed};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_files::{self as files, Links};
use nitro_sim::cost::{Front, Plan, Prices, Row, rows};
use nitro_sim::timing::{Load, Timing};
use nitro_sim::{Knob, Settings};
use serde::Serialize;
use std::path::Path;

/// Maximum size of a table of prices, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize)]
struct Report<'a> {
    /// The tables; the rows of each follow those of the one before.
    prices: &'a [Prices],
    /// The compression ratio of Nitro's rows, if the trace does not tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
    rows: Vec<Row<'a>>,
}

/// The tables of prices that are used without `--prices`: those of 2012, and those of 2026.
fn built_in() -> Result<Vec<Prices>, Error> {
    let tables = [Prices::built_in(), Prices::of_2026()];
    tables.into_iter().map(|table| table.map_err(|error| Error::new("prices", error))).collect()
}

/// The table of `--prices`.
pub(crate) fn named_prices(path: &Path) -> Result<Prices, Error> {
    let what = format!("--prices {}", path.display());
    let way_out = "print a table to start from with `nitro-lab sim --print-prices`";
    let text = files::read_text(path, Links::Followed, FILE_BYTES_MAX)
        .map_err(|error| Error::new(&what, error).or(way_out))?
        .ok_or_else(|| Error::new(&what, "there is no such file").or(way_out))?;
    Prices::parse(&text).map_err(|error| Error::new(&what, error).or(way_out))
}

/// The sizes of `--cache-size` and `--sweep size=...`; no other setting can be swept.
fn sizes(args: &SimArgs, settings: &Settings) -> Result<Vec<u64>, Error> {
    let mut sizes = Vec::new();
    for axis in &args.sweep {
        if axis.knob != Knob::Size {
            let what = format!("--sweep {}", axis.knob.name());
            return Err(Error::new(what, "costs are shown by cache size only").or("with --cost, sweep size alone"));
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

/// The devices of the options. NVRAM has no price in the table; therefore there is none unless an option sets it.
fn timing(args: &SimArgs, settings: &Settings) -> Result<Timing, Error> {
    let mut timing = settings.timing.unwrap_or_default();
    if let Load::Open(_) = timing.load {
        return Err(Error::new(
            "--load open",
            "the times in the trace determine the I/Os a second, so the maximum rate is not measured",
        )
        .or("with --cost, choose closed:N, such as closed:32"));
    }
    if !args.given().any(|(knob, _)| knob == Knob::Nvram) {
        timing.nvram_bytes = 0;
    }
    Ok(timing)
}

/// Simulates disks alone, LRU, and Nitro with and without classes, and prints the cost of each.
pub(super) fn run(source: &Traces<'_>, args: &SimArgs, base: &Settings, known: Known<'_>) -> Result<(), Error> {
    let prices = args.prices.as_deref().map_or_else(built_in, |path| named_prices(path).map(|table| vec![table]))?;
    let timing = timing(args, base)?;
    let sizes = sizes(args, base)?;
    let plan = |prices| Plan::new(prices, base, timing, &sizes, |knob| args.asked(knob));
    let plans: Vec<Plan<'_>> = prices.iter().map(plan).collect();
    let points: Vec<Settings> = plans.iter().flat_map(|plan| plan.points.iter().copied()).collect();
    points.iter().try_for_each(Settings::check).map_err(failed)?;
    let outcomes = many(source, args, &points)?;
    if outcomes.iter().any(|outcome| outcome.measured.pace.is_none_or(|pace| pace.iops <= 0.0)) {
        return Err(Error::new("--cost", "no reads or writes were measured")
            .or("name a trace with reads or writes, or reduce --warmup"));
    }
    let (mut told, mut rest) = (Vec::new(), &outcomes[..]);
    for (prices, plan) in prices.iter().zip(&plans) {
        let (of_plan, others) = rest.split_at(plan.points.len());
        told.extend(rows(prices, plan, of_plan));
        rest = others;
    }
    let report = Report { prices: &prices, compression: compression_of(base, known), rows: told };
    let text = match args.output.format {
        Format::Json => output::json_pretty(&report)?,
        Format::Csv => csv(&report).csv(true),
        Format::Table => people(&report),
    };
    output::print(&text).map(drop)
}

fn people(report: &Report<'_>) -> String {
    let mut table = Table::new([
        "prices",
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
    // A value that rounds to zero gets no minus sign.
    let percent = |share: f64| format!("{:.1} %", (share * 1000.0).round() / 10.0 + 0.0);
    for row in &report.rows {
        table.row(vec![
            row.date.unwrap_or("-").to_owned(),
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
    let mut out = format!("{}\nA MB has 10^6 bytes.\n", table.aligned());
    for Prices { currency, ssd, whole_drives, date, source, .. } in report.prices {
        let bought = if *whole_drives { "whole drives are bought" } else { "a cache costs its share of a drive" };
        let date = date.as_ref().map_or_else(String::new, |date| format!(" of {date}"));
        let source = source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        out += &format!("Prices{date} in {currency}{source}; SSD: {}, {bought}.\n", ssd.name);
    }
    if let Some(compression) = &report.compression {
        out += &format!(
            "Nitro's compression is {compression}: the trace has no compressed sizes (--compression-ratio).\n"
        );
    }
    out
}

fn csv(report: &Report<'_>) -> Table {
    let mut table = Table::new([
        "date",
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
            row.date.unwrap_or_default().to_owned(),
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
