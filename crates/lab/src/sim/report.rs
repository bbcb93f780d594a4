//! Outcomes as tables, CSV and JSON.

use super::classes;
use nitro_commands::shares::{missed, percent};
use nitro_config::classes::ClassTable;
use nitro_console::chart::{self, Series};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_sim::workload::SaidContents;
use nitro_sim::{Knob, Latency, Measures, Outcome, Pace, Settings};
use serde_json::Value;

/// Writes of parts of extents are reported if they are at least one in this number of extents.
const PARTIAL_WRITES_TOLD: u64 = 50;

/// The columns of the measures in tables with several rows.
const COLUMNS: [&str; 16] = [
    "requests",
    "read_hit_ratio",
    "read_extent_hit_ratio",
    "ram_hits",
    "readahead_hits",
    "dedup_ratio",
    "compression_ratio",
    "ssd_bytes_written",
    "write_amplification",
    "erasures",
    "evictions",
    "cached_extents",
    "iops",
    "read_response_mean_us",
    "read_response_p99_us",
    "disks_busy",
];

/// What is known about a trace in addition to its outcomes.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    /// What the trace contains about contents.
    pub(super) contents: SaidContents,
    /// The table with the names of its classes.
    pub(super) classes: &'a ClassTable,
}

/// A word instead of the deduplication ratio, if the trace has no fingerprints.
fn dedup_of(settings: &Settings, known: Known<'_>) -> Option<&'static str> {
    (settings.dedup && !known.contents.fingerprints).then_some("unknown")
}

/// Words instead of the compression ratio, if the trace has no compressed sizes.
pub(super) fn compression_of(settings: &Settings, known: Known<'_>) -> Option<String> {
    let assumed = settings.compress && !known.contents.compressed_sizes;
    assumed.then(|| format!("assumed {} : 1", settings.compression_mean))
}

/// An outcome as JSON: ratios that are not from the trace are null, and `dedup` or `compression` has the words instead.
pub(super) fn json(outcome: &Outcome, known: Known<'_>) -> Result<Value, Error> {
    let mut json = serde_json::to_value(outcome).map_err(|e| Error::new("outcome", e))?;
    json["classes"] = classes::json(&outcome.measured, known.classes)?;
    for (period, measures) in json["periods"].as_array_mut().into_iter().flatten().zip(&outcome.periods) {
        period["classes"] = classes::json(measures, known.classes)?;
    }
    let dedup = dedup_of(&outcome.settings, known).map(|words| ("dedup", "dedup_ratio", words.to_owned()));
    let compression = compression_of(&outcome.settings, known).map(|words| ("compression", "compression_ratio", words));
    for (name, ratio, words) in dedup.into_iter().chain(compression) {
        json[name] = words.into();
        json[ratio] = Value::Null;
        for period in json["periods"].as_array_mut().into_iter().flatten() {
            period[ratio] = Value::Null;
        }
    }
    Ok(json)
}

fn cells(measures: &Measures, settings: &Settings, known: Known<'_>) -> Vec<String> {
    let ratio = |ratio: f64| format!("{ratio:.4}");
    let paced = |value: &dyn Fn(&Pace) -> String| measures.pace.as_ref().map_or_else(String::new, value);
    vec![
        measures.requests.to_string(),
        ratio(measures.read_hit_ratio),
        ratio(measures.read_extent_hit_ratio),
        measures.ram_hits.to_string(),
        measures.readahead_hits.to_string(),
        dedup_of(settings, known).map_or_else(|| ratio(measures.dedup_ratio), str::to_owned),
        compression_of(settings, known).unwrap_or_else(|| ratio(measures.compression_ratio)),
        measures.ssd_bytes_written.to_string(),
        ratio(measures.write_amplification),
        measures.erasures.to_string(),
        measures.evictions.to_string(),
        measures.cached_extents.to_string(),
        paced(&|pace| format!("{:.1}", pace.iops)),
        paced(&|pace| format!("{:.1}", pace.read_response.mean_us)),
        paced(&|pace| format!("{:.1}", pace.read_response.p99_us)),
        paced(&|pace| ratio(pace.disks_busy)),
    ]
}

/// The result of one simulation.
pub(super) fn single(outcome: &Outcome, known: Known<'_>, format: Format) -> Result<String, Error> {
    match format {
        Format::Json => output::json_pretty(&json(outcome, known)?),
        Format::Csv => Ok(periods(outcome, known).csv(true)),
        Format::Table => Ok(people(outcome, known)),
    }
}

/// One row for each period; one row in all if there are no periods.
fn periods(outcome: &Outcome, known: Known<'_>) -> Table {
    let mut table = Table::new([&["begin_s", "end_s"][..], &COLUMNS].concat());
    let all = if outcome.periods.is_empty() { std::slice::from_ref(&outcome.measured) } else { &outcome.periods };
    for period in all {
        let times = [format!("{:.3}", period.begin_s), format!("{:.3}", period.end_s)];
        table.row([&times[..], &cells(period, &outcome.settings, known)].concat());
    }
    table
}

fn people(outcome: &Outcome, known: Known<'_>) -> String {
    let (settings, m) = (&outcome.settings, &outcome.measured);
    let on = |on: bool, letter: &str| if on { letter.to_owned() } else { format!("N{letter}") };
    let mut out = format!(
        "cache         {} {} ({}, {}), extents of {}\n",
        Size(settings.cache_bytes),
        settings.variant,
        on(settings.dedup, "D"),
        on(settings.compress, "C"),
        Size(settings.extent_bytes.into())
    );
    let mut line = |name: &str, text: String| out += &format!("{name:<13} {text}\n");
    let of_all = |ratio: f64| format!("{:.2} %", ratio * 100.0);
    if outcome.warmup_requests > 0 {
        line("warm-up", format!("{} requests, not counted below", outcome.warmup_requests));
    }
    let flushes = if m.flushes == 0 { String::new() } else { format!("; {} flushes", m.flushes) };
    line("requests", format!("{}: {} reads, {} writes, {} trims{flushes}", m.requests, m.reads, m.writes, m.trims));
    line(
        "read hits",
        format!("{} of requests, {} of extents", of_all(m.read_hit_ratio), of_all(m.read_extent_hit_ratio)),
    );
    if let Some(text) = in_ram(outcome) {
        line("RAM hits", text);
    }
    if m.missed.all() > 0 {
        line("missed", missed(&m.missed));
    }
    if let Some(text) = part_writes(outcome) {
        line("part writes", text);
    }
    contents(outcome, known).into_iter().for_each(|(name, text)| line(name, text));
    line("SSD written", format!("{}, write amplification {:.3}", Size(m.ssd_bytes_written), m.write_amplification));
    line("erasures", m.erasures.to_string());
    if m.around_extents > 0 {
        line("around", format!("{} written extents, by the rules of their classes", m.around_extents));
    }
    if m.destaged_extents > 0 {
        line("destaged", format!("{} extents with {} writes of the origin", m.destaged_extents, m.destage_writes));
    }
    line(
        "cached",
        format!(
            "{} extents, {} of them raw",
            m.cached_extents,
            Size(m.cached_extents * u64::from(settings.extent_bytes))
        ),
    );
    let per_extent = match m.cached_extents {
        0 => String::new(),
        _ => format!(", {:.2} bytes for each cached extent", outcome.ram_bytes_per_extent),
    };
    line("RAM", format!("{}{per_extent}", Size(outcome.ram_bytes)));
    for (name, text) in paces(m.pace.as_ref()).into_iter().chain(left_out(outcome)) {
        line(name, text);
    }
    if let Some(classes) = classes::people(m, known.classes) {
        out += "\n";
        out += &classes;
    }
    if !outcome.periods.is_empty() {
        out += "\n";
        out += &periods(outcome, known).aligned();
    }
    out
}

/// The reduction of contents, as far as the trace contains the data for it.
fn contents(outcome: &Outcome, known: Known<'_>) -> [(&'static str, String); 2] {
    let (settings, m) = (&outcome.settings, &outcome.measured);
    let dedup = dedup_of(settings, known).map(|words| format!("{words}: the trace has no fingerprints"));
    let compression =
        compression_of(settings, known).map(|words| format!("{words}: the trace has no compressed sizes"));
    [
        ("dedup", dedup.unwrap_or_else(|| format!("{:.3} : 1", m.dedup_ratio))),
        ("compression", compression.unwrap_or_else(|| format!("{:.3} : 1", m.compression_ratio))),
    ]
}

