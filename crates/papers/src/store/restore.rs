//! Figure 10: restores of snapshots while their primary volume is cached.

use super::bed::{Bed, CacheKind, Cached, TestVolume, Work, beside, failed};
use super::{Scale, planned};
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict};
use nitro_console::error::Error;
use nitro_console::progress::Progress;
use nitro_console::size::Size;
use nitro_port::Device;

/// Bytes of a restore's read.
const READ_BYTES: u64 = 512 << 10;
/// The number of groups of generations.
const GROUPS: usize = 4;
/// A cache of this percentage of the volume holds all of it: its compressed extents take half.
const WHOLE_PERCENT: u64 = 70;
/// The paper's ratio of (D, C) to (ND, C) for the oldest group with a cache of 5 %: 374 s to 513 s.
const OLDEST_RATIO: f64 = 374.0 / 513.0;
/// The goal for a snapshot that shares 80 % with a cached primary.
const GOAL: f64 = 0.25;
/// The most that a restore may take: times as long as without a cache, and times the least time of the disks.
const NO_LOSS: [f64; 2] = [1.01, 1.05];

/// A way to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    /// The cache's size in percent of the volume; 0: no cache.
    percent: u64,
    dedup: bool,
    /// Whether the reads of a restore are cached.
    sequential: bool,
}

impl Way {
    fn all(scale: &Scale) -> Vec<Self> {
        let mut ways = vec![Self { percent: 0, dedup: false, sequential: true }];
        for percent in scale.cache_percents {
            for sequential in [true, false] {
                ways.extend([true, false].map(|dedup| Self { percent: *percent, dedup, sequential }));
            }
        }
        ways.extend([true, false].map(|dedup| Self { percent: WHOLE_PERCENT, dedup, sequential: true }));
        ways
    }

    fn name(&self) -> String {
        if self.percent == 0 {
            return "no cache".into();
        }
        let kind = if self.dedup { "(D, C)" } else { "(ND, C)" };
        let how = if self.sequential { "" } else { ", restores not cached" };
        format!("{kind}, {} %{how}", self.percent)
    }
}

/// The cost of a restore.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    seconds: f64,
    requests: f64,
    bytes: f64,
    /// The time that the reads kept the disks busy by the model, of the least possible.
    of_least: f64,
}

impl Cost {
    fn of(before: &Work, after: &Work) -> Self {
        Self {
            seconds: (after.time - before.time).as_secs_f64(),
            requests: (after.requests - before.requests) as f64,
            bytes: (after.store.region_read_bytes - before.store.region_read_bytes) as f64,
            of_least: after.planned.since(&before.planned).ratio(),
        }
    }

    fn mean(costs: &[Self]) -> Self {
        let mean = |figure: fn(&Self) -> f64| costs.iter().map(figure).sum::<f64>() / costs.len().max(1) as f64;
        Self {
            seconds: mean(|c| c.seconds),
            requests: mean(|c| c.requests),
            bytes: mean(|c| c.bytes),
            of_least: mean(|c| c.of_least),
        }
    }
}

/// Generations that are restored together, with the costs of each way.
struct Group {
    generations: Vec<usize>,
    /// The mean share of chunks that the last generation has too.
    overlap: f64,
    costs: Vec<Cost>,
}

pub(super) struct Restored {
    ways: Vec<Way>,
    /// The groups, oldest first.
    groups: Vec<Group>,
}

/// The generations of each group that are retained, evenly chosen.
fn chosen(scale: &Scale) -> Vec<Vec<usize>> {
    let oldest = scale.generations - scale.retained + 1;
    let each = scale.generations / GROUPS;
    let group = |number: usize| {
        let (first, last) = ((number * each + 1).max(oldest), (number + 1) * each);
        let of = scale.restores;
        (0..of).map(|n| first + (last - first) * (2 * n + 1) / (2 * of)).collect()
    };
    (0..GROUPS).map(group).collect()
}

