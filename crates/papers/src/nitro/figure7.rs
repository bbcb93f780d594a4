//! Figure 7: random reads, by the size of the working set and its duplicates.

use super::judges::{Contours, n16};
use super::plan::Kind;
use super::{Cell, Outcomes, Plan, Work};
use crate::report::Verdict;
use crate::report::{Chart, Contour, Section};
use nitro_sim::timing::{Cos, Disks, Load, Origin, Raid, Timing};
use nitro_sim::{Settings, Variant, Warmup};

/// The variants (D, NC) and (D, C).
const KINDS: [Kind; 2] = [Kind::new(Variant::Weu, true, false), Kind::new(Variant::Weu, true, true)];
/// The mean number of reads of each extent, before and during the measurement.
const WARM_READS: u64 = 8;
const MEASURED_READS: u64 = 1;
const READ_BYTES: u64 = 8192;

/// A working set of `times` the size of the cache.
fn cell(plan: &Plan, kind: Kind, times: f64, dedup_ratio: u32) -> Cell {
    let working_set_bytes = (plan.grid_cache_bytes as f64 * times) as u64 / READ_BYTES * READ_BYTES;
    let extents = working_set_bytes / READ_BYTES;
    let timing = Timing {
        load: Load::Closed(1),
        origin: Origin::Cos(Cos::default()),
        disks: Disks { spindles: 23, raid: Raid::Raid6, ..Disks::default() },
        ..Timing::default()
    };
    let settings = Settings {
        warmup: Warmup::Requests(extents * WARM_READS),
        timing: Some(timing),
        recipes: true,
        weu_bytes: plan.weu_bytes,
        ..Settings::new(plan.grid_cache_bytes)
    };
    let requests = extents * (WARM_READS + MEASURED_READS);
    let work = Work::Random { working_set_bytes, dedup_ratio, requests, seed: plan.seed };
    Cell { work, settings: kind.apply(settings) }
}

/// A working set that is entirely on the SSD: half of the cache.
fn fitting(plan: &Plan) -> Cell {
    cell(plan, KINDS[0], 0.5, 1)
}

fn grid(plan: &Plan) -> impl Iterator<Item = (u32, u32)> {
    plan.grid.iter().flat_map(|times| plan.grid.iter().map(move |dedup| (*times, *dedup)))
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    let all = KINDS.into_iter().flat_map(|kind| grid(plan).map(move |(times, dedup)| (kind, times, dedup)));
    let cells = all.map(|(kind, times, dedup)| cell(plan, kind, times.into(), dedup));
    cells.chain([fitting(plan)]).collect()
}

/// The mean response, relative to that of a working set that fits.
fn normalized(plan: &Plan, outcomes: &Outcomes, kind: Kind, times: u32, dedup: u32) -> Option<f64> {
    let mean = |cell: &Cell| Some(outcomes.measures(cell)?.pace?.read_response.mean_us);
    Some(mean(&cell(plan, kind, times.into(), dedup))? / mean(&fitting(plan))?)
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let axis: Vec<f64> = plan.grid.iter().map(|value| f64::from(*value)).collect();
    let contour = |kind: Kind| {
        let row =
            |dedup: &u32| plan.grid.iter().map(|times| normalized(plan, outcomes, kind, *times, *dedup)).collect();
        Chart::Contour(Contour {
            title: kind.name(),
            x_label: "working set ÷ cache".into(),
            y_label: "deduplication ratio".into(),
            value: "read response time ÷ that of a working set that fits".into(),
            xs: axis.clone(),
            ys: axis.clone(),
            values: plan.grid.iter().map(row).collect(),
        })
    };
    Section {
        id: "figure-7",
        title: "Figure 7: sensitivity".into(),
        text: format!(
            "Random reads of 8 KiB, one at a time, from a working set of 1 to {} times a cache of {} MiB in front of a \
             modelled COS; mean response time relative to that of a working set that fits on the SSD.",
            plan.grid.last().copied().unwrap_or(1),
            plan.grid_cache_bytes >> 20
        ),
        charts: KINDS.map(contour).to_vec(),
        verdicts: vec![verdict(plan, outcomes)],
        ..Section::default()
    }
}

fn verdict(plan: &Plan, outcomes: &Outcomes) -> Verdict {
    let at = |kind, times, dedup| normalized(plan, outcomes, kind, times, dedup);
    let [d, dc] = KINDS;
    let all = || {
        let few = [at(d, 1, 2)?, at(d, 2, 2)?, at(d, 3, 2)?];
        Some((Contours { many: at(d, 5, 5)?, few, four: at(dc, 4, 2)? }, at(d, 4, 5)?))
    };
    let Some((contours, inside)) = all() else {
        return Verdict::not_judged("N16", "a cell of the grid is missing");
    };
    let Contours { many, few: [one, two, three], four } = contours;
    let found = format!(
        "relative response time by size of the working set: (D, NC) with dedup 5 × {many:.1} at 5 × ({inside:.1} at 4 ×), with dedup \
         2 × {one:.1} at 1 ×, {two:.1} at 2 ×, {three:.1} at 3 ×; (D, C) with dedup 2 × {four:.1} at 4 ×"
    );
    let why = "a working set whose unique content is exactly as large as the cache does not fit: units that are being \
               filled or freed hold no data, headers take room, and contents that compress by 2 on average fill units \
               unevenly. One miss in thirty reads is visible, because a read of the modelled store takes about 200 \
               times as long as one of the modelled SSD";
    Verdict::new("N16", found, n16(contours)).because(why)
}