/// The hits in RAM, if there is RAM in front of the SSD.
fn in_ram(outcome: &Outcome) -> Option<String> {
    let (settings, m) = (&outcome.settings, &outcome.measured);
    let streams = (settings.sequential_bytes > 0).then(|| {
        let part = percent(m.readahead_hits, m.read_extents);
        format!("{part} in RAM for streams; {} extents were read ahead", m.readahead_extents)
    });
    let cached = (settings.ram_bytes > 0).then(|| format!("{} in the RAM cache", percent(m.ram_hits, m.read_extents)));
    let parts: Vec<String> = cached.into_iter().chain(streams).collect();
    (!parts.is_empty()).then(|| format!("of extents {}", parts.join(", ")))
}

/// What was done with writes of parts of extents, if there are many.
fn part_writes(outcome: &Outcome) -> Option<String> {
    let m = &outcome.measured;
    let is_many = m.partial_writes > 0 && m.partial_writes >= m.extents / PARTIAL_WRITES_TOLD;
    is_many.then(|| {
        let part = |count: u64| percent(count, m.partial_writes);
        format!(
            "{} of extents; of these {} were cached, {} were completed by a further part; {} extents were read from the \
             origin (--partial-writes {})",
            percent(m.partial_writes, m.extents),
            part(m.merged_extents),
            part(m.completed_extents),
            m.fetched_extents,
            outcome.settings.partial_writes,
        )
    })
}

