//! `nitro iostat`: what each volume does, a second at a time.

use crate::args::IostatArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Listening, Table};
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Cache, Latency, Status, Volume};
use nitro_server::control::quantile::quantile_us;
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Rows of a screen whose height is not known, and columns of one whose width is not.
const SCREEN: (u16, u16) = (80, 24);
/// The name of the sum of all volumes, in tables.
const TOTAL: &str = "total";

/// One volume over one interval. What concerns the SSD is that of the volume's whole cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) volume: String,
    /// Unix time at the interval's end.
    time: u64,
    seconds: f64,
    pub(crate) reads_per_second: f64,
    pub(crate) read_mb_per_second: f64,
    /// Extents; absent without reads.
    pub(crate) hit_percent: Option<f64>,
    /// Of the reads that were timed: all but those answered at once from the RAM cache.
    pub(crate) read_mean_ms: Option<f64>,
    /// 99 % of them took no longer, within a bucket of a third of its value.
    pub(crate) read_p99_ms: Option<f64>,
    pub(crate) writes_per_second: f64,
    pub(crate) write_mb_per_second: f64,
    pub(crate) write_mean_ms: Option<f64>,
    pub(crate) write_p99_ms: Option<f64>,
    origin_reads_per_second: f64,
    origin_writes_per_second: f64,
    ssd_read_mb_per_second: f64,
    ssd_write_mb_per_second: f64,
    drops_per_second: f64,
    /// At the interval's end.
    pub(crate) dirty_mb: f64,
    pub(crate) destage_mb_per_second: f64,
}

