//! TPC-C, with the parameters that were best so far (claim A5), and a recorded TPC-C trace beside it.

use super::bed::{CHUNK_BYTES, Load, Point, Run, SPINDLES};
use super::dram::Dram;
use super::parameters::TPCC;
use super::tables::{bars, measured};
use super::{CPU_NS, Scale};
use crate::report::{Band, Holds, Section, Table, Verdict, percent_more};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_trace::{Options, open, summarize};
use std::path::Path;

/// The paper's gain of the base cache over HDDs, and of two-level selection over the base cache, in percent.
const BASE: f64 = 55.0;
const TWO_LEVEL: f64 = 34.0;
/// Hit ratios that differ by at most this number of points are the same.
const SAME_POINTS: f64 = 2.0;
/// The recorded trace in a folder of traces.
const RECORDED: &str = "disksim/tpcc-small.trace";

/// Gains in percent, and the difference of hit ratios in points.
#[derive(Debug, Clone, Copy)]
struct Found {
    base: f64,
    two_level: f64,
    points: f64,
}

impl Found {
    fn of(runs: &[Run; 3]) -> Self {
        let [none, base, two_level] = runs;
        Self {
            base: percent_more(base.per_second, none.per_second),
            two_level: percent_more(two_level.per_second, base.per_second),
            points: two_level.hit_percent - base.hit_percent,
        }
    }
}

/// A5: both gains, at the same hit ratio.
fn judge(found: &Found) -> Holds {
    let same = if found.points.abs() <= SAME_POINTS { Holds::Holds } else { Holds::DoesNot };
    Band::at(BASE).judge(&[found.base]).and(Band::at(TWO_LEVEL).judge(&[found.two_level])).and(same)
}

/// The parts of A5 that differ.
fn why(found: &Found, runs: &[Run; 3]) -> String {
    let [_, base, two_level] = runs;
    let mut parts = Vec::new();
    if !Band::at(BASE).has(found.base) {
        parts.push(format!("the base cache gains {:+.0} % with {:.1} % hits", found.base, base.hit_percent));
    }
    if !Band::at(TWO_LEVEL).has(found.two_level) {
        parts.push(format!(
            "two-level selection changes the speed by {:+.1} % while the disks are busy for {:.0} % of the time and the SSD for \
             {:.0} % (base: {:.0} %): only hits relieve the disks, and it writes {} to the SSD instead of {}",
            found.two_level,
            two_level.disks_percent,
            two_level.ssd_percent,
            base.ssd_percent,
            Size(two_level.ssd_written as u64),
            Size(base.ssd_written as u64)
        ));
    }
    if found.points.abs() > SAME_POINTS {
        parts.push(format!("the hit ratio changes by {:+.1} points", found.points));
    }
    parts.join("; ")
}

fn three(load: &Load<'_>, cache_bytes: u64, scale: &Scale) -> Result<[Run; 3], Error> {
    let base = Point::associative(cache_bytes);
    let mut runs = load.run(&[Point::NONE, base, base.two_level()], scale)?.into_iter();
    Ok(std::array::from_fn(|_| runs.next().unwrap_or_default()))
}

const NAMES: [&str; 3] = ["HDDs alone", "base cache", "two-level selection"];

/// The recorded trace with a cache of half of its blocks.
fn recorded(folder: &Path, scale: &Scale) -> Result<Option<(String, Table)>, Error> {
    let path = folder.join(RECORDED);
    if !path.is_file() {
        return Ok(None);
    }
    let failed = |error| Error::with_sources(path.display(), &error);
    let reopen = || open(&path, &Options::default());
    let summary = summarize(&mut *reopen().map_err(failed)?).map_err(failed)?;
    let footprint = summary.footprint_bytes;
    let cache_bytes = (footprint / 2).next_multiple_of(1 << 20).max(16 << 20);
    let load = Load {
        name: "recorded TPC-C",
        open: &|_| reopen().map(|reader| Box::new(reader) as Box<dyn nitro_trace::Reader>),
        disk_bytes: summary.address_end.div_ceil(u64::from(SPINDLES)).next_multiple_of(CHUNK_BYTES),
        warmup: 0,
        measured: summary.requests,
        depth: TPCC.depth,
        cpu_ns: CPU_NS,
        dram: Dram { bytes: 0, keeps_metadata: false },
        seeds: 1,
    };
    let runs = three(&load, cache_bytes, scale)?;
    let text = format!(
        "The recorded sample of DiskSim ({RECORDED}, {} requests to {}) is run beside it, with a cache of {} and no DRAM; it is \
         not judged: it has hardly any block that is read again.",
        summary.requests,
        Size(footprint),
        Size(cache_bytes)
    );
    Ok(Some((text, measured("A recorded TPC-C sample", "requests/s", &NAMES, &runs))))
}

/// Runs TPC-C.
pub(super) fn section(
    load: &Load<'_>,
    cache_bytes: u64,
    traces: Option<&Path>,
    scale: &Scale,
) -> Result<Section, Error> {
    let runs = three(load, cache_bytes, scale)?;
    let found = Found::of(&runs);
    let mut text =
        "The cache is fully associative and has half the size of the database. Speed is in transactions per second."
            .to_owned();
    let mut tables = vec![measured("TPC-C", "transactions/s", &NAMES, &runs)];
    if let Some((note, table)) = traces.map(|folder| recorded(folder, scale)).transpose()?.flatten() {
        text = format!("{text} {note}");
        tables.push(table);
    }
    let [none, base, two_level] = &runs;
    let figures = format!(
        "base cache over HDDs: {:+.1} %; two-level selection over it: {:+.1} %; hits: {:.1} and {:.1} %; disks busy: {:.0}, {:.0} \
         and {:.0} % (HDDs, base, two levels), SSD: {:.1} and {:.1} %",
        found.base,
        found.two_level,
        base.hit_percent,
        two_level.hit_percent,
        none.disks_percent,
        base.disks_percent,
        two_level.disks_percent,
        base.ssd_percent,
        two_level.ssd_percent
    );
    Ok(Section {
        id: "azor-tpcc",
        title: "TPC-C: a black box".into(),
        text,
        charts: vec![bars("TPC-C: transactions per second", "transactions per second", &NAMES, &runs)],
        tables,
        verdicts: vec![Verdict::new("A5", figures, judge(&found)).because(&why(&found, &runs))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        let paper = Found { base: 55.0, two_level: 34.0, points: 0.5 };
        assert_eq!(judge(&paper), Holds::Holds);
        assert_eq!(judge(&Found { two_level: 12.0, ..paper }), Holds::InDirection);
        assert_eq!(judge(&Found { two_level: -2.0, ..paper }), Holds::DoesNot);
        assert_eq!(judge(&Found { base: -5.0, ..paper }), Holds::DoesNot);
        assert_eq!(judge(&Found { points: 9.0, ..paper }), Holds::DoesNot, "not the same hit ratio");
        let runs = [(); 3].map(|()| Run::default());
        assert!(why(&Found { points: 9.0, ..paper }, &runs).contains("+9.0 points"));
    }
}