/// The response times of requests, if the time of devices was modelled.
fn paces(pace: Option<&Pace>) -> Vec<(&'static str, String)> {
    let latency = |l: &Latency| {
        format!(
            "mean {:.0} us, median {:.0}, 90 % {:.0}, 99 % {:.0}, 99.9 % {:.0}",
            l.mean_us, l.p50_us, l.p90_us, l.p99_us, l.p999_us
        )
    };
    let lines = |pace: &Pace| {
        let busy = format!("disks {:.2} % busy", pace.disks_busy * 100.0);
        vec![
            ("IOPS", format!("{:.0} over {:.1} s, {busy}", pace.iops, pace.seconds)),
            ("reads took", latency(&pace.read_response)),
            ("writes took", latency(&pace.write_response)),
        ]
    };
    pace.map_or_else(Vec::new, lines)
}

/// The records of the trace that were not simulated.
fn left_out(outcome: &Outcome) -> impl Iterator<Item = (&'static str, String)> {
    let all = [
        (outcome.ignored_requests, "requests that neither read, write, trim nor flush"),
        (outcome.bad_records, "bad records"),
    ];
    all.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| ("left out", format!("{count} {what}")))
}

/// The result of a sweep: the settings that differ, and the measures.
pub(super) fn many(outcomes: &[Outcome], knobs: &[Knob], known: Known<'_>, format: Format) -> Result<String, Error> {
    if format == Format::Json {
        let all = outcomes.iter().map(|outcome| json(outcome, known)).collect::<Result<Vec<_>, _>>()?;
        return output::json_pretty(&all);
    }
    if format == Format::Table {
        return Ok(sweep_for_people(outcomes, knobs, known).aligned() + &curves(outcomes, knobs));
    }
    let names: Vec<&'static str> = knobs.iter().map(|knob| knob.name()).collect();
    let mut table = Table::new([&names[..], &COLUMNS, &["ram_bytes", "ram_bytes_per_extent"]].concat());
    for outcome in outcomes {
        let values: Vec<_> = knobs.iter().map(|knob| value(*knob, &outcome.settings, format)).collect();
        let ram = [outcome.ram_bytes.to_string(), format!("{:.2}", outcome.ram_bytes_per_extent)];
        let measured = cells(&outcome.measured, &outcome.settings, known);
        table.row([&values[..], &measured[..], &ram[..]].concat());
    }
    Ok(table.csv(true))
}

/// The most important measures of each outcome, in narrow columns; CSV and JSON have all.
fn sweep_for_people(outcomes: &[Outcome], knobs: &[Knob], known: Known<'_>) -> Table {
    const PLAIN: [&str; 9] = ["hits", "ext_hits", "dedup", "compr", "written", "w_amp", "evicted", "RAM", "RAM_B/ext"];
    const TIMED: [&str; 4] = ["iops", "read_us", "read_p99", "busy"];
    let names: Vec<&'static str> = knobs.iter().map(|knob| knob.name()).collect();
    let timed = outcomes.iter().any(|outcome| outcome.measured.pace.is_some());
    type Hits = fn(&Measures) -> u64;
    let mut front: Vec<(&str, Hits)> = vec![("in_ram", |m| m.ram_hits), ("ahead", |m| m.readahead_hits)];
    // What is nowhere of use takes no column.
    front.retain(|(_, hits)| outcomes.iter().any(|outcome| hits(&outcome.measured) > 0));
    let in_ram: Vec<&str> = front.iter().map(|(name, _)| *name).collect();
    let times = if timed { &TIMED[..] } else { &[] };
    let mut table = Table::new([&names[..], &PLAIN[..], &in_ram[..], times].concat());
    for outcome in outcomes {
        let (measures, settings) = (&outcome.measured, &outcome.settings);
        let mut row: Vec<_> = knobs.iter().map(|knob| value(*knob, settings, Format::Table)).collect();
        let assumed = settings.compress && !known.contents.compressed_sizes;
        let compression = if assumed { settings.compression_mean } else { measures.compression_ratio };
        row.extend([
            format!("{:.4}", measures.read_hit_ratio),
            format!("{:.4}", measures.read_extent_hit_ratio),
            dedup_of(settings, known).map_or_else(|| format!("{:.2}", measures.dedup_ratio), str::to_owned),
            format!("{}{compression:.2}", if assumed { "~" } else { "" }),
            Size(measures.ssd_bytes_written).to_string(),
            format!("{:.2}", measures.write_amplification),
            measures.evictions.to_string(),
            Size(outcome.ram_bytes).to_string(),
            format!("{:.1}", outcome.ram_bytes_per_extent),
        ]);
        let share = |hits: u64| format!("{:.4}", hits as f64 / measures.read_extents.max(1) as f64);
        row.extend(front.iter().map(|(_, hits)| share(hits(measures))));
        if timed {
            let told = |value: &dyn Fn(&Pace) -> f64, digits: usize| {
                measures.pace.as_ref().map_or_else(String::new, |pace| format!("{:.digits$}", value(pace)))
            };
            row.extend([told(&|pace| pace.iops, 0), told(&|pace| pace.read_response.mean_us, 0)]);
            row.extend([told(&|pace| pace.read_response.p99_us, 0), told(&|pace| pace.disks_busy, 2)]);
        }
        table.row(row);
    }
    table
}

