//! The answer of a running server, from the curve that its cache keeps of what was read lately.

use super::drive::Drive;
use super::report::life;
use crate::args::SizeArgs;
use nitro_console::chart::{self, Series};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The request of the control protocol, version 1.
const REQUEST: &[u8] = b"{\"version\":1,\"command\":\"status\"}\n";
const ANSWER_MAX: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const SECONDS_PER_DAY: f64 = 86_400.0;

#[derive(Deserialize)]
struct Response {
    status: Option<Status>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Status {
    server: Server,
    caches: Vec<Cache>,
}

#[derive(Deserialize)]
struct Server {
    uptime_seconds: f64,
}

/// What the status tells of a cache, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Cache {
    name: String,
    health: String,
    capacity_bytes: u64,
    effective_capacity: f64,
    dedup_ratio: f64,
    compression_ratio: f64,
    weus_evicted: u64,
    hit_curve: Vec<OfSize>,
    endurance: Endurance,
    ssd_written_payload_bytes: u64,
    ssd_written_header_bytes: u64,
    ssd_written_padding_bytes: u64,
    ssd_written_superblock_bytes: u64,
    ssd_written_journal_bytes: u64,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
#[serde(default)]
struct OfSize {
    capacity_bytes: u64,
    hit_ratio: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Endurance {
    written_bytes_per_day: Option<u64>,
}

/// The answer for one cache.
#[derive(Serialize)]
struct Answer {
    cache: String,
    /// The present size, and what LRU would hit with it.
    present: OfSize,
    wanted_hit_ratio: f64,
    /// Whether a size of the curve reaches it; if not, the recommended one hits a point less than the largest.
    reached: bool,
    recommended: OfSize,
    /// Whether smaller caches than the smallest of the curve may hit as much.
    or_less: bool,
    best: OfSize,
    effective_capacity: f64,
    dedup_ratio: f64,
    compression_ratio: f64,
    /// Whether the cache was full: before, the curve is that of a cache without deduplication and compression.
    was_full: bool,
    /// Seconds in which the bytes were written from which the life follows.
    seconds: f64,
    /// The SSD of the present cache.
    drive: Drive,
    curve: Vec<OfSize>,
}

/// Whether a path is that of a socket.
pub(super) fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.file_type().is_socket())
}

/// Answers from the server at `socket`.
pub(super) fn run(args: &SizeArgs, socket: &Path) -> Result<(), Error> {
    let what = format!("control socket {}", socket.display());
    check_options(args, &what)?;
    let status = ask(socket, &what)?;
    let known = status.caches.iter().filter(|cache| !cache.hit_curve.is_empty());
    let answers = known.map(|cache| Answer::new(args, cache, &status.server)).collect::<Result<Vec<_>, _>>()?;
    if answers.is_empty() {
        let has_cache = status.caches.iter().any(|cache| cache.health != "none" && !cache.health.is_empty());
        return Err(if has_cache {
            Error::new(what, "nothing was read from its caches yet, so they have no curve of hits by size")
                .or("ask again when clients have read for some minutes; a server of an older version has no such curve")
        } else {
            Error::new(what, "the server has no cache, so it has no curve of hits by size")
                .or("record its clients with nitro serve --record, and name the recording")
        });
    }
    let text = match args.output.format {
        Format::Json => output::json_pretty(&answers)?,
        Format::Csv => csv(&answers),
        Format::Table => answers.iter().map(words).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text).map(drop)
}

/// Refuses options that need a trace.
fn check_options(args: &SizeArgs, what: &str) -> Result<(), Error> {
    let needs_trace = [
        ("--image", args.image.is_some()),
        ("--cross-check", !args.cross_check.is_empty()),
        ("--sample", args.sample.is_some()),
    ];
    let given = args.given().map(|(knob, _)| knob.option());
    let refused = needs_trace.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
    match refused.chain(given).next() {
        None => Ok(()),
        Some(option) => Err(Error::new(
            option,
            format_args!("{what} tells what its cache does, and simulates no other").to_string(),
        )
        .or("record the clients with nitro serve --record, and name the recording")),
    }
}

