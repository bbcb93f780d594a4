//! RAM of counters, and the differences between replacement algorithms (claim A6).

use super::Scale;
use super::bed::{EXTENT_BYTES, Load, Point};
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict, judge_up_to, percent_more};
use nitro_cache::admission::{Admission, ObjectCounters, TwoLevel};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_sim::Variant;
use nitro_sim::policies::PolicyKind;
use nitro_units::{ExtentIndex, ExtentKey, ObjectId};

/// The paper's RAM of counters for each TB of disk, in MB, and the differences between algorithms, in percent.
const MB_PER_TB: f64 = 256.0;
const SPREAD: f64 = 40.0;
const TB: u64 = 1 << 40;
/// The part of a TB whose counters are measured.
const PART: u64 = 64;

/// The replacement algorithms of caches in RAM.
const KINDS: [(&str, PolicyKind); 6] = [
    ("LRU", PolicyKind::Lru),
    ("FIFO", PolicyKind::Fifo),
    ("CLOCK", PolicyKind::Clock),
    ("SLRU", PolicyKind::Slru),
    ("ARC", PolicyKind::Arc),
    ("S3-FIFO", PolicyKind::S3Fifo),
];

/// Measured RAM of counters, in bytes.
#[derive(Debug, Clone, Copy)]
struct Counters {
    /// Counters of all blocks of a TB.
    of_all: f64,
    /// Counters of accessed blocks and their neighbours, for a cache of a hundredth of a TB whose accesses are all over the
    /// TB.
    dynamic: f64,
}

impl Counters {
    fn measure() -> Self {
        let (object, extents) = (ObjectId(1), TB / u64::from(EXTENT_BYTES) / PART);
        let mut of_all = TwoLevel::with_static_counters(extents / 100);
        of_all.add_counters(object, ObjectCounters::new(of_all.counters_missing(object, extents)));
        let mut dynamic = TwoLevel::new(extents / 100);
        (0..extents).step_by(61).for_each(|at| dynamic.looked_up(ExtentKey::new(object, ExtentIndex(at))));
        let whole = |bytes: usize| (bytes as u64 * PART) as f64;
        Self { of_all: whole(of_all.ram_bytes()), dynamic: whole(dynamic.ram_bytes()) }
    }
}

/// A6: RAM of counters for a TB in MB, and the differences between algorithms under each load, in percent.
fn judge(mb_per_tb: f64, spreads: &[f64]) -> Holds {
    Band::at(MB_PER_TB).judge(&[mb_per_tb]).and(judge_up_to(SPREAD, spreads))
}

fn spread(speeds: &[f64]) -> f64 {
    let best = speeds.iter().copied().fold(0.0, f64::max);
    percent_more(best, speeds.iter().copied().fold(f64::INFINITY, f64::min))
}

/// Runs every algorithm under each load with a cache of its size, and measures counters.
pub(super) fn section(loads: &[(Load<'_>, u64)], scale: &Scale) -> Result<Section, Error> {
    let mut columns = vec!["algorithm"];
    columns.extend(loads.iter().map(|(load, _)| load.name));
    let mut table = Table::new("Operations per second, relative to LRU, and hits", &columns);
    table.rows = KINDS.map(|(name, _)| vec![name.to_owned()]).to_vec();
    let (mut spreads, mut bars) = (Vec::new(), KINDS.map(|(name, _)| (name.to_owned(), Vec::new())));
    for (load, cache_bytes) in loads {
        let points =
            KINDS.map(|(_, kind)| Point { variant: Variant::Policy(kind), cache_bytes: *cache_bytes, ..Point::NONE });
        let runs = load.run(&points, scale)?;
        let speeds: Vec<f64> = runs.iter().map(|run| run.per_second).collect();
        spreads.push(spread(&speeds));
        for (at, run) in runs.iter().enumerate() {
            let relative = run.per_second / speeds[0];
            table.rows[at].push(format!("{relative:.3} ({:.1} %)", run.hit_percent));
            bars[at].1.push(Some(relative));
        }
    }
    let counters = Counters::measure();
    let mb = |bytes: f64| bytes / f64::from(1 << 20);
    let mut ram = Table::new("RAM of counters for a TiB of disk", &["counters", "RAM"]);
    ram.rows.push(vec!["the paper's: one byte for each 4 KiB".into(), format!("{MB_PER_TB} MiB")]);
    ram.rows.push(vec!["here, for all blocks".into(), format!("{:.0} MiB", mb(counters.of_all))]);
    ram.rows.push(vec![
        format!("here, for accessed blocks and their neighbours, with a cache of {}", Size(TB / 100)),
        format!("{:.0} MiB", mb(counters.dynamic)),
    ]);
    let names: Vec<&str> = loads.iter().map(|(load, _)| load.name).collect();
    let by_load = names.iter().zip(&spreads).map(|(name, spread)| format!("{name} {spread:.1} %"));
    let by_load = by_load.collect::<Vec<_>>().join(", ");
    let found = format!(
        "counters of all blocks: {:.0} MiB for a TiB, of accessed ones: {:.0} MiB; algorithms differ by: {by_load}",
        mb(counters.of_all),
        mb(counters.dynamic)
    );
    let most = spreads.iter().copied().fold(0.0, f64::max);
    let why = format!("the best algorithm is at most {most:.0} % faster than the worst under these loads ({by_load})");
    Ok(Section {
        id: "azor-counters",
        title: "RAM of counters, and replacement algorithms".into(),
        text: format!(
            "The RAM of counters is that of the server's policies, two-level-static and two-level, measured for a {PART}th of a \
             TiB. The algorithms are compared as caches of blocks without an SSD's costs, so that only their hits differ."
        ),
        charts: vec![Chart::Bars(Bars {
            title: "Speed by replacement algorithm".into(),
            y_label: "times the speed with LRU".into(),
            log_y: false,
            groups: names.iter().map(|name| (*name).to_owned()).collect(),
            bars: bars.to_vec(),
        })],
        tables: vec![ram, table],
        verdicts: vec![Verdict::new("A6", found, judge(mb(counters.of_all), &spreads)).because(&why)],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge(261.0, &[3.0, 41.0]), Holds::Holds);
        assert_eq!(judge(261.0, &[3.0, 12.0]), Holds::InDirection);
        assert_eq!(judge(500.0, &[3.0, 41.0]), Holds::InDirection, "twice the RAM");
        assert_eq!(judge(261.0, &[]), Holds::NotJudged);
        assert_eq!(judge(261.0, &[0.0]), Holds::DoesNot, "all algorithms are alike");
        assert!((spread(&[2.0, 3.0, 2.4]) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn counters_of_a_terabyte_are_measured() {
        let counters = Counters::measure();
        assert!((256e6..280e6).contains(&counters.of_all), "{}", counters.of_all);
        assert!(counters.dynamic < counters.of_all / 4.0, "{}", counters.dynamic);
    }
}
