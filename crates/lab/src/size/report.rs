//! The answer in words, as a chart and as a table.

use super::answer::{Answer, Checked, Kind};
use super::contents::{Origin, Ratio};
use super::drive::Drive;
use crate::args::SizeArgs;
use nitro_console::chart::{self, Series};
use nitro_console::output::Table;
use nitro_console::size::Size;
use nitro_sim::sizing::Point;
use std::path::PathBuf;

impl Kind {
    /// The name in results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Uncompressed => "uncompressed",
            Self::Undeduplicated => "undeduplicated",
            Self::Plain => "plain",
            Self::AdmitAllLru => "admit-all-lru",
        }
    }

    /// The name in the chart.
    const fn words(self) -> &'static str {
        match self {
            Self::Asked => "Nitro",
            Self::Uncompressed => "without compression",
            Self::Undeduplicated => "without deduplication",
            Self::Plain => "without both",
            Self::AdmitAllLru => "Nitro with --admission all --eviction lru",
        }
    }
}

/// A share in percent.
fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

/// The difference between two shares, in points.
fn points(ratio: f64) -> String {
    // A value that rounds to zero gets no minus sign.
    format!("{:.1} points", (ratio * 1000.0).round() / 10.0 + 0.0)
}

/// A size as vendors tell it: in units of 10⁹ bytes.
fn gigabytes(bytes: u64) -> String {
    if bytes < 1_000_000_000 { Size(bytes).to_string() } else { format!("{:.0} GB", bytes as f64 / 1e9) }
}

/// A span of time.
pub(super) fn span(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (0.0, "seconds")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= 2.0 * unit).unwrap_or((1.0, "seconds"));
    format!("{:.1} {name}", seconds / unit.max(1.0))
}

/// The answer for people.
pub(super) fn words(answer: &Answer, traces: &[PathBuf], args: &SizeArgs) -> String {
    let mut out =
        hits(answer) + "\n" + &touched(answer) + "\n" + &life(&answer.drive, answer.recommended.seconds) + "\n";
    out += &contents(answer);
    for checked in &answer.cross_checks {
        out += &(cross_check(checked, answer) + "\n");
    }
    let all: Vec<_> = traces.iter().map(|path| path.display().to_string()).collect();
    out += &format!("\n{}", chart(answer));
    out += &format!("\nThe whole simulation: nitro-lab sim {} {}\n", all.join(" "), answer.simulated_with(args));
    out
}

fn hits(answer: &Answer) -> String {
    let Answer { recommended, doubled, best, .. } = answer;
    let is_least = recommended.cache_bytes <= answer.least_cache_bytes && !answer.size_was_given;
    let size = Size(recommended.cache_bytes);
    let about = if answer.sample_rate < 1.0 { "About " } else { "" };
    let least = if is_least { ", the smallest that can be simulated" } else { "" };
    let mut text = format!("{about}{} of reads hit with {size}{least}", percent(recommended.read_extent_hit_ratio));
    let more = doubled.read_extent_hit_ratio - recommended.read_extent_hit_ratio;
    text += &format!("; {} add {}.", Size(doubled.cache_bytes), points(more.max(0.0)));
    if !answer.reached {
        let wanted = percent(answer.wanted_hit_ratio);
        text += &format!(
            " No cache hits {wanted}: the most is {}, because the other reads are of data that was not read or written before.",
            percent(best.read_extent_hit_ratio)
        );
    }
    text
}

fn touched(answer: &Answer) -> String {
    let totals = &answer.totals;
    let about = if answer.sample_rate < 1.0 { "about " } else { "" };
    let mut text = format!(
        "The trace touches {about}{} in {}: {} reads, {} writes.",
        Size(answer.touched_bytes),
        span(totals.seconds),
        totals.reads,
        totals.writes
    );
    if answer.sample_rate < 1.0 {
        text += &format!(" {} of its extents were simulated (--sample).", percent(answer.sample_rate));
    }
    text
}

/// How long the SSD lasts, and what it costs.
pub(super) fn life(drive: &Drive, seconds: f64) -> String {
    let assumed = if drive.endurance_is_assumed { " (assumed; see --endurance)" } else { "" };
    let capacity = gigabytes(drive.capacity_bytes);
    let (one, verb) = match drive.count {
        1 => (format!("An SSD of {capacity}"), "lasts"),
        count => (format!("{count} SSDs of {capacity}"), "last"),
    };
    let life = match (drive.years, drive.written_bytes_per_day) {
        (Some(years), _) if years >= 100.0 => format!("{verb} more than 100 years"),
        (Some(years), _) if years < 1.0 => format!("{verb} {:.0} days", years * 365.0),
        (Some(years), _) => format!("{verb} {years:.1} years"),
        (None, Some(_)) => format!("{verb} for ever: nothing is written to it"),
        (None, None) => "has no known life, because the trace takes no time".to_owned(),
    };
    let written = drive.written_bytes_per_day.map_or_else(String::new, |bytes| {
        format!(": {} are written to it in a day, as in {}", Size(bytes as u64), span(seconds))
    });
    let date = drive.date.as_ref().map_or_else(String::new, |date| format!(" of {date}"));
    let source = drive.source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
    format!(
        "{one} with {}{assumed} {life}{written}. It costs {:.0} {} at {:.3} for each GB, prices{date}{source}.",
        drive.endurance, drive.price, drive.currency, drive.price_per_gb
    )
}

