//! Figure 9: random reads of a young and of an aged store.

use super::bed::{Bed, CHUNK_BYTES, CacheKind, Cached, Draws, Work, beside, failed};
use super::{Scale, planned};
use crate::report::{Band, Chart, Holds, Line, Lines, Section, Table, Verdict};
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_port::{Clock, Device};
use std::time::Duration;

/// Sizes of reads, in bytes.
const SIZES: [u64; 9] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Up to this size, the response of the paper's store hardly grows.
const STABLE_BYTES: u64 = 128 << 10;
const READ_UNIT_BYTES: u64 = 4096;
/// The names of the measurements.
const NAMES: [&str; 6] =
    ["COS, low-gen", "COS, high-gen", "Nitro COS, low-gen", "Nitro COS, high-gen", "TPS", "COS, before collections"];
const LOW: usize = 0;
const HIGH: usize = 1;
const NITRO_LOW: usize = 2;
const NITRO_HIGH: usize = 3;
const TPS: usize = 4;
const UNCOLLECTED: usize = 5;

/// The mean cost of reads of one size.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) milliseconds: f64,
    pub(super) requests: f64,
    /// Reads of regions, for content and for recipes.
    regions: f64,
    /// Blocks of recipes that were not in RAM; several may be in one region.
    recipes: f64,
    /// Index look-ups of chunks that were moved, and reads of containers' metadata.
    others: f64,
    kilobytes: f64,
    /// With a cache: the share of the extents that it served.
    hits: f64,
    /// The time that the reads kept the disks busy by the model, of the least possible.
    of_least: f64,
}

impl Cost {
    fn of(before: &Work, after: &Work, reads: usize) -> Self {
        let each = |after: u64, before: u64| (after - before) as f64 / reads as f64;
        Self {
            milliseconds: (after.time - before.time).as_secs_f64() * 1e3 / reads as f64,
            requests: each(after.requests, before.requests),
            regions: each(after.store.region_reads, before.store.region_reads),
            recipes: each(after.store.recipe_reads, before.store.recipe_reads),
            others: each(
                after.store.index_lookups + after.store.metadata_reads,
                before.store.index_lookups + before.store.metadata_reads,
            ),
            kilobytes: each(after.store.region_read_bytes, before.store.region_read_bytes) / 1024.0,
            hits: 0.0,
            of_least: after.planned.since(&before.planned).ratio(),
        }
    }
}

/// Costs by size.
pub(super) type Costs = Vec<Cost>;

/// The results, by system.
#[derive(Default)]
pub(super) struct Aged {
    costs: [Costs; 6],
}

/// The mean of the inner dedup ratios of the first and the last generation.
fn inner_ratio(bed: &Bed, scale: &Scale) -> f64 {
    f64::midpoint(bed.inner_ratio(1), bed.inner_ratio(scale.generations))
}

/// The offsets of reads of one size: the same for all systems.
fn places(scale: &Scale, size: u64) -> Vec<u64> {
    let mut draws = Draws::new(size);
    (0..scale.reads).map(|_| draws.below((scale.volume_bytes - size) / READ_UNIT_BYTES + 1) * READ_UNIT_BYTES).collect()
}

/// Reads of a generation without a cache.
pub(super) async fn alone(bed: &mut Bed, scale: &Scale, generation: usize, sizes: &[u64]) -> Result<Costs, Error> {
    let mut costs = Costs::new();
    for size in sizes.iter().copied() {
        bed.reopen().await?;
        let object = bed.snapshot(generation).await?;
        let before = bed.work();
        for place in places(scale, size) {
            let read = object.read(place, size as usize).await.map_err(|e| failed(&e))?;
            bed.check(generation, place, &read[..READ_UNIT_BYTES as usize])?;
        }
        costs.push(Cost::of(&before, &bed.work(), scale.reads));
    }
    Ok(costs)
}

/// Reads of a generation through a cache that was warmed with all of it and has room for half. The measured reads
/// insert nothing, because a hundred reads are a large part of such a small volume.
pub(super) async fn cached(bed: &mut Bed, scale: &Scale, generation: usize, sizes: &[u64]) -> Result<Costs, Error> {
    bed.reopen().await?;
    let kind = CacheKind { bytes: scale.half_cache_bytes(), dedup: true, sequential: true };
    let cached = Cached::new(kind, &bed.clock, bed.snapshot(generation).await?).await?;
    let mut worker = Box::pin(cached.worker());
    beside(&mut worker, cached.warm(scale.volume_bytes)).await??;
    let mut costs = Costs::new();
    for size in sizes.iter().copied() {
        let before = (bed.work(), cached.primary.counters());
        for place in places(scale, size) {
            let read = cached.primary.read(place, size).await.map_err(|e| failed(&e))?;
            bed.check(generation, place, &read[0][..read[0].len().min(READ_UNIT_BYTES as usize)])?;
        }
        let (work, counters) = (bed.work(), cached.primary.counters());
        let hit = counters.read_hit_extents - before.1.read_hit_extents;
        let of_recipes = counters.recipe_hit_extents - before.1.recipe_hit_extents;
        let missed = counters.read_miss_extents - before.1.read_miss_extents;
        let hits = (hit + of_recipes) as f64 / (hit + missed).max(1) as f64;
        costs.push(Cost { hits, ..Cost::of(&before.0, &work, scale.reads) });
    }
    Ok(costs)
}

