//! Sequential restores, with and without short fingerprints on the SSD, for D2.

use super::bed::{Design, Image, Kind, Requests, SPINDLES, System, check};
use super::failed;
use crate::report::{Bars, Chart, Table, percent_more};
use crate::store::bed::CHUNK_BYTES;
use futures_util::future::try_join_all;
use nitro_console::error::Error;
use nitro_cos::Settings;
use nitro_port::Clock;

/// Bytes of a restore's read.
pub(super) const READ_BYTES: u64 = 256 << 10;
/// The generations that are restored, as far as there are as many; the last one is, too.
const AGES: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];
/// The numbers of restores at the same time, beside one.
const STREAMS: [usize; 2] = [8, 32];
/// Restores at the same time read this number of volumes together.
const VOLUMES: u64 = 4;
/// The containers whose fingerprints RAM holds for one restore. For several, RAM has one of these numbers for each.
pub(super) const CONTAINERS: usize = 8;
const CONTAINERS_A_STREAM: [f64; 4] = [0.5, 1.0, 1.5, 2.0];
/// Bytes of regions in RAM for each restore.
pub(super) const REGION_BYTES_A_STREAM: u64 = 1 << 20;
/// Look-ups of the index for a MiB, by the paper ("only one FPI lookup for 1 MB").
pub(super) const LOOKUPS: f64 = 1.0;
/// The designs that are compared.
const NAMES: [&str; 4] =
    ["the paper's store, no SSD", "with the fingerprint cache", "our store, no SSD", "our store, reading ahead"];

/// Restores at the same time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// Bytes of all restores, in MiB.
    mebibytes: f64,
    seconds: f64,
    /// The share of the time for which a disk is busy, on average.
    busy: f64,
    pub(super) requests: Requests,
    table_reads: u64,
}

impl Cost {
    pub(super) fn per_mebibyte(&self, count: u64) -> f64 {
        count as f64 / self.mebibytes
    }

    fn speed(&self) -> f64 {
        self.mebibytes / self.seconds
    }

    /// The time that the disks need for a MiB, in seconds.
    fn disk_seconds(&self) -> f64 {
        self.busy * f64::from(SPINDLES) / self.speed()
    }

    /// Look-ups of the index on the disk, or of short fingerprints, for a MiB.
    pub(super) fn lookups(&self) -> f64 {
        self.per_mebibyte(self.requests.0[Kind::IndexLevel1 as usize].max(self.table_reads))
    }
}

/// Restores by each design.
struct Restores {
    generations: Vec<usize>,
    /// The containers whose fingerprints RAM holds.
    containers: usize,
    costs: Vec<Cost>,
}

impl Restores {
    async fn measure(image: &Image, generations: Vec<usize>, containers: usize) -> Result<Self, Error> {
        let mut costs = Vec::new();
        for design in designs(generations.len(), containers) {
            costs.push(restore(image, &design, &generations).await?);
        }
        Ok(Self { generations, containers, costs })
    }

    /// Several at once, with as much RAM that a restore without an SSD takes about as many look-ups as the paper's: they
    /// are restores of similar generations, and find what others have loaded.
    async fn measure_matched(image: &Image, generations: Vec<usize>) -> Result<Self, Error> {
        let choices = CONTAINERS_A_STREAM.map(|each| (each * generations.len() as f64) as usize);
        let mut lookups = Vec::new();
        for containers in choices {
            let [paper, ..] = designs(generations.len(), containers);
            lookups.push(restore(image, &paper, &generations).await?.lookups());
        }
        let containers = choices.get(nearest(&lookups)).copied().unwrap_or(CONTAINERS);
        Self::measure(image, generations, containers).await
    }

    /// Without an SSD.
    fn base(&self) -> Cost {
        self.costs.first().copied().unwrap_or_default()
    }

    /// What the fingerprint cache gains, in percent of the speed.
    fn gain(&self) -> f64 {
        self.costs.get(1).map_or(0.0, |cached| percent_more(cached.speed(), self.base().speed()))
    }

    /// The same if the disks are the bound: then the speed follows from the time that they need for a MiB.
    fn gain_if_bound(&self) -> f64 {
        self.costs.get(1).map_or(0.0, |cached| percent_more(self.base().disk_seconds(), cached.disk_seconds()))
    }