fn ask(socket: &Path, what: &str) -> Result<Status, Error> {
    let fail = |error: &dyn std::fmt::Display| {
        Error::new(what, error).or("is it the control socket of a running nitro serve of this user?")
    };
    let asked = || -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.set_write_timeout(Some(ANSWER_MAX))?;
        stream.write_all(REQUEST)?;
        let mut line = Vec::new();
        BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line)?;
        Ok(line)
    };
    let line = asked().map_err(|error| fail(&error))?;
    if line.is_empty() {
        return Err(fail(&"it has closed the connection"));
    }
    let response: Response = serde_json::from_slice(&line).map_err(|error| fail(&error))?;
    match response {
        Response { error: Some(error), .. } => Err(fail(&error)),
        Response { status, .. } => status.ok_or_else(|| fail(&"an answer without a status")),
    }
}

impl Answer {
    fn new(args: &SizeArgs, cache: &Cache, server: &Server) -> Result<Self, Error> {
        let curve = &cache.hit_curve;
        let of_size = |bytes| OfSize { capacity_bytes: bytes, hit_ratio: hit_ratio(curve, bytes) };
        let best = curve.last().copied().unwrap_or_default();
        let wanted = args.hits.map_or(super::answer::USUAL_HITS, |percent| percent / 100.0);
        let reached = best.hit_ratio >= wanted;
        let aim = if reached { wanted } else { best.hit_ratio - super::answer::LESS };
        let (per_day, seconds) = written(cache, server);
        Ok(Self {
            cache: cache.name.clone(),
            present: of_size(cache.capacity_bytes),
            wanted_hit_ratio: wanted,
            reached,
            recommended: smallest(curve, aim).unwrap_or(best),
            or_less: curve.first().is_some_and(|least| least.hit_ratio >= aim),
            best,
            effective_capacity: cache.effective_capacity,
            dedup_ratio: cache.dedup_ratio,
            compression_ratio: cache.compression_ratio,
            was_full: cache.weus_evicted > 0,
            seconds,
            drive: Drive::new(args, cache.capacity_bytes, per_day)?,
            curve: curve.clone(),
        })
    }
}

/// Bytes written to the SSD in a day, and the seconds in which this was seen: a day as the server tells it, or the time since its
/// start.
fn written(cache: &Cache, server: &Server) -> (Option<f64>, f64) {
    let since_start = cache.ssd_written_payload_bytes
        + cache.ssd_written_header_bytes
        + cache.ssd_written_padding_bytes
        + cache.ssd_written_superblock_bytes
        + cache.ssd_written_journal_bytes;
    let seconds = server.uptime_seconds;
    match cache.endurance.written_bytes_per_day {
        Some(bytes) => (Some(bytes as f64), seconds.min(SECONDS_PER_DAY)),
        None => ((seconds > 0.0).then(|| since_start as f64 / seconds * SECONDS_PER_DAY), seconds),
    }
}

/// The hits of a size, between two points of a curve.
fn hit_ratio(curve: &[OfSize], bytes: u64) -> f64 {
    let at = curve.partition_point(|point| point.capacity_bytes < bytes);
    match (at.checked_sub(1).and_then(|at| curve.get(at)), curve.get(at)) {
        (Some(below), Some(above)) => {
            let share =
                (bytes - below.capacity_bytes) as f64 / (above.capacity_bytes - below.capacity_bytes).max(1) as f64;
            below.hit_ratio + (above.hit_ratio - below.hit_ratio) * share
        }
        (Some(only), None) | (None, Some(only)) => only.hit_ratio,
        (None, None) => 0.0,
    }
}