impl Restored {
    pub(super) async fn measure(bed: &mut Bed, scale: &Scale) -> Result<Self, Error> {
        let ways = Way::all(scale);
        let chosen = chosen(scale);
        let progress =
            Progress::counting((chosen.iter().map(Vec::len).sum::<usize>() * ways.len()) as u64, "restores done");
        let (mut groups, mut done) = (Vec::new(), 0);
        for generations in chosen {
            let mut costs = Vec::new();
            for way in &ways {
                let mut each = Vec::new();
                for generation in &generations {
                    bed.reopen().await?;
                    each.push(if way.percent == 0 {
                        plain(bed, *generation).await?
                    } else {
                        cached(bed, scale, *way, *generation).await?
                    });
                    done += 1;
                    progress.show(done);
                }
                costs.push(Cost::mean(&each));
            }
            let overlap = generations.iter().map(|g| bed.overlap(*g)).sum::<f64>() / generations.len() as f64;
            groups.push(Group { generations, overlap, costs });
        }
        progress.end();
        Ok(Self { ways, groups })
    }

    fn cost(&self, group: &Group, way: Way) -> Cost {
        let place = self.ways.iter().position(|w| *w == way);
        place.and_then(|place| group.costs.get(place)).copied().unwrap_or_default()
    }

    pub(super) fn section(&self, scale: &Scale) -> Section {
        let chart = |title: &str, figure: fn(&Cost) -> f64| {
            let bars = self.ways.iter().skip(1).map(|way| {
                let height = |group: &Group| Some(100.0 * figure(&self.cost(group, *way)) / figure(&group.costs[0]));
                (way.name(), self.groups.iter().map(height).collect())
            });
            Chart::Bars(Bars {
                title: title.into(),
                y_label: "% of the value without a cache".into(),
                log_y: false,
                groups: self.groups.iter().map(|group| self.label(group)).collect(),
                bars: bars.collect(),
            })
        };
        Section {
            id: "cos-figure-10",
            title: "Figure 10: restored snapshots".into(),
            text: format!(
                "Snapshots are read from beginning to end with reads of {}, one at a time: {} of each quarter of the \
                 generations that are still kept. The groups are labelled with the share of their chunks that the \
                 primary volume, which is the last generation, also has. Before each restore, a new cache is warmed \
                 with the end of the primary: with four times the size of the cache, or with the whole primary if it \
                 is smaller. Caches have {} % of the volume, or {WHOLE_PERCENT} %, which holds the whole primary. The \
                 paper does not say whether restored data were cached, so both are shown: with `sequential_threshold = \
                 0`, and (\"restores not cached\") with the default. Time is virtual: that of the modelled disk and \
                 SSD, without the processor's. {}",
                Size(READ_BYTES),
                scale.restores,
                scale.cache_percents.iter().map(u64::to_string).collect::<Vec<_>>().join(" and "),
                planned::OF_LEAST
            ),
            charts: vec![chart("Restore time", |c| c.seconds), chart("Bytes read from the disk", |c| c.bytes)],
            tables: vec![self.table()],
            verdicts: vec![self.verdict(scale), self.goal(), self.no_loss()],
        }
    }

    fn label(&self, group: &Group) -> String {
        let names: Vec<_> = group.generations.iter().map(usize::to_string).collect();
        format!("{} ({:.0} %)", names.join(", "), group.overlap * 100.0)
    }

    fn table(&self) -> Table {
        let columns = [
            "generations (overlap)",
            "cache",
            "time, s",
            "relative to no cache",
            "disk requests",
            "relative to no cache",
            "read from the disk",
            "relative to no cache",
            "disk time, of the least",
        ];
        let mut table = Table::new("Restores, mean values", &columns);
        for group in &self.groups {
            let none = group.costs[0];
            for (way, cost) in self.ways.iter().zip(&group.costs) {
                let share = |figure: fn(&Cost) -> f64| format!("{:.1} %", 100.0 * figure(cost) / figure(&none));
                table.rows.push(vec![
                    self.label(group),
                    way.name(),
                    format!("{:.1}", cost.seconds),
                    share(|c| c.seconds),
                    format!("{:.0}", cost.requests),
                    share(|c| c.requests),
                    Size(cost.bytes as u64).to_string(),
                    share(|c| c.bytes),
                    format!("{:.3}", cost.of_least),
                ]);
            }
        }
        table
    }