    fn label(&self) -> String {
        match (&self.generations[..], self.generations.iter().max()) {
            ([only], _) => only.to_string(),
            ([first, ..], Some(last)) => format!("{first} to {last}, {} at once", self.generations.len()),
            _ => String::new(),
        }
    }
}

pub(super) struct Restored {
    /// One at a time, by generation.
    ages: Vec<Restores>,
    /// The age at which a restore takes as many look-ups as the paper's.
    matched: usize,
    /// Several at a time, about that age.
    streams: Vec<Restores>,
}

fn designs(streams: usize, containers: usize) -> [Design; 4] {
    let ram = |design: Design| {
        let settings = Settings {
            locality_containers: containers,
            region_cache_bytes: REGION_BYTES_A_STREAM * streams as u64,
            ..design.settings
        };
        Design { settings, ..design }
    };
    let (paper, own) = (ram(Design::paper()), ram(Design::own()));
    let ahead = Settings {
        region_cache_bytes: Settings::default().region_cache_bytes,
        readahead_bytes: Settings::default().readahead_bytes,
        ..own.settings
    };
    [paper, Design { short: true, ..paper }, own, Design { settings: ahead, ..own }]
}

/// Restores generations at the same time.
async fn restore(image: &Image, design: &Design, generations: &[usize]) -> Result<Cost, Error> {
    let system = System::open(image, design).await?;
    let (begun, busy) = (system.clock.now(), system.disk.stats().busy);
    let count = generations.len() as u64;
    let restores = generations.iter().zip(0..).map(async |(generation, number)| {
        let snapshot = system.snapshot(*generation).await?;
        let reads = snapshot.size_bytes().div_ceil(READ_BYTES);
        // Each begins at another place, because all are restores of similar generations.
        for read in 0..reads * VOLUMES.min(count) / count {
            let offset = (number * reads / count + read) % reads * READ_BYTES;
            let read = snapshot.read_range(offset, READ_BYTES as usize).await.map_err(|e| failed(&e))?;
            let chunk = (offset / CHUNK_BYTES) as usize;
            check(&read[..CHUNK_BYTES as usize], &image.generations[generation - 1][chunk..=chunk])?;
        }
        Ok::<_, Error>(reads * VOLUMES.min(count) / count * READ_BYTES)
    });
    let bytes: u64 = try_join_all(restores).await?.into_iter().sum();
    Ok(Cost {
        mebibytes: bytes as f64 / f64::from(1 << 20),
        seconds: (system.clock.now() - begun).as_secs_f64(),
        busy: (system.disk.stats().busy - busy).as_secs_f64()
            / (system.clock.now() - begun).as_secs_f64()
            / f64::from(SPINDLES),
        requests: Requests::of(&system.take()),
        table_reads: system.table_reads(),
    })
}

/// Of these numbers of look-ups for a MiB, which is nearest to the paper's.
fn nearest(lookups: &[f64]) -> usize {
    let distance = |lookups: &f64| (lookups / LOOKUPS).ln().abs();
    let nearest = lookups.iter().enumerate().min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)));
    nearest.map_or(0, |(at, _)| at)
}

impl Restored {
    pub(super) async fn measure(image: &Image) -> Result<Self, Error> {
        let last = image.generations.len();
        let chosen = AGES.iter().copied().filter(|age| *age < last).chain([last]);
        let mut ages = Vec::new();
        for generation in chosen {
            ages.push(Restores::measure(image, vec![generation], CONTAINERS).await?);
        }
        let lookups: Vec<f64> = ages.iter().map(|restores| restores.base().lookups()).collect();
        let matched = nearest(&lookups);
        let mut streams = Vec::new();
        for count in STREAMS {
            let middle = ages.get(matched).map_or(1, |restores| restores.generations[0]);
            let first = middle.saturating_sub(count / 2).min(last.saturating_sub(count)) + 1;
            let generations = (first..=last).cycle().take(count).collect();
            streams.push(Restores::measure_matched(image, generations).await?);
        }
        Ok(Self { ages, matched, streams })
    }

    /// The restore that takes as many look-ups as the paper's, without an SSD.
    pub(super) fn base(&self) -> Cost {
        self.ages.get(self.matched).map(Restores::base).unwrap_or_default()
    }