/// Prints rates: over the server's life, or over each interval.
pub(crate) fn run(args: &IostatArgs) -> Result<(), Error> {
    let mut client = Client::connect(args.control.path())?;
    let mut before = Status::default();
    if args.interval.is_some() {
        before = client.status()?;
    }
    let mut paper = Paper { format: args.output.format, all: args.extended, printed: None };
    for round in 0.. {
        if let Some(interval) = args.interval {
            if args.count.is_some_and(|count| round == count) {
                return Ok(());
            }
            thread::sleep(Duration::from_secs_f64(interval));
        }
        let now = client.status()?;
        let (rows, total) = (rows(&before, &now), total(&before, &now));
        if output::print(&paper.render(&rows, &total, screen())?)? == Listening::No || args.interval.is_none() {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

/// Columns and rows of the terminal; else what `COLUMNS` and `LINES` say.
fn screen() -> (u16, u16) {
    if io::stdout().is_terminal()
        && let Ok((columns, rows)) = ratatui::crossterm::terminal::size()
        && columns > 0
    {
        return (columns, rows);
    }
    let given = |name, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    (given("COLUMNS", SCREEN.0), given("LINES", SCREEN.1))
}

pub(crate) fn rows(before: &Status, now: &Status) -> Vec<Row> {
    let seconds = (now.server.uptime_seconds - before.server.uptime_seconds).max(1e-3);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (no_volume, no_cache) = (Volume::default(), Cache::default());
    let row = |volume: &Volume| {
        let then = before.volumes.iter().find(|v| v.name == volume.name).unwrap_or(&no_volume);
        let cache = now.caches.iter().find(|c| c.name == volume.cache).unwrap_or(&no_cache);
        let cache_then = before.caches.iter().find(|c| c.name == volume.cache).unwrap_or(&no_cache);
        Row { time, ..difference((then, volume), (cache_then, cache), seconds) }
    };
    now.volumes.iter().map(row).collect()
}

/// The sum of all volumes.
pub(crate) fn total(before: &Status, now: &Status) -> Row {
    let seconds = (now.server.uptime_seconds - before.server.uptime_seconds).max(1e-3);
    let volumes = |status: &Status| status.volumes.iter().fold(Volume::default(), sum_volumes);
    let caches = |status: &Status| status.caches.iter().fold(Cache::default(), sum_caches);
    let total = difference((&volumes(before), &volumes(now)), (&caches(before), &caches(now)), seconds);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Row { volume: TOTAL.to_owned(), time, ..total }
}

fn sum_volumes(sum: Volume, v: &Volume) -> Volume {
    Volume {
        reads: sum.reads + v.reads,
        read_bytes: sum.read_bytes + v.read_bytes,
        read_hit_extents: sum.read_hit_extents + v.read_hit_extents,
        read_miss_extents: sum.read_miss_extents + v.read_miss_extents,
        read_joined_extents: sum.read_joined_extents + v.read_joined_extents,
        writes: sum.writes + v.writes,
        write_bytes: sum.write_bytes + v.write_bytes,
        origin_reads: sum.origin_reads + v.origin_reads,
        origin_writes: sum.origin_writes + v.origin_writes,
        dirty_bytes: sum.dirty_bytes + v.dirty_bytes,
        destaged_bytes: sum.destaged_bytes + v.destaged_bytes,
        read_hit_latency: sum_latencies(sum.read_hit_latency, v.read_hit_latency),
        read_miss_latency: sum_latencies(sum.read_miss_latency, v.read_miss_latency),
        write_latency: sum_latencies(sum.write_latency, v.write_latency),
        ..sum
    }
}

fn sum_caches(sum: Cache, c: &Cache) -> Cache {
    Cache {
        ssd_read_bytes: sum.ssd_read_bytes + c.ssd_read_bytes,
        ssd_written_payload_bytes: sum.ssd_written_payload_bytes + c.ssd_written_bytes(),
        fills_dropped: sum.fills_dropped + c.fills_dropped,
        ..sum
    }
}

/// Mean and counts of two; percentiles are not told.
fn sum_latencies(a: Latency, b: Latency) -> Latency {
    let count = a.count + b.count;
    let total_us = a.mean_us * a.count as f64 + b.mean_us * b.count as f64;
    let mut at_most = a.at_most;
    at_most.iter_mut().zip(b.at_most).for_each(|(sum, more)| *sum += more);
    Latency { count, mean_us: if count > 0 { total_us / count as f64 } else { 0.0 }, at_most, ..Latency::default() }
}

/// The 99th percentile of what was added between two moments.
fn p99_ms(then: &Latency, now: &Latency) -> Option<f64> {
    quantile_us((&then.at_most, then.count), (&now.at_most, now.count), 0.99).map(|us| us / 1000.0)
}

fn difference((then, now): (&Volume, &Volume), (cache_then, cache): (&Cache, &Cache), seconds: f64) -> Row {
    let rate = |then: u64, now: u64| now.saturating_sub(then) as f64 / seconds;
    let megabytes = |then: u64, now: u64| rate(then, now) / 1e6;
    let hits = now.read_hit_extents.saturating_sub(then.read_hit_extents);
    let others = |v: &Volume| v.read_miss_extents + v.read_joined_extents;
    let extents = hits + others(now).saturating_sub(others(then));
    let drops = |c: &Cache| c.fills_dropped;
    Row {
        volume: now.name.clone(),
        time: 0,
        seconds,
        reads_per_second: rate(then.reads, now.reads),
        read_mb_per_second: megabytes(then.read_bytes, now.read_bytes),
        hit_percent: (extents > 0).then(|| 100.0 * hits as f64 / extents as f64),
        read_mean_ms: mean_ms(&[
            (then.read_hit_latency, now.read_hit_latency),
            (then.read_miss_latency, now.read_miss_latency),
        ]),
        read_p99_ms: p99_ms(
            &sum_latencies(then.read_hit_latency, then.read_miss_latency),
            &sum_latencies(now.read_hit_latency, now.read_miss_latency),
        ),
        writes_per_second: rate(then.writes, now.writes),
        write_mb_per_second: megabytes(then.write_bytes, now.write_bytes),
        write_mean_ms: mean_ms(&[(then.write_latency, now.write_latency)]),
        write_p99_ms: p99_ms(&then.write_latency, &now.write_latency),
        origin_reads_per_second: rate(then.origin_reads, now.origin_reads),
        origin_writes_per_second: rate(then.origin_writes, now.origin_writes),
        ssd_read_mb_per_second: megabytes(cache_then.ssd_read_bytes, cache.ssd_read_bytes),
        ssd_write_mb_per_second: megabytes(cache_then.ssd_written_bytes(), cache.ssd_written_bytes()),
        drops_per_second: rate(drops(cache_then), drops(cache)),
        dirty_mb: now.dirty_bytes as f64 / 1e6,
        destage_mb_per_second: megabytes(then.destaged_bytes, now.destaged_bytes),
    }
}

/// The mean of what was added between two moments.
fn mean_ms(spans: &[(Latency, Latency)]) -> Option<f64> {
    let count: u64 = spans.iter().map(|(then, now)| now.count.saturating_sub(then.count)).sum();
    let total_us = |l: &Latency| l.mean_us * l.count as f64;
    let sum_us: f64 = spans.iter().map(|(then, now)| total_us(now) - total_us(then)).sum();
    (count > 0).then(|| (sum_us / count as f64 / 1000.0).max(0.0))
}

/// A column: its name in CSV and JSON, its head in tables, which columns are left out before it where there is no room for all (the
/// largest number first), and its cell.
type Column = (&'static str, &'static str, u8, fn(&Row) -> Cell);

enum Cell {
    Text(String),
    Number(f64),
    Milliseconds(Option<f64>),
    Percent(Option<f64>),
}

/// In the order of the fields of [`Row`].
const COLUMNS: [Column; 19] = [
    ("volume", "volume", 0, |r| Cell::Text(r.volume.clone())),
    ("time", "time", 20, |r| Cell::Text(r.time.to_string())),
    ("seconds", "seconds", 19, |r| Cell::Number(r.seconds)),
    ("reads_per_second", "reads/s", 1, |r| Cell::Number(r.reads_per_second)),
    ("read_mb_per_second", "rd_MB/s", 5, |r| Cell::Number(r.read_mb_per_second)),
    ("hit_percent", "hit_%", 1, |r| Cell::Percent(r.hit_percent)),
    ("read_mean_ms", "rd_ms", 3, |r| Cell::Milliseconds(r.read_mean_ms)),
    ("read_p99_ms", "rd_p99", 2, |r| Cell::Milliseconds(r.read_p99_ms)),
    ("writes_per_second", "writes/s", 1, |r| Cell::Number(r.writes_per_second)),
    ("write_mb_per_second", "wr_MB/s", 5, |r| Cell::Number(r.write_mb_per_second)),
    ("write_mean_ms", "wr_ms", 3, |r| Cell::Milliseconds(r.write_mean_ms)),
    ("write_p99_ms", "wr_p99", 2, |r| Cell::Milliseconds(r.write_p99_ms)),
    ("origin_reads_per_second", "org_rd/s", 7, |r| Cell::Number(r.origin_reads_per_second)),
    ("origin_writes_per_second", "org_wr/s", 8, |r| Cell::Number(r.origin_writes_per_second)),
    ("ssd_read_mb_per_second", "ssd_rd_MB/s", 10, |r| Cell::Number(r.ssd_read_mb_per_second)),
    ("ssd_write_mb_per_second", "ssd_wr_MB/s", 9, |r| Cell::Number(r.ssd_write_mb_per_second)),
    ("drops_per_second", "drops/s", 11, |r| Cell::Number(r.drops_per_second)),
    ("dirty_mb", "dirty_MB", 4, |r| Cell::Number(r.dirty_mb)),
    ("destage_mb_per_second", "dest_MB/s", 6, |r| Cell::Number(r.destage_mb_per_second)),
];
/// Widths of the first column and of the others.
const NAME_WIDTH: usize = 10;
const NAME_WIDTH_MAX: usize = 24;
const WIDTH: usize = 8;

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(value) => format!("{value:.1}"),
            Self::Milliseconds(value) => value.map_or_else(String::new, |value| format!("{value:.3}")),
            Self::Percent(value) => value.map_or_else(String::new, |value| format!("{value:.1}")),
        }
    }
}