    /// The time of (D, C) over that of (ND, C).
    fn ratio(&self, group: &Group, percent: u64, sequential: bool) -> f64 {
        let [with, without] = [true, false].map(|dedup| self.cost(group, Way { percent, dedup, sequential }).seconds);
        with / without
    }

    fn verdict(&self, scale: &Scale) -> Verdict {
        let percent = scale.cache_percents.last().copied().unwrap_or_default();
        let [Some(oldest), Some(newest)] = [self.groups.first(), self.groups.last()] else {
            return Verdict::not_judged("N20", "nothing was restored");
        };
        let (taken, kept_off) = (self.ratio(oldest, percent, true), self.ratio(oldest, percent, false));
        let best = taken.min(kept_off);
        let newest_best = self.ratio(newest, percent, true).min(self.ratio(newest, percent, false));
        let found = format!(
            "time of (D, C) divided by that of (ND, C) with a cache of {percent} %: oldest {taken:.3} (restores not \
             cached: {kept_off:.3}), newest {newest_best:.3}; the paper's oldest {OLDEST_RATIO:.2}; with the whole \
             primary cached: oldest {:.2}, newest {:.2}; overlap {:.0} % (newest) to {:.0} % (oldest)",
            self.ratio(oldest, WHOLE_PERCENT, true),
            self.ratio(newest, WHOLE_PERCENT, true),
            newest.overlap * 100.0,
            oldest.overlap * 100.0
        );
        let holds = judge(best, newest.overlap * 100.0, oldest.overlap * 100.0);
        let why = "a cache of 5 % holds about a tenth of the volume, compressed, so that it can save at most the \
                   overlapping part of this tenth, and what is a copy of it; if restores are cached, they evict this \
                   tenth before they reach it. A read lasts as long as the slowest of its disks, so that one of which a \
                   part is cached is hardly shorter, and with deduplication the origin is asked for its recipe before \
                   it is read. The paper's gain may come from more content that occurs several times in its desktop \
                   image, on which it gives no figures";
        Verdict::new("N20", found, holds).because(why)
    }

    /// Judges the goal that no restore loses by a cache.
    fn no_loss(&self) -> Verdict {
        let most = |figure: fn(&Cost, &Cost) -> f64| {
            let of_group = |group: &Group| group.costs.iter().map(|c| figure(c, &group.costs[0])).fold(0.0, f64::max);
            self.groups.iter().map(of_group).fold(0.0, f64::max)
        };
        let (slowest, of_least) = (most(|c, none| c.seconds / none.seconds), most(|c, _| c.of_least));
        let found = format!(
            "at most {slowest:.3} times as long as without a cache, and {of_least:.3} times the least time of the disks"
        );
        Verdict::new("N20c", found, judge_losses(slowest, of_least))
    }

    /// Judges the goal for a snapshot with a cached primary.
    fn goal(&self) -> Verdict {
        let Some(newest) = self.groups.last() else {
            return Verdict::not_judged("N20b", "nothing was restored");
        };
        let costs =
            [true, false].map(|dedup| self.cost(newest, Way { percent: WHOLE_PERCENT, dedup, sequential: true }));
        let (bytes, requests) = (costs[0].bytes / costs[1].bytes, costs[0].requests / costs[1].requests);
        let found = format!(
            "a snapshot that shares {:.0} %: {:.0} % of the bytes, {:.0} % of the requests",
            newest.overlap * 100.0,
            bytes * 100.0,
            requests * 100.0
        );
        let holds = Holds::of(bytes <= GOAL && requests <= GOAL, bytes < 1.0 && requests < 1.0);
        let why = "the chunks that a snapshot does not share are in regions of 64 KiB, which have to be read \
                   completely for a chunk of 8 KiB, and in short runs, each of which is a separate request, whereas a \
                   restore without the cache reads long ranges with one request";
        Verdict::new("N20b", found, holds).because(why)
    }
}

