//! Figure 1: the dedup ratio that a cache achieves, by its size.

use super::judges::{Growth, n1};
use super::plan::{Fiu, Kind};
use super::{Cell, Outcomes, Plan};
use crate::report::Verdict;
use crate::report::{Chart, Line, Lines, Section};
use nitro_sim::{Settings, Variant, Warmup};

/// The extent size in bytes.
const BLOCK_BYTES: u32 = 4096;
/// Bytes of a write-evict unit: small caches need small units.
const WEU_BYTES: u32 = 512 << 10;
/// Binary logarithms of the sizes of the caches in blocks: the smallest cache has eight units, the largest holds
/// everything.
const BLOCKS_LOG2: std::ops::RangeInclusive<u32> = 10..=24;
/// "Tens of thousands of blocks".
const TENS_OF_THOUSANDS: f64 = 65_536.0;

fn sizes(plan: &Plan, fiu: Fiu) -> impl Iterator<Item = u64> {
    let like = fiu.like(plan.scale(fiu), plan.seed);
    let footprint = like.volume_bytes * like.footprint_share * like.scale / f64::from(BLOCK_BYTES);
    let enough = (footprint.log2().ceil() as u32 + 1).min(*BLOCKS_LOG2.end());
    BLOCKS_LOG2.filter(move |log2| *log2 <= enough).map(|log2| 1 << log2)
}

fn cell(plan: &Plan, fiu: Fiu, blocks: u64) -> Cell {
    let settings =
        Settings { extent_bytes: BLOCK_BYTES, weu_bytes: WEU_BYTES, ..Settings::new(blocks * u64::from(BLOCK_BYTES)) };
    let kind = Kind::new(Variant::Weu, true, false);
    Cell { work: plan.work(fiu), settings: kind.apply(Settings { warmup: Warmup::None, ..settings }) }
}

pub(super) fn cells(plan: &Plan) -> Vec<Cell> {
    Fiu::ALL.into_iter().flat_map(|fiu| sizes(plan, fiu).map(move |blocks| cell(plan, fiu, blocks))).collect()
}

pub(super) fn section(plan: &Plan, outcomes: &Outcomes) -> Section {
    let line = |fiu: Fiu| {
        let point = |blocks| Some((blocks as f64, outcomes.measures(&cell(plan, fiu, blocks))?.dedup_ratio));
        Line { name: fiu.name().into(), points: sizes(plan, fiu).filter_map(point).collect() }
    };
    let lines: Vec<_> = Fiu::ALL.into_iter().map(line).collect();
    Section {
        id: "figure-1",
        title: "Figure 1: deduplication ratio by size of the cache".into(),
        text: "WEU (D, NC) with blocks of 4 KiB and caches of all sizes, over all 21 days. The deduplication ratio is \
               the bytes inserted into the cache divided by those that it did not have. The caches have the same \
               numbers of blocks at every scale of the traces; the verdict's 65,536 blocks are scaled with the trace."
            .into(),
        verdicts: vec![verdict(plan, &lines)],
        charts: vec![Chart::Lines(Lines {
            title: "Deduplication ratio".into(),
            x_label: "cache, blocks of 4 KiB".into(),
            y_label: "ratio".into(),
            log_x: true,
            log_y: false,
            y_min: 1.0,
            lines,
            events: Vec::new(),
        })],
        ..Section::default()
    }
}

fn verdict(plan: &Plan, lines: &[Line]) -> Verdict {
    let (mut traces, mut found) = (Vec::new(), Vec::new());
    for (line, fiu) in lines.iter().zip(Fiu::ALL) {
        let Some(&(_, end)) = line.points.last() else { continue };
        // The number of blocks, scaled from the published size of the trace.
        let blocks = TENS_OF_THOUSANDS * plan.scale(fiu);
        let near = line.points.iter().min_by(|a, b| (a.0 - blocks).abs().total_cmp(&(b.0 - blocks).abs()));
        let share = near.map_or(0.0, |(_, ratio)| (ratio - 1.0) / (end - 1.0));
        let doublings: Vec<_> = line.points.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
        let fastest = doublings.iter().copied().fold(f64::MIN, f64::max);
        let rises = doublings.iter().all(|gain| *gain > -0.02);
        let slow_first = doublings.first().is_some_and(|first| *first < fastest);
        found.push(format!(
            "{} {end:.2} × with the largest cache, {:.0} % of the gain over 1 at 65,536 blocks (scaled)",
            line.name,
            share * 100.0
        ));
        traces.push(Growth { end, share, rises, slow_first });
    }
    let why = "the ratio of the largest cache follows from the share of unique content, which is published for WebVM \
               and Homes; how soon it is reached depends on the reuse that the synthetic traces assume";
    Verdict::new("N1", found.join("; "), n1(&traces)).because(why)
}
