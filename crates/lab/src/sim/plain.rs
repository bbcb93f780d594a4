//! Simulations without a cache manager: plain policies over requests, and miss-ratio curves in one pass.

use crate::args::SimArgs;
use crate::source::{Traces, failed};
use nitro_commands::traces::refused;
use nitro_console::chart::{self, Series};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_sim::Settings;
use nitro_sim::mrc::{Curve, Sampling, Shards};
use nitro_sim::policies::{Feed, Misses, PolicyKind, belady, each_name};
use nitro_sim::workload::{self, Pieces};
use nitro_trace::{Op, Reader};
use serde::Serialize;

/// The default number of sampled extents.
const FOLLOWED: usize = 1 << 16;

/// The misses of a policy.
#[derive(Serialize)]
pub(crate) struct Report {
    policy: String,
    objects: u32,
    #[serde(flatten)]
    pub(crate) misses: Misses,
    miss_ratio: f64,
}

/// Counts the misses of a policy. Each request is one object, named by its address; with a block size, each block of
/// the request is one.
pub(super) fn policy(source: &Traces<'_>, args: &SimArgs, name: &str, objects: u32) -> Result<(), Error> {
    let report = misses(&mut *source.open_shown()?, name, objects, args.object_size)?;
    let text = match args.output.format {
        Format::Json => output::json_pretty(&report)?,
        format => {
            let [objects, requests, misses] =
                [objects as u64, report.misses.requests, report.misses.misses].map(|n| n.to_string());
            let row = vec![report.policy, objects, requests, misses, format!("{:.6}", report.miss_ratio)];
            let table = Table::of_one(["policy", "objects", "requests", "misses", "miss_ratio"], row);
            if format == Format::Csv { table.csv(true) } else { table.aligned() }
        }
    };
    output::print(&text).map(drop)
}

/// The misses of the policy of that name in the requests of `reader`.
pub(crate) fn misses(
    reader: &mut dyn Reader,
    name: &str,
    objects: u32,
    object_size: Option<Size>,
) -> Result<Report, Error> {
    let block_bytes = object_size.map(|size| size.0);
    if block_bytes == Some(0) {
        return Err(Error::new("--object-size 0", "the size must not be 0").or("give its size, such as 512"));
    }
    let misses = if name == "belady" {
        let mut names = Vec::new();
        each_name(reader, block_bytes, |name| names.push(name)).map_err(|e| refused(&e))?;
        belady(&names, objects)
    } else {
        let kind = PolicyKind::ALL.into_iter().find(|kind| told(*kind) == name);
        let Some(kind) = kind else {
            let known: Vec<_> = PolicyKind::ALL.into_iter().map(told).collect();
            let why = format_args!("there is no such policy").to_string();
            return Err(Error::new(format_args!("--policy {name}"), why)
                .or(format_args!("choose {} or belady", known.join(", "))));
        };
        let mut policy = kind.build(objects);
        let mut feed = Feed::new(&mut *policy);
        each_name(reader, block_bytes, |name| feed.push(name)).map_err(|e| refused(&e))?;
        feed.finish()
    };
    Ok(Report { policy: name.to_owned(), objects, misses, miss_ratio: misses.ratio() })
}

fn told(kind: PolicyKind) -> String {
    serde_json::to_value(kind).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// The curve of LRU.
#[derive(Serialize)]
pub(crate) struct CurveReport {
    extent_bytes: u32,
    #[serde(flatten)]
    pub(crate) curve: Curve,
}

/// The curve of LRU of the requests of `reader`, from a sample of that percentage, or of a fixed number of extents; and the
/// number of extents that were read.
pub(crate) fn lru(
    reader: Box<dyn Reader>,
    sample: Option<f64>,
    extent_bytes: u32,
) -> Result<(CurveReport, u64), nitro_sim::Error> {
    let sampling = sample.map_or(Sampling::Objects(FOLLOWED), |percent| Sampling::Rate(percent / 100.0));
    let mut shards = Shards::new(sampling)?;
    let mut pieces = workload::without_contents(reader, extent_bytes)?;
    let (mut batch, mut read) = (Vec::new(), 0);
    while pieces.next_batch(&mut batch)? {
        for piece in batch.iter().filter(|piece| matches!(piece.op(), Op::Read | Op::Write)) {
            read += u64::from(piece.op() == Op::Read);
            shards.access(piece.key.raw());
        }
    }
    Ok((CurveReport { extent_bytes, curve: shards.curve() }, read))
}

/// Prints the miss ratio of LRU by the size of the cache.
pub(super) fn curve(source: &Traces<'_>, args: &SimArgs, settings: &Settings) -> Result<(), Error> {
    let CurveReport { curve, .. } = lru(source.open_shown()?, args.sample, settings.extent_bytes).map_err(failed)?.0;
    let bytes = |objects: u64| objects * u64::from(settings.extent_bytes);
    let text = match args.output.format {
        Format::Json => output::json_pretty(&CurveReport { extent_bytes: settings.extent_bytes, curve })?,
        Format::Csv => {
            let mut table = Table::new(["cache_bytes", "extents", "miss_ratio"]);
            for point in &curve.points {
                let ratio = format!("{:.6}", point.miss_ratio);
                table.row(vec![bytes(point.objects).to_string(), point.objects.to_string(), ratio]);
            }
            table.csv(true)
        }
        Format::Table => {
            let points = curve.points.iter().map(|point| (bytes(point.objects), point.miss_ratio)).collect();
            let chart = chart::draw(
                "miss ratio of LRU, reads and writes, over the size of the cache",
                &[Series { name: String::new(), points }],
            );
            let about = if curve.rate < 1.0 { "about " } else { "" };
            let distinct = Size(bytes(curve.objects));
            format!(
                "{} extents requested, {about}{} of them distinct ({distinct})\n\n{chart}",
                curve.requests, curve.objects
            )
        }
    };
    output::print(&text).map(drop)
}