/// What is printed on.
struct Paper {
    format: Format,
    /// All columns, however wide that is.
    all: bool,
    /// Lines since the last head; `None`: there was none.
    printed: Option<usize>,
}

impl Paper {
    fn render(&mut self, rows: &[Row], total: &Row, screen: (u16, u16)) -> Result<String, Error> {
        match self.format {
            Format::Json => rows.iter().map(output::json_line).collect(),
            Format::Csv => {
                let mut table = Table::new(COLUMNS.map(|(name, ..)| name));
                rows.iter().for_each(|row| table.row(COLUMNS.map(|(.., cell)| cell(row).text()).to_vec()));
                let head = self.printed.is_none();
                self.printed = Some(rows.len());
                Ok(table.csv(head))
            }
            Format::Table => Ok(self.table(rows, total, screen)),
        }
    }

    fn table(&mut self, rows: &[Row], total: &Row, (width, height): (u16, u16)) -> String {
        let longest = rows.iter().map(|row| row.volume.chars().count()).max().unwrap_or(0);
        let name = longest.clamp(NAME_WIDTH, NAME_WIDTH_MAX);
        let columns = if self.all { COLUMNS.to_vec() } else { fitting(width.into(), name) };
        let sum = (rows.len() > 1).then_some(total);
        let lines = rows.len() + usize::from(sum.is_some());
        let mut out = String::new();
        // One line of the screen is the next prompt's.
        let is_full = |printed: usize| printed + lines + 1 > usize::from(height).saturating_sub(1);
        if self.printed.is_none_or(is_full) {
            out += &line(&columns, name, |(_, head, ..)| (*head).to_owned());
            self.printed = Some(1);
        }
        for row in rows.iter().chain(sum) {
            out += &line(&columns, name, |(.., cell)| cell(row).text());
        }
        self.printed = self.printed.map(|printed| printed + lines);
        out
    }
}

