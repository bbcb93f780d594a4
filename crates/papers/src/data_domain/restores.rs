//! D2: what the fingerprint index costs in sequential restores and in random reads, and what short fingerprints on the SSD
//! save.

use super::bed::{Design, Image, Kind, Requests, SPINDLES, System, check};
use super::collisions::Drawn;
use super::failed;
use super::index::{full_bytes, table_bytes};
use super::reads;
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict, judge_up_to, percent_more, percents};
use crate::store::bed::CHUNK_BYTES;
use futures_util::future::try_join_all;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_cos::Settings;
use nitro_port::Clock;

/// Bytes of a restore's read.
const READ_BYTES: u64 = 256 << 10;
/// The generations that are restored, as far as there are as many; the last one is, too.
const AGES: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];
/// The numbers of restores at the same time, beside one.
const STREAMS: [usize; 2] = [8, 32];
/// Restores at the same time read this number of volumes together.
const VOLUMES: u64 = 4;
/// The containers whose fingerprints RAM holds for one restore. For several, RAM has one of these numbers for each.
const CONTAINERS: usize = 8;
const CONTAINERS_A_STREAM: [f64; 4] = [0.5, 1.0, 1.5, 2.0];
/// Bytes of regions in RAM for each restore.
const REGION_BYTES_A_STREAM: u64 = 1 << 20;
/// Look-ups of the index for a MiB, by the paper ("only one FPI lookup for 1 MB").
const LOOKUPS: f64 = 1.0;
/// The paper's figures: the share of index requests in a restore, the index and the short fingerprints in percent of the
/// physical space, the bound of collisions, and the gain of a restore, in percent.
const INDEX_SHARE: f64 = 0.25;
const FULL_PERCENT: f64 = 1.5;
const SHORT_PERCENT: f64 = 0.4;
const COLLISIONS_PERCENT: f64 = 0.01;
const RESTORE_PERCENT: f64 = 32.0;

/// The designs that are compared.
const NAMES: [&str; 4] =
    ["the paper's store, no SSD", "with the fingerprint cache", "our store, no SSD", "our store, reading ahead"];

/// Restores at the same time.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    /// Bytes of all restores, in MiB.
    mebibytes: f64,
    seconds: f64,
    /// The share of the time for which a disk is busy, on average.
    busy: f64,
    requests: Requests,
    table_reads: u64,
}