/// The smallest size with at least so many hits, between two points of a curve.
fn smallest(curve: &[OfSize], ratio: f64) -> Option<OfSize> {
    let at = curve.iter().position(|point| point.hit_ratio >= ratio)?;
    let above = curve[at];
    let Some(below) = at.checked_sub(1).map(|at| curve[at]) else { return Some(above) };
    let share = (ratio - below.hit_ratio) / (above.hit_ratio - below.hit_ratio).max(f64::EPSILON);
    let more = (above.capacity_bytes - below.capacity_bytes) as f64 * share.clamp(0.0, 1.0);
    Some(OfSize { capacity_bytes: below.capacity_bytes + more.ceil() as u64, hit_ratio: ratio })
}

fn words(answer: &Answer) -> String {
    let percent = |ratio: f64| format!("{:.1} %", ratio * 100.0);
    let (recommended, present, best) = (&answer.recommended, &answer.present, &answer.best);
    let less = if answer.or_less { " or less" } else { "" };
    let mut out = format!(
        "Cache {}: {} of recent reads would hit with {}{less}; {} now, with {}.",
        answer.cache,
        percent(recommended.hit_ratio),
        Size(recommended.capacity_bytes),
        percent(present.hit_ratio),
        Size(present.capacity_bytes)
    );
    if !answer.reached {
        let (wanted, most, size) =
            (percent(answer.wanted_hit_ratio), percent(best.hit_ratio), Size(best.capacity_bytes));
        out += &format!(" No size up to {size} would hit {wanted}: the most is {most}.");
    }
    out += "\nThese are estimates for LRU, from a sample of the extents read lately (SHARDS); a recording (nitro serve --record) is answered for \
            Nitro's policies.\n";
    out += &life(&answer.drive, answer.seconds);
    let times = |ratio: f64| format!("{ratio:.2} : 1");
    let (dedup, compression) = (times(answer.dedup_ratio), times(answer.compression_ratio));
    out += &if answer.was_full {
        format!("\nIn all sizes: compression {compression}, deduplication {dedup}, as measured in the cache.\n")
    } else {
        format!(
            "\nThe cache is not full yet, so the sizes are those without compression and deduplication; compression {compression} and \
             deduplication {dedup} were measured in it.\n"
        )
    };
    let points = answer.curve.iter().map(|point| (point.capacity_bytes, 1.0 - point.hit_ratio)).collect();
    let chart =
        chart::draw("misses of extents read over the size of an LRU cache", &[Series { name: String::new(), points }]);
    format!("{out}\n{chart}")
}

fn csv(answers: &[Answer]) -> String {
    let mut table = Table::new(["cache", "capacity_bytes", "hit_ratio"]);
    for (answer, point) in answers.iter().flat_map(|answer| answer.curve.iter().map(move |point| (answer, point))) {
        let ratio = format!("{:.4}", point.hit_ratio);
        table.row(vec![answer.cache.clone(), point.capacity_bytes.to_string(), ratio]);
    }
    table.csv(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_points_a_curve_is_a_line() {
        let point = |capacity_bytes, hit_ratio| OfSize { capacity_bytes, hit_ratio };
        let curve = [point(100, 0.2), point(200, 0.6), point(400, 0.8)];
        for (bytes, hits) in [(50, 0.2), (100, 0.2), (150, 0.4), (300, 0.7), (1000, 0.8)] {
            assert!((hit_ratio(&curve, bytes) - hits).abs() < 1e-9, "{bytes}");
        }
        for (hits, bytes) in [(0.1, Some(100)), (0.2, Some(100)), (0.4, Some(150)), (0.7, Some(300)), (0.9, None)] {
            let found = smallest(&curve, hits).map(|point| point.capacity_bytes);
            assert!(
                found.zip(bytes).is_none_or(|(a, b)| a.abs_diff(b) <= 1) && found.is_some() == bytes.is_some(),
                "{hits}"
            );
        }
    }
}