fn value(knob: Knob, settings: &Settings, format: Format) -> String {
    let size = |bytes: u64| if format == Format::Csv { bytes.to_string() } else { Size(bytes).to_string() };
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    match knob {
        Knob::Size => size(settings.cache_bytes),
        Knob::Variant => settings.variant.to_string(),
        Knob::Dedup => switch(settings.dedup),
        Knob::Compress => if settings.compress { "lz4" } else { "none" }.into(),
        Knob::ExtentSize => size(settings.extent_bytes.into()),
        Knob::WeuSize => size(settings.weu_bytes.into()),
        Knob::FingerprintIndex => settings.fingerprint_index_percent.to_string(),
        Knob::Index => settings.index.to_string(),
        Knob::Admission => settings.admission.to_string(),
        Knob::Eviction => settings.eviction.to_string(),
        Knob::Staging => size(settings.staging_bytes),
        Knob::WriteBudget => settings.write_budget.map_or_else(String::new, |ratio| ratio.to_string()),
        Knob::Recipes => switch(settings.recipes),
        Knob::Patterns => switch(settings.patterns),
        Knob::Ram => size(settings.ram_bytes),
        Knob::Sequential => size(settings.sequential_bytes),
        Knob::Compression => settings.compression_mean.to_string(),
        Knob::Period => settings.period_ns.to_string(),
        Knob::Seed => settings.seed.to_string(),
        Knob::PartialWrites => settings.partial_writes.to_string(),
        Knob::WritePolicy => settings.write_policy.to_string(),
        Knob::Mode => if settings.write_back.is_some() { "write-back" } else { "write-through" }.to_owned(),
        Knob::DirtyStart => settings.write_back.map_or_else(String::new, |marks| marks.start_percent.to_string()),
        Knob::DirtyMax => settings.write_back.map_or_else(String::new, |marks| marks.max_percent.to_string()),
        Knob::DirtyAge => settings.write_back.map_or_else(String::new, |marks| format!("{}s", marks.age_seconds)),
        Knob::FlushEvery => settings.flush_every.to_string(),
        Knob::Destage => settings.destage.to_string(),
        Knob::Warmup => told(&settings.warmup),
        Knob::Load => told(&settings.timing.map(|timing| timing.load)),
        Knob::Origin => told(&settings.timing.map(|timing| timing.origin)),
        Knob::Disks => settings.timing.map_or_else(String::new, |timing| {
            format!("{}:{}:{}", timing.disks.rpm, timing.disks.spindles, told(&timing.disks.raid))
        }),
        Knob::Nvram => settings.timing.map_or_else(String::new, |timing| size(timing.nvram_bytes)),
    }
}

/// As JSON, without quotation marks and braces.
fn told(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    text.chars().filter(|c| !matches!(c, '"' | '{' | '}')).collect()
}

/// The miss ratio of reads by the size of the cache; one line for each combination of the other settings.
fn curves(outcomes: &[Outcome], knobs: &[Knob]) -> String {
    let others: Vec<Knob> = knobs.iter().copied().filter(|knob| *knob != Knob::Size).collect();
    let mut lines: Vec<Series> = Vec::new();
    for outcome in outcomes {
        let values =
            others.iter().map(|knob| format!("{} {}", knob.name(), value(*knob, &outcome.settings, Format::Table)));
        let name = values.collect::<Vec<_>>().join(", ");
        let point = (outcome.settings.cache_bytes, 1.0 - outcome.measured.read_hit_ratio);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Series { name, points: vec![point] }),
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by_key(|point| point.0));
    let chart = chart::draw("miss ratio of reads over the size of the cache", &lines);
    if chart.is_empty() { chart } else { format!("\n{chart}") }
}