impl Cost {
    fn per_mebibyte(&self, count: u64) -> f64 {
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
    fn lookups(&self) -> f64 {
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
    fn base(&self) -> Cost {
        self.ages.get(self.matched).map(Restores::base).unwrap_or_default()
    }

    /// The disks' time for each request of the index that the fingerprint cache saves at that age, and for each of the others, in
    /// milliseconds.
    fn milliseconds(&self) -> [f64; 2] {
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
    fn gains(&self) -> Vec<f64> {
        self.at_age().map(Restores::gain_if_bound).collect()
    }

    fn table(&self) -> Table {
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

    fn charts(&self) -> Vec<Chart> {
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

/// Space of indexes, in percent of the physical space.
struct Space {
    contents: u64,
    full: f64,
    short: f64,
    own: f64,
}

impl Space {
    fn of(image: &Image) -> Self {
        let (contents, physical) = (image.stats.chunks, image.stats.stored_bytes as f64);
        let percent = |bytes: u64| 100.0 * bytes as f64 / physical;
        // Pages of our own short fingerprints are as long as their entries, of six bytes.
        Self {
            contents,
            full: percent(full_bytes(contents)),
            short: percent(table_bytes(contents)),
            own: percent(contents * 6),
        }
    }
}

pub(super) fn section(image: &Image, restored: &Restored, drawn: &Drawn, random: Requests) -> Section {
    let space = Space::of(image);
    let mut spaces = Table::new("Space of the fingerprint index", &["index", "percent of the physical space", "paper"]);
    spaces.rows = vec![
        vec![
            "two levels on the disk: full fingerprints".into(),
            format!("{:.2}", space.full),
            format!("{FULL_PERCENT}"),
        ],
        vec!["on the SSD: four bytes and a place".into(), format!("{:.2}", space.short), format!("{SHORT_PERCENT}")],
        vec!["our store's SSD: three bytes in a page, and a container".into(), format!("{:.2}", space.own), "–".into()],
    ];
    let title = format!("Collisions of short fingerprints among {} contents", drawn.contents);
    let mut collisions =
        Table::new(title, &["short fingerprint", "percent of the contents, drawn", "by the birthday argument"]);
    let percent = |value: f64| format!("{value:.6}");
    collisions.rows = vec![
        vec!["our store: 24 bits in a page".into(), percent(drawn.own_percent()), percent(drawn.law_percent(24))],
        vec!["four bytes in a page".into(), percent(drawn.paper_percent()), percent(drawn.law_percent(32))],
        vec!["four bytes without pages".into(), "–".into(), percent(drawn.alone_percent())],
    ];
    Section {
        id: "data-domain-index",
        title: "The fingerprint index in restores, and on the SSD".into(),
        text: format!(
            "Generations are restored, each with reads of {} one after the other. RAM has the fingerprints \
             of {CONTAINERS} containers, and {} of regions for each restore. A look-up that RAM does not answer reads \
             both levels of the index (with the cache: a page of the SSD), and the metadata of the container, which then answers \
             for the chunks that follow. How many look-ups a restore takes depends on the age of the generation; the paper \
             counts one for a MiB, so the claim is judged on the generation whose restore comes nearest to that, and on \
             several of it and its neighbours. The paper's gain is that \"on I/O bound configurations\": there, the speed follows from \
             the time for which a disk is busy for a MiB, so the gain is that in this time. Restores at the same time read a part of a generation each, from different places on, and RAM has as many containers that their \
             look-ups come nearest to that number, too. Space is that of {} contents in {} of containers; pages of hash tables are 70 % full. \
             Fingerprints are drawn for a store of {} contents, of which the pages of {} were looked at. A collision costs a read \
             of the disk: the full fingerprint decides.",
            Size(READ_BYTES),
            Size(REGION_BYTES_A_STREAM),
            space.contents,
            Size(image.stats.stored_bytes),
            drawn.contents,
            drawn.sampled,
        ),
        charts: restored.charts(),
        tables: vec![restored.table(), spaces, collisions],
        verdicts: vec![verdict(&space, restored, drawn, random)],
    }
}

fn verdict(space: &Space, restored: &Restored, drawn: &Drawn, random: Requests) -> Verdict {
    let (sequential, gains) = (restored.base().requests.index_share(), restored.gains());
    let told: Vec<_> = restored
        .at_age()
        .map(|restores| {
            let count = restores.generations.len();
            format!("{:+.0} % ({count} at once, disks {:.0} % busy)", restores.gain(), restores.base().busy * 100.0)
        })
        .collect();
    let parts = Parts {
        sequential,
        random: random.index_share(),
        full: space.full,
        short: space.short,
        collisions: drawn.own_percent(),
        gains: &gains,
    };
    let found = format!(
        "index: {:.0} % of the requests of a restore ({:.1} of {:.1} for a MiB, of generation {}), {:.0} % of those of random \
         reads; {:.2} % of the \
         physical space on the disk, {:.2} % with four bytes on the SSD ({:.2} % in our store), with collisions of {:.4} % of \
         {} contents; restores {}; if the disks are the bound {}",
        parts.sequential * 100.0,
        restored.base().per_mebibyte(restored.base().requests.index()),
        restored.base().per_mebibyte(restored.base().requests.all()),
        restored.ages.get(restored.matched).map(Restores::label).unwrap_or_default(),
        parts.random * 100.0,
        parts.full,
        parts.short,
        space.own,
        parts.collisions,
        drawn.contents,
        told.join(", "),
        percents(&gains),
    );
    let judged = parts.judge();
    let [saved, rest] = restored.milliseconds();
    let shares: Vec<f64> = restored.ages.iter().map(|r| r.base().requests.index_share() * 100.0).collect();
    let lacking: Vec<_> = judged
        .iter()
        .filter(|(_, holds)| *holds != Holds::Holds)
        .map(|(name, holds)| format!("{name}: {}", holds.words()))
        .collect();
    let why = format!(
        "parts outside a quarter of the paper's figures: {}. This restore takes {:.2} look-ups a MiB (the paper: {LOOKUPS}), and \
         {:.2} requests for other than the index (the paper: about 6); of all ages, the index has {:.0} to {:.0} % of the requests. Without \
         look-ups of the index, a restore saves {:.1} ms of the disks for each of their requests, and the others take {:.1} ms: arms leave \
         the data for the index, and come back. \
         A full entry of 28 bytes is {:.1} times as long as a short one of 12; the paper's is {:.1} times as long",
        lacking.join("; "),
        restored.base().lookups(),
        restored.base().per_mebibyte(restored.base().requests.all() - restored.base().requests.index()),
        shares.iter().copied().fold(f64::MAX, f64::min),
        shares.iter().copied().fold(0.0, f64::max),
        saved,
        rest,
        space.full / space.short,
        FULL_PERCENT / SHORT_PERCENT,
    );
    Verdict::new("D2", found, judged.iter().fold(Holds::Holds, |all, (_, holds)| all.and(*holds))).because(&why)
}

/// The figures of D2.
struct Parts<'a> {
    /// Shares of index requests.
    sequential: f64,
    random: f64,
    /// Percent of the physical space.
    full: f64,
    short: f64,
    /// Percent of the contents.
    collisions: f64,
    /// Percent of a restore's speed.
    gains: &'a [f64],
}

impl Parts<'_> {
    fn judge(&self) -> [(&'static str, Holds); 5] {
        let shares = Band::at(INDEX_SHARE).has(self.sequential) && Band::at(reads::INDEX_SHARE).has(self.random);
        let space = Band::at(FULL_PERCENT).has(self.full) && Band::at(SHORT_PERCENT).has(self.short);
        [
            ("shares of index requests", Holds::of(shares, 0.0 < self.sequential && self.sequential < self.random)),
            ("space", Holds::of(space, self.short < self.full)),
            ("collisions", Holds::of(self.collisions < COLLISIONS_PERCENT, false)),
            ("restores", judge_up_to(RESTORE_PERCENT, self.gains)),
            ("all were measured", if self.gains.is_empty() { Holds::NotJudged } else { Holds::Holds }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(parts: &Parts<'_>) -> Holds {
        parts.judge().iter().fold(Holds::Holds, |all, (_, holds)| all.and(*holds))
    }

    #[test]
    fn the_claim_is_judged_where_a_restore_takes_one_look_up_for_a_mebibyte() {
        assert_eq!(nearest(&[0.2, 0.7, 1.3, 9.0]), 2);
        assert_eq!((nearest(&[5.0]), nearest(&[])), (0, 0));
    }

    #[test]
    fn the_judge_can_fail() {
        let gains = [10.0, 30.0];
        let good = Parts { sequential: 0.25, random: 0.5, full: 1.4, short: 0.4, collisions: 0.004, gains: &gains };
        assert_eq!(judged(&good), Holds::Holds);
        assert_eq!(judged(&Parts { sequential: 0.1, ..good }), Holds::InDirection);
        assert_eq!(judged(&Parts { sequential: 0.6, ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { short: 0.2, ..good }), Holds::InDirection);
        assert_eq!(judged(&Parts { short: 2.0, ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { collisions: 0.02, ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { gains: &[5.0], ..good }), Holds::InDirection);
        assert_eq!(judged(&Parts { gains: &[-1.0, 32.0], ..good }), Holds::DoesNot);
        assert_eq!(judged(&Parts { gains: &[], ..good }), Holds::NotJudged);
    }
}