/// Reads of the plain file.
async fn plain(bed: &Bed, scale: &Scale) -> Result<Costs, Error> {
    let disk = bed.plain().await?;
    let mut costs = Costs::new();
    for size in SIZES {
        let (begun, requests) = (bed.clock.now(), disk.stats().requests);
        for place in places(scale, size) {
            disk.read(place, size as usize).await.map_err(|e| failed(&e))?;
        }
        let each = |total: Duration| total.as_secs_f64() * 1e3 / scale.reads as f64;
        costs.push(Cost {
            milliseconds: each(bed.clock.now() - begun),
            requests: (disk.stats().requests - requests) as f64 / scale.reads as f64,
            kilobytes: size as f64 / 1024.0,
            ..Cost::default()
        });
    }
    Ok(costs)
}

impl Aged {
    /// Measures the first generation, before the others are written.
    pub(super) async fn young(bed: &mut Bed, scale: &Scale) -> Result<Self, Error> {
        let mut aged = Self::default();
        aged.costs[LOW] = alone(bed, scale, 1, &SIZES).await?;
        aged.costs[NITRO_LOW] = cached(bed, scale, 1, &SIZES).await?;
        bed.reopen().await?;
        Ok(aged)
    }

    /// Measures the last generation before the first collection: it is almost as old as the last one, but no chunk was
    /// moved.
    pub(super) async fn uncollected(&mut self, bed: &mut Bed, scale: &Scale) -> Result<(), Error> {
        self.costs[UNCOLLECTED] = alone(bed, scale, scale.last_uncollected(), &SIZES).await?;
        bed.reopen().await
    }

    /// Measures the last generation, and a plain file.
    pub(super) async fn old(&mut self, bed: &mut Bed, scale: &Scale) -> Result<(), Error> {
        self.costs[HIGH] = alone(bed, scale, scale.generations, &SIZES).await?;
        self.costs[NITRO_HIGH] = cached(bed, scale, scale.generations, &SIZES).await?;
        self.costs[TPS] = plain(bed, scale).await?;
        Ok(())
    }

    fn at(&self, system: usize, size: u64) -> Cost {
        let place = SIZES.iter().position(|s| *s == size).unwrap_or(0);
        self.costs[system].get(place).copied().unwrap_or_default()
    }