/// N20c: the largest time with a cache over that without one, and the largest time of the disks over the least.
fn judge_losses(slowest: f64, of_least: f64) -> Holds {
    let [slower_max, least_max] = NO_LOSS;
    Holds::of(slowest <= slower_max && of_least <= least_max, slowest <= slower_max)
}

/// N20: the time of (D, C) over that of (ND, C) for the oldest group, and the overlaps of the newest and the oldest
/// group with the primary, in percent. Less than half a percent is no gain.
fn judge(oldest: f64, newest_overlap: f64, oldest_overlap: f64) -> Holds {
    let near =
        Band::at(OLDEST_RATIO).has(oldest) && Band::at(80.0).has(newest_overlap) && Band::at(20.0).has(oldest_overlap);
    Holds::of(near, oldest < 0.995 && oldest_overlap < newest_overlap)
}

/// Restores without a cache.
async fn plain(bed: &Bed, generation: usize) -> Result<Cost, Error> {
    let object = bed.snapshot(generation).await?;
    let before = bed.work();
    for place in (0..object.size_bytes()).step_by(READ_BYTES as usize) {
        let len = READ_BYTES.min(object.size_bytes() - place);
        object.read(place, len as usize).await.map_err(|e| failed(&e))?;
    }
    Ok(Cost::of(&before, &bed.work()))
}

/// Restores through a cache in its state after the last generation.
async fn cached(bed: &Bed, scale: &Scale, way: Way, generation: usize) -> Result<Cost, Error> {
    let bytes = scale.volume_bytes * way.percent / 100;
    let kind = CacheKind { bytes, dedup: way.dedup, sequential: way.sequential };
    let mut cached = Cached::new(kind, &bed.clock, bed.snapshot(scale.generations).await?).await?;
    let mut worker = Box::pin(cached.worker());
    // Contents are compressed to a half, so this is more than the cache can hold.
    beside(&mut worker, cached.warm(bytes * 4)).await??;
    let volume = cached.beside(bed.snapshot(generation).await?);
    let before = bed.work();
    beside(&mut worker, restore(bed, &volume, generation)).await??;
    Ok(Cost::of(&before, &bed.work()))
}

async fn restore(bed: &Bed, volume: &TestVolume, generation: usize) -> Result<(), Error> {
    for place in (0..volume.size_bytes()).step_by(READ_BYTES as usize) {
        let len = READ_BYTES.min(volume.size_bytes() - place);
        let read = volume.read(place, len).await.map_err(|e| failed(&e))?;
        bed.check(generation, place, &read[0][..read[0].len().min(4096)])?;
    }
    Ok(())
}

/// The oldest group: its generations' overlap with the last one, and the time of (D, C) over that of (ND, C), with the
/// largest of the small caches, the better of restores that are cached and that are not.
pub(super) async fn oldest(bed: &mut Bed, scale: &Scale) -> Result<(f64, f64), Error> {
    let percent = scale.cache_percents.last().copied().unwrap_or_default();
    let generations = chosen(scale).swap_remove(0);
    let mut best = f64::MAX;
    for sequential in [true, false] {
        let mut seconds = [0.0; 2];
        for (dedup, seconds) in [true, false].into_iter().zip(&mut seconds) {
            for generation in &generations {
                bed.reopen().await?;
                *seconds += cached(bed, scale, Way { percent, dedup, sequential }, *generation).await?.seconds;
            }
        }
        best = best.min(seconds[0] / seconds[1]);
    }
    let overlap = generations.iter().map(|g| bed.overlap(*g)).sum::<f64>() / generations.len().max(1) as f64;
    Ok((overlap, best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge(OLDEST_RATIO, 80.0, 20.0), Holds::Holds);
        assert_eq!(judge(0.97, 80.0, 20.0), Holds::InDirection);
        assert_eq!(judge(1.0, 80.0, 20.0), Holds::DoesNot);
        assert_eq!(judge(OLDEST_RATIO, 20.0, 80.0), Holds::DoesNot);
        assert_eq!(judge_losses(1.009, 1.05), Holds::Holds);
        assert_eq!(judge_losses(1.0, 1.06), Holds::InDirection);
        assert_eq!(judge_losses(1.02, 1.0), Holds::DoesNot);
    }
}
