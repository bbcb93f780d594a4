//! `nitro iostat`: what each volume does, a second at a time.

use crate::args::IostatArgs;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Listening, Table};
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Cache, Latency, Status, Volume};
use serde::Serialize;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Column names of tables and CSV, in the order of the fields of [`Row`].
const COLUMNS: [&str; 16] = [
    "volume",
    "time",
    "reads/s",
    "read_MB/s",
    "hit_%",
    "read_ms",
    "writes/s",
    "write_MB/s",
    "write_ms",
    "origin_reads/s",
    "origin_writes/s",
    "ssd_read_MB/s",
    "ssd_write_MB/s",
    "drops/s",
    "dirty_MB",
    "destage_MB/s",
];
/// Rows of a table after which its head is repeated.
const HEAD_EVERY: usize = 20;

/// One volume over one interval. What concerns the SSD is that of the volume's whole cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    volume: String,
    /// Unix time at the interval's end.
    time: u64,
    seconds: f64,
    reads_per_second: f64,
    read_mb_per_second: f64,
    /// Extents; absent without reads.
    hit_percent: Option<f64>,
    /// Of the reads that were timed: all but those answered at once from the RAM cache.
    read_mean_ms: Option<f64>,
    writes_per_second: f64,
    write_mb_per_second: f64,
    write_mean_ms: Option<f64>,
    origin_reads_per_second: f64,
    origin_writes_per_second: f64,
    ssd_read_mb_per_second: f64,
    ssd_write_mb_per_second: f64,
    drops_per_second: f64,
    /// At the interval's end.
    dirty_mb: f64,
    destage_mb_per_second: f64,
}

/// Prints rates: over the server's life, or over each interval.
pub(crate) fn run(args: &IostatArgs) -> Result<(), Error> {
    let mut client = Client::connect(args.control.path())?;
    let mut before = Status::default();
    if args.interval.is_some() {
        before = client.status()?;
    }
    let mut printed = 0;
    for round in 0.. {
        if let Some(interval) = args.interval {
            if args.count.is_some_and(|count| round == count) {
                return Ok(());
            }
            thread::sleep(Duration::from_secs_f64(interval));
        }
        let now = client.status()?;
        let rows = rows(&before, &now);
        if output::print(&render(&rows, args.output.format, &mut printed)?)? == Listening::No || args.interval.is_none()
        {
            return Ok(());
        }
        before = now;
    }
    Ok(())
}

fn rows(before: &Status, now: &Status) -> Vec<Row> {
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
        writes_per_second: rate(then.writes, now.writes),
        write_mb_per_second: megabytes(then.write_bytes, now.write_bytes),
        write_mean_ms: mean_ms(&[(then.write_latency, now.write_latency)]),
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

fn render(rows: &[Row], format: Format, printed: &mut usize) -> Result<String, Error> {
    if format == Format::Json {
        return rows.iter().map(output::json_line).collect();
    }
    let mut table = Table::new(COLUMNS);
    rows.iter().for_each(|row| table.row(cells(row)));
    let first = *printed == 0;
    let head = first || *printed / HEAD_EVERY != (*printed + rows.len()) / HEAD_EVERY;
    *printed += rows.len();
    if format == Format::Csv {
        return Ok(table.csv(first));
    }
    let text = table.fixed();
    Ok(if head { text } else { text.split_once('\n').map_or(String::new(), |(_, rows)| rows.to_owned()) })
}

fn cells(row: &Row) -> Vec<String> {
    let number = |value: f64| format!("{value:.1}");
    let maybe = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.3}"));
    let mut cells = vec![row.volume.clone(), row.time.to_string()];
    cells.extend([row.reads_per_second, row.read_mb_per_second].map(number));
    cells.extend([row.hit_percent.map_or_else(String::new, number), maybe(row.read_mean_ms)]);
    cells.extend([row.writes_per_second, row.write_mb_per_second].map(number));
    cells.push(maybe(row.write_mean_ms));
    cells.extend(
        [
            row.origin_reads_per_second,
            row.origin_writes_per_second,
            row.ssd_read_mb_per_second,
            row.ssd_write_mb_per_second,
            row.drops_per_second,
            row.dirty_mb,
            row.destage_mb_per_second,
        ]
        .map(number),
    );
    cells
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
        assert_eq!(cells(&row).len(), COLUMNS.len());
        let mut printed = 0;
        let csv = render(std::slice::from_ref(&row), Format::Csv, &mut printed).unwrap();
        assert!(csv.starts_with("volume,time,reads/s") && csv.lines().count() == 2);
        assert_eq!(render(&[row], Format::Csv, &mut printed).unwrap().lines().count(), 1);
    }
}
