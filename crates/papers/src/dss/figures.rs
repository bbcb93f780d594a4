//! The figures of the paper's Tables 3 and 4, averaged over runs.

use super::run::Ran;
use super::systems::{PAPER_CACHE_BYTES, System};
use nitro_sim::cost::Prices;

/// A system on disks, in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Point {
    pub(super) iops: f64,
    pub(super) seconds: f64,
    /// The share of reads that the cache served, 0 to 1.
    pub(super) hits: f64,
}

/// The figures of all systems and disks.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    /// The names of the phases.
    pub(super) phases: Vec<String>,
    /// The system, the number of the disks, and the phases' averages over all runs.
    rows: Vec<(System, usize, Vec<Point>)>,
    /// The same of each run.
    each: Vec<(System, usize, Vec<Point>)>,
}

impl Figures {
    /// The averages of runs, each with all systems and disks.
    pub(super) fn of(phases: &[String], runs: &[Vec<Ran>]) -> Self {
        let points = |ran: &Ran| -> Vec<Point> {
            let one = |found: &nitro_sim::Measures| {
                let pace = found.pace.unwrap_or_default();
                Point { iops: pace.iops, seconds: pace.seconds, hits: found.read_hit_ratio }
            };
            ran.phases().iter().map(one).collect()
        };
        let each: Vec<_> = runs.iter().flatten().map(|ran| (ran.system, ran.hdd, points(ran))).collect();
        let mut rows: Vec<(System, usize, Vec<Point>)> = Vec::new();
        for (system, hdd, points) in &each {
            match rows.iter_mut().find(|row| (row.0, row.1) == (*system, *hdd)) {
                None => rows.push((*system, *hdd, points.clone())),
                Some((.., sums)) => sums.iter_mut().zip(points).for_each(|(sum, point)| {
                    *sum = Point {
                        iops: sum.iops + point.iops,
                        seconds: sum.seconds + point.seconds,
                        hits: sum.hits + point.hits,
                    };
                }),
            }
        }
        let count = runs.len().max(1) as f64;
        for point in rows.iter_mut().flat_map(|row| &mut row.2) {
            *point = Point { iops: point.iops / count, seconds: point.seconds / count, hits: point.hits / count };
        }
        Self { phases: phases.to_vec(), rows, each }
    }

    /// The phases' averages of a system on disks.
    pub(super) fn points(&self, hdd: usize, system: System) -> &[Point] {
        self.rows.iter().find(|row| (row.0, row.1) == (system, hdd)).map_or(&[], |row| &row.2)
    }

    /// IOPS averaged over the phases, as in the paper's Table 3.
    pub(super) fn iops(&self, hdd: usize, system: System) -> f64 {
        mean(self.points(hdd, system).iter().map(|point| point.iops))
    }

    /// The lowest and the highest of these averages in a run.
    pub(super) fn iops_range(&self, hdd: usize, system: System) -> (f64, f64) {
        let of = self.each.iter().filter(|row| (row.0, row.1) == (system, hdd));
        let all = of.map(|row| mean(row.2.iter().map(|point| point.iops)));
        all.fold((f64::INFINITY, 0.0), |(low, high), one| (one.min(low), one.max(high)))
    }

    /// The time of all phases.
    pub(super) fn seconds(&self, hdd: usize, system: System) -> f64 {
        self.points(hdd, system).iter().map(|point| point.seconds).sum()
    }

    /// The speed of the application relative to the disks alone, in percent: the ratio of the average completion times.
    pub(super) fn speed(&self, hdd: usize, system: System) -> f64 {
        100.0 * self.seconds(hdd, System::None) / self.seconds(hdd, system)
    }

    /// IOPS over those of LRU, by phase.
    pub(super) fn over_lru(&self, hdd: usize, system: System) -> Vec<f64> {
        let lru = self.points(hdd, System::Lru);
        self.points(hdd, system).iter().zip(lru).map(|(point, lru)| point.iops / lru.iops).collect()
    }

    /// Millionths of the table's currency for each MB and I/O per second, with the paper's cache.
    pub(super) fn millionths(&self, prices: &Prices, hdd: usize, system: System) -> f64 {
        let Some(kind) = prices.hdds.get(hdd) else { return f64::NAN };
        let cache_bytes = if system == System::None { 0 } else { PAPER_CACHE_BYTES };
        prices.cost(kind, cache_bytes, self.iops(hdd, system)).price_per_mb_iops * 1e6
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}