/// The columns that there is room for, in their order.
fn fitting(width: usize, name: usize) -> Vec<Column> {
    let mut columns = COLUMNS.to_vec();
    let taken = |columns: &[Column]| name + columns.iter().skip(1).map(|column| 1 + width_of(column)).sum::<usize>();
    while columns.len() > 1 && taken(&columns) > width {
        // The last of those that matter least.
        let Some(least) = (0..columns.len()).max_by_key(|at| columns[*at].2) else { break };
        columns.remove(least);
    }
    columns
}

fn width_of((_, head, ..): &Column) -> usize {
    // The time has ten digits.
    head.len().max(if *head == "time" { 10 } else { WIDTH })
}

fn line(columns: &[Column], name: usize, text: impl Fn(&Column) -> String) -> String {
    let mut out = String::new();
    for (i, column) in columns.iter().enumerate() {
        let cell: String = text(column);
        if i == 0 {
            let short: String = cell.chars().take(name).collect();
            out += &format!("{short:<name$}");
        } else {
            out += &format!(" {cell:>width$}", width = width_of(column));
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let volume = |reads, count, mean_us| Volume {
            name: "vm".into(),
            reads,
            read_bytes: reads * 1_000_000,
            read_hit_extents: reads,
            read_hit_latency: Latency { count, mean_us, ..Latency::default() },
            ..Volume::default()
        };
        let row =
            difference((&volume(10, 10, 1000.0), &volume(30, 20, 2000.0)), (&Cache::default(), &Cache::default()), 2.0);
        assert_eq!((row.reads_per_second, row.read_mb_per_second, row.hit_percent), (10.0, 10.0, Some(100.0)));
        assert_eq!((row.read_mean_ms, row.write_mean_ms), (Some(3.0), None));
        let mut paper = Paper { format: Format::Csv, all: false, printed: None };
        let csv = paper.render(std::slice::from_ref(&row), &row, SCREEN).unwrap();
        assert!(csv.starts_with("volume,time,seconds,reads_per_second") && csv.lines().count() == 2);
        assert_eq!(paper.render(std::slice::from_ref(&row), &row, SCREEN).unwrap().lines().count(), 1);
    }

    fn row(volume: &str) -> Row {
        let none = (&Volume::default(), &Volume::default());
        Row { volume: volume.to_owned(), ..difference(none, (&Cache::default(), &Cache::default()), 1.0) }
    }

    #[test]
    fn csv_and_json_name_columns_alike() {
        let json = serde_json::to_value(row("vm")).unwrap();
        let names: std::collections::BTreeSet<_> = COLUMNS.iter().map(|(name, ..)| (*name).to_owned()).collect();
        assert_eq!(json.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>(), names);
    }

    #[test]
    fn a_table_is_as_wide_as_the_screen_and_repeats_its_head() {
        let rows = [row("a"), row("b")];
        let mut paper = Paper { format: Format::Table, all: false, printed: None };
        let mut text = String::new();
        for _ in 0..10 {
            text += &paper.render(&rows, &row(TOTAL), (80, 12)).unwrap();
        }
        let heads: Vec<_> = text.lines().enumerate().filter(|(_, l)| l.starts_with("volume")).map(|(i, _)| i).collect();
        assert_eq!(heads, [0, 10, 20, 30]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(
            text.contains("rd_p99") && text.contains("wr_p99") && text.contains("hit_%") && text.contains("\ntotal")
        );
        let mut wide = Paper { format: Format::Table, all: true, printed: None };
        let text = wide.render(&rows, &row(TOTAL), (80, 24)).unwrap();
        assert!(text.contains("drops/s") && text.contains("dest_MB/s") && text.contains("time"));
    }

    #[test]
    fn the_total_is_of_all_volumes() {
        let volume = |name: &str, reads| Volume { name: name.into(), reads, ..Volume::default() };
        let mut now = Status { volumes: vec![volume("a", 4), volume("b", 6)], ..Status::default() };
        now.server.uptime_seconds = 2.0;
        let total = total(&Status::default(), &now);
        assert_eq!((total.reads_per_second, total.volume.as_str()), (5.0, TOTAL));
    }
}