    /// The disks' time for each request of the index that the fingerprint cache saves at that age, and for each of the others, in
    /// milliseconds.
    pub(super) fn milliseconds(&self) -> [f64; 2] {
        let Some([base, cached]) = self.ages.get(self.matched).and_then(|r| r.costs.first_chunk()) else {
            return [0.0; 2];
        };
        let (saved, rest) = (base.disk_seconds() - cached.disk_seconds(), cached.disk_seconds());
        let requests = |cost: &Cost, count: u64| cost.per_mebibyte(count).max(f64::MIN_POSITIVE);
        [1e3 * saved / requests(base, base.requests.index()), 1e3 * rest / requests(cached, cached.requests.all())]
    }

    /// One restore at that age, and several.
    fn at_age(&self) -> impl Iterator<Item = &Restores> {
        self.ages.get(self.matched).into_iter().chain(&self.streams)
    }

    /// What the fingerprint cache gains at that age if the disks are the bound, in percent of the speed.
    pub(super) fn gains(&self) -> Vec<f64> {
        self.at_age().map(Restores::gain_if_bound).collect()
    }

    /// The shares of the index by age, in percent of the requests.
    pub(super) fn index_percents(&self) -> Vec<f64> {
        self.ages.iter().map(|restores| restores.base().requests.index_share() * 100.0).collect()
    }

    /// The generation on which the claim is judged.
    pub(super) fn label(&self) -> String {
        self.ages.get(self.matched).map(Restores::label).unwrap_or_default()
    }

    /// The gains of the fingerprint cache at that age, as they were measured.
    pub(super) fn told(&self) -> Vec<String> {
        self.at_age()
            .map(|restores| {
                let count = restores.generations.len();
                format!("{:+.0} % ({count} at once, disks {:.0} % busy)", restores.gain(), restores.base().busy * 100.0)
            })
            .collect()
    }

    pub(super) fn table(&self) -> Table {
        let mut columns = vec![
            "generations",
            "containers in RAM",
            "store",
            "MiB/s",
            "disks busy",
            "disk time a MiB, ms",
            "requests a MiB",
        ];
        columns.extend(Kind::ALL.iter().map(|kind| kind.name()));
        columns.extend(["share of the index", "short fingerprints a MiB"]);
        let mut table = Table::new("Sequential restores", &columns);
        for restores in self.ages.iter().chain(&self.streams) {
            for (name, cost) in NAMES.iter().zip(&restores.costs) {
                let mut row = vec![
                    restores.label(),
                    restores.containers.to_string(),
                    (*name).to_owned(),
                    format!("{:.1}", cost.speed()),
                ];
                row.push(format!("{:.0} %", cost.busy * 100.0));
                row.push(format!("{:.0}", cost.disk_seconds() * 1e3));
                row.push(format!("{:.2}", cost.per_mebibyte(cost.requests.all())));
                row.extend(cost.requests.0.iter().map(|count| format!("{:.2}", cost.per_mebibyte(*count))));
                row.push(format!("{:.0} %", cost.requests.index_share() * 100.0));
                row.push(format!("{:.2}", cost.per_mebibyte(cost.table_reads)));
                table.rows.push(row);
            }
        }
        table
    }

    pub(super) fn charts(&self) -> Vec<Chart> {
        let all: Vec<&Restores> = self.ages.iter().chain(&self.streams).collect();
        let groups: Vec<String> = all.iter().map(|restores| restores.label()).collect();
        let bars = NAMES.iter().enumerate().map(|(at, name)| {
            ((*name).to_owned(), all.iter().map(|restores| restores.costs.get(at).map(Cost::speed)).collect())
        });
        let percents = |of: &dyn Fn(&Restores) -> f64| all.iter().map(|restores| Some(of(restores))).collect();
        vec![
            Chart::Bars(Bars {
                title: "Speed of restores, by generation".into(),
                y_label: "MiB/s".into(),
                log_y: false,
                groups: groups.clone(),
                bars: bars.collect(),
            }),
            Chart::Bars(Bars {
                title: "The index in restores, by generation".into(),
                y_label: "%".into(),
                log_y: false,
                groups,
                bars: vec![
                    ("share of the requests".into(), percents(&|r| r.base().requests.index_share() * 100.0)),
                    ("gain of the fingerprint cache".into(), percents(&Restores::gain)),
                ],
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_is_judged_where_a_restore_takes_one_look_up_for_a_mebibyte() {
        assert_eq!(nearest(&[0.2, 0.7, 1.3, 9.0]), 2);
        assert_eq!((nearest(&[5.0]), nearest(&[])), (0, 0));
    }
}