    pub(super) fn section(&self, bed: &Bed, scale: &Scale) -> Section {
        let chart = |title: &str, y_label: &str, figure: fn(&Cost) -> f64, systems: &[usize]| {
            let line = |system: &usize| Line {
                name: NAMES[*system].into(),
                points: SIZES
                    .iter()
                    .zip(&self.costs[*system])
                    .map(|(size, c)| (*size as f64 / 1024.0, figure(c)))
                    .collect(),
            };
            Chart::Lines(Lines {
                title: title.into(),
                x_label: "KiB per read".into(),
                y_label: y_label.into(),
                log_x: true,
                log_y: false,
                y_min: 0.0,
                lines: systems.iter().map(line).collect(),
                events: Vec::new(),
            })
        };
        let all = [LOW, HIGH, NITRO_LOW, NITRO_HIGH, TPS, UNCOLLECTED];
        Section {
            id: "cos-figure-9",
            title: "Figure 9: random reads of an aged store".into(),
            text: format!(
                "{} generations of a volume of {} are written. Each changes {:.1} % of the chunks of the one before it, in runs of {} \
                 to {}, of which a sixth are copies of other runs of the volume: it has {:.2} chunks for each unique \
                 one (the paper: 2.3 % a day in the median; if places were changed at random, 13 % of the oldest 25 \
                 days would be left at the end, where it has 20 %). The last {} generations are kept; older ones are \
                 deleted, and garbage is collected once a week, which freed {}. {} reads of each size, one at a time, \
                 have random offsets in the first generation (young), before the others are written, and in the last \
                 one (aged). The cache has room for half of the volume, and is warmed with all of it. Chunks have {}, \
                 regions 64 KiB. The store's RAM is 2/512 of the volume; without a cache, it is empty before the \
                 reads of each size. The work of the disk for a read consists of reads of regions, for content and \
                 recipes; blocks of recipes that were not in RAM, of which a region may hold several; and look-ups, \
                 in the index on the disk, of chunks that a collection has moved since their recipe was written; a \
                 request that spans two disks counts as two. \"Before collections\" is generation {}, the last one \
                 before the first collection. {}",
                scale.generations,
                Size(scale.volume_bytes),
                scale.changed_share * 100.0,
                Size(CHUNK_BYTES),
                Size(CHUNK_BYTES * 64),
                inner_ratio(bed, scale),
                scale.retained,
                Size(bed.freed_bytes),
                scale.reads,
                Size(CHUNK_BYTES),
                scale.last_uncollected(),
                planned::OF_LEAST
            ),
            charts: vec![
                chart("Response time", "ms", |c| c.milliseconds, &all),
                chart("Disk requests per read", "requests", |c| c.requests, &all),
            ],
            tables: self.tables(),
            verdicts: vec![self.verdict(scale)],
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut times = Table::new(
            "Response time in ms; in parentheses, divided by that of the young COS at 4 KiB",
            &["size of a read"],
        );
        times.columns.extend(NAMES.map(str::to_owned));
        let unit = self.at(LOW, SIZES[0]).milliseconds;
        let columns = [
            "size of a read",
            "system",
            "requests",
            "regions read",
            "recipe blocks not in RAM",
            "index and metadata",
            "KiB from the disk",
            "hits",
            "disk time, of the least",
        ];
        let mut work = Table::new("Work of the disk per read", &columns);
        for size in SIZES {
            let shown = |system| {
                let ms = self.at(system, size).milliseconds;
                format!("{ms:.1} ({:.2})", ms / unit)
            };
            let mut row = vec![Size(size).to_string()];
            row.extend((0..NAMES.len()).map(shown));
            times.rows.push(row);
            for (system, name) in NAMES.iter().enumerate() {
                let cost = self.at(system, size);
                let mut row = vec![Size(size).to_string(), (*name).to_owned(), format!("{:.2}", cost.requests)];
                let of_store = [cost.regions, cost.recipes, cost.others].map(|each| format!("{each:.2}"));
                row.extend(if system == TPS { ["–"; 3].map(str::to_owned) } else { of_store });
                row.push(format!("{:.0}", cost.kilobytes));
                row.push(if cost.hits > 0.0 { format!("{:.0} %", cost.hits * 100.0) } else { "–".into() });
                row.push(if system == TPS { "–".into() } else { format!("{:.3}", cost.of_least) });
                work.rows.push(row);
            }
        }
        vec![times, work]
    }

    fn verdict(&self, scale: &Scale) -> Verdict {
        let ms = |system, size| self.at(system, size).milliseconds;
        let small = SIZES.iter().filter(|size| **size <= STABLE_BYTES);
        let ratios =
            small.flat_map(|size| [ms(HIGH, *size) / ms(LOW, *size), ms(NITRO_HIGH, *size) / ms(NITRO_LOW, *size)]);
        let worst = ratios.fold(0.0, f64::max);
        let large = 1 << 20;
        let [low, high, nitro_low, nitro_high, tps] = [LOW, HIGH, NITRO_LOW, NITRO_HIGH, TPS].map(|s| ms(s, large));
        let found = format!(
            "reads of up to 128 KiB take at most {worst:.2} times as long in the aged store as in the young one; reads \
             of 1 MiB: COS {low:.0} ms young, {high:.0} aged; Nitro {nitro_low:.0} young, {nitro_high:.0} aged; TPS \
             {tps:.0}"
        );
        let (aged, young) = (self.at(HIGH, large), self.at(LOW, large));
        let why = format!(
            "a read of 1 MiB takes {:.1} disk requests in the aged store and {:.1} in the young one: {:.1} reads of \
             regions, because changed chunks are stored elsewhere, and {:.1} look-ups, in the index on the same disk, \
             of chunks that collections moved without an update of the recipes. Generation {}, before the first \
             collection, takes {:.1} requests and {:.0} ms. With a cache of half of the volume, {:.1} requests remain: \
             a read is as slow as the part of it that comes from the disk. The length of the runs that change decides: \
             one of the tables has several",
            aged.requests,
            young.requests,
            aged.regions,
            aged.others,
            scale.last_uncollected(),
            self.at(UNCOLLECTED, large).requests,
            ms(UNCOLLECTED, large),
            self.at(NITRO_HIGH, large).requests
        );
        Verdict::new("N19", found, judge(worst, [nitro_high, low], [nitro_low, tps])).because(&why)
    }
}

/// N19. `worst`: the largest ratio of the aged store's time to the young store's, of reads up to 128 KiB. The others
/// are milliseconds of 1 MiB reads: Nitro on the aged store and the young store alone, Nitro on the young store and the
/// plain file.
fn judge(worst: f64, [nitro_high, low]: [f64; 2], [nitro_low, tps]: [f64; 2]) -> Holds {
    // "As fast" has no direction.
    let stable = if Band::at(1.0).has(worst) { Holds::Holds } else { Holds::DoesNot };
    let under = nitro_high < low && nitro_low < tps;
    let slightly = Band::at(1.0).has(nitro_high / low) && Band::at(1.0).has(nitro_low / tps);
    let near = Band::at(76.0).has(nitro_high) && Band::at(39.0).has(nitro_low);
    stable.and(Holds::of(under && slightly && near, under))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge(1.1, [76.0, 80.0], [39.0, 41.0]), Holds::Holds);
        assert_eq!(judge(1.1, [60.0, 180.0], [39.0, 41.0]), Holds::InDirection);
        assert_eq!(judge(1.1, [90.0, 80.0], [39.0, 41.0]), Holds::DoesNot);
        assert_eq!(judge(1.5, [76.0, 80.0], [39.0, 41.0]), Holds::DoesNot);
    }
}