/// What is known of contents, with the ratios that are assumed, and the size without compression.
fn contents(answer: &Answer) -> String {
    let Answer { contents, recommended, .. } = answer;
    let image = contents.image.as_deref().unwrap_or_default();
    let told = |ratio: Ratio, measured: f64, missing: &str, without: &str| match (ratio.origin, ratio.mean) {
        (Origin::Trace, _) => format!("{measured:.2} : 1, measured in the trace"),
        (Origin::Image, Some(mean)) => {
            format!("{mean:.2} : 1, measured in {image}, and assumed for what the trace has")
        }
        (Origin::Given, Some(mean)) => format!("{mean} : 1, as given"),
        (Origin::Assumed, Some(mean)) if mean > 1.0 => {
            format!("assumed {mean} : 1, because the trace has no {missing}")
        }
        (Origin::Off, _) => "off".to_owned(),
        _ => without.to_owned(),
    };
    let compression =
        told(contents.compression, recommended.compression_ratio, "compressed sizes (--image measures)", "none");
    let unknown = "unknown, because the trace has no fingerprints (--image measures): none is assumed";
    let dedup = told(contents.dedup, recommended.dedup_ratio, "fingerprints", unknown);
    let without = match &answer.uncompressed {
        Some(point) => format!("; without it {}", Size(point.cache_bytes)),
        None => String::new(),
    };
    format!("Compression: {compression}{without}.\nDeduplication: {dedup}.\n")
}

fn cross_check(checked: &Checked, answer: &Answer) -> String {
    let Checked { trace, point, own } = checked;
    let more = point.read_extent_hit_ratio - answer.recommended.read_extent_hit_ratio;
    let less = if more < 0.0 { format!("{} less", points(-more)) } else { format!("{} more", points(more)) };
    let own = match own {
        Some(own) => format!("for as many, {} are needed there", Size(own.cache_bytes)),
        None => "no size hits as many there".to_owned(),
    };
    let (hit, size) = (percent(point.read_extent_hit_ratio), Size(point.cache_bytes));
    format!("On {trace}, {hit} of reads hit with {size}, {less}; {own}.")
}

fn chart(answer: &Answer) -> String {
    let miss = |point: &Point| (point.cache_bytes, 1.0 - point.read_extent_hit_ratio);
    let mut lines: Vec<Series> = Vec::new();
    // What comes later covers what comes before.
    let (from, to) = answer
        .curves
        .first()
        .and_then(|curve| Some((curve.points.first()?, curve.points.last()?)))
        .map_or((0, u64::MAX), |(first, last)| (first.cache_bytes, last.cache_bytes));
    let lru = answer.lru.points.iter().map(|point| (point.objects * u64::from(answer.extent_bytes), point.miss_ratio));
    let lru: Vec<_> = lru.filter(|(bytes, _)| (from..=to).contains(bytes)).step_by(4).collect();
    for curve in answer.curves.iter().rev() {
        lines.push(Series { name: curve.kind.words().into(), points: curve.points.iter().map(miss).collect() });
    }
    lines.insert(0, Series { name: "LRU of single extents, without both (SHARDS)".into(), points: lru });
    chart::draw("misses of extents read over the size of the cache", &lines)
}

/// A row for each point of each curve.
pub(super) fn csv(answer: &Answer) -> String {
    let mut table = Table::new([
        "curve",
        "cache_bytes",
        "read_extent_hit_ratio",
        "ssd_bytes_written",
        "seconds",
        "dedup_ratio",
        "compression_ratio",
    ]);
    let mut row = |name: &str, point: &Point| {
        table.row(vec![
            name.to_owned(),
            point.cache_bytes.to_string(),
            format!("{:.4}", point.read_extent_hit_ratio),
            point.ssd_bytes_written.to_string(),
            format!("{:.3}", point.seconds),
            format!("{:.4}", point.dedup_ratio),
            format!("{:.4}", point.compression_ratio),
        ]);
    };
    row("recommended", &answer.recommended);
    for curve in &answer.curves {
        curve.points.iter().for_each(|point| row(curve.kind.name(), point));
    }
    table.csv(true)
}
