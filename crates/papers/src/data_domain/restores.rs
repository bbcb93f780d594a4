//! D2: what the fingerprint index costs in sequential restores and in random reads, and what short fingerprints on the SSD
//! save.

use super::Work;
use super::bed::{Design, Image, Kind, Requests, System, check};
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
/// The numbers of restores at the same time.
const STREAMS: [usize; 3] = [1, 4, 8];
/// The containers whose fingerprints RAM holds, and the regions in RAM, for each restore.
const CONTAINERS_A_STREAM: usize = 2;
const REGION_BYTES_A_STREAM: u64 = 1 << 20;
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
}

pub(super) struct Restored {
    /// Costs by number of streams, then by design.
    costs: Vec<Vec<Cost>>,
    /// The restore of the first generation that is kept, by one stream without an SSD.
    oldest: Cost,
}

fn designs(streams: usize) -> [Design; 4] {
    let ram = |design: Design| {
        let settings = Settings {
            locality_containers: CONTAINERS_A_STREAM * streams,
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
    let begun = system.clock.now();
    let restores = generations.iter().map(async |generation| {
        let snapshot = system.snapshot(*generation).await?;
        for offset in (0..snapshot.size_bytes()).step_by(READ_BYTES as usize) {
            let read = snapshot.read_range(offset, READ_BYTES as usize).await.map_err(|e| failed(&e))?;
            let chunk = (offset / CHUNK_BYTES) as usize;
            check(&read[..CHUNK_BYTES as usize], &image.generations[generation - 1][chunk..=chunk])?;
        }
        Ok::<_, Error>(snapshot.size_bytes())
    });
    let bytes: u64 = try_join_all(restores).await?.into_iter().sum();
    Ok(Cost {
        mebibytes: bytes as f64 / f64::from(1 << 20),
        seconds: (system.clock.now() - begun).as_secs_f64(),
        requests: Requests::of(&system.take()),
        table_reads: system.table_reads(),
    })
}

impl Restored {
    pub(super) async fn measure(image: &Image, work: &Work) -> Result<Self, Error> {
        let last = image.generations.len();
        let kept = work.scale().retained.min(last);
        let mut costs = Vec::new();
        for streams in STREAMS {
            let generations: Vec<usize> = (0..streams.min(kept)).map(|back| last - back).collect();
            let mut of_streams = Vec::new();
            for design in designs(streams) {
                of_streams.push(restore(image, &design, &generations).await?);
            }
            costs.push(of_streams);
        }
        let [paper, ..] = designs(1);
        let oldest = restore(image, &paper, &[last - kept + 1]).await?;
        Ok(Self { costs, oldest })
    }

    /// The restore of the last generation by one stream, without an SSD.
    fn base(&self) -> Cost {
        self.costs.first().and_then(|costs| costs.first()).copied().unwrap_or_default()
    }

    /// What the fingerprint cache gains, in percent of the speed, by number of streams.
    fn gains(&self) -> Vec<f64> {
        self.costs.iter().map(|costs| percent_more(costs[1].speed(), costs[0].speed())).collect()
    }

    fn table(&self) -> Table {
        let mut columns = vec!["restores at once", "store", "MiB/s", "requests a MiB"];
        columns.extend(Kind::ALL.iter().map(|kind| kind.name()));
        columns.extend(["share of the index", "reads of short fingerprints a MiB"]);
        let mut table = Table::new("Sequential restores", &columns);
        let row = |streams: String, name: &str, cost: &Cost| {
            let mut row = vec![streams, name.to_owned(), format!("{:.1}", cost.speed())];
            row.push(format!("{:.2}", cost.per_mebibyte(cost.requests.all())));
            row.extend(cost.requests.0.iter().map(|count| format!("{:.2}", cost.per_mebibyte(*count))));
            row.push(format!("{:.0} %", cost.requests.index_share() * 100.0));
            row.push(format!("{:.2}", cost.per_mebibyte(cost.table_reads)));
            row
        };
        for (streams, costs) in STREAMS.iter().zip(&self.costs) {
            table.rows.extend(NAMES.iter().zip(costs).map(|(name, cost)| row(streams.to_string(), name, cost)));
        }
        table.rows.push(row("1, of the oldest generation".into(), NAMES[0], &self.oldest));
        table
    }

    fn chart(&self) -> Chart {
        let bars = NAMES.iter().enumerate().map(|(at, name)| {
            ((*name).to_owned(), self.costs.iter().map(|costs| costs.get(at).map(Cost::speed)).collect())
        });
        Chart::Bars(Bars {
            title: "Speed of restores".into(),
            y_label: "MiB/s".into(),
            log_y: false,
            groups: STREAMS.iter().map(|streams| format!("{streams} at once")).collect(),
            bars: bars.collect(),
        })
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
            "The last generations are restored at the same time, each with reads of {} one after the other. RAM has the fingerprints \
             of {CONTAINERS_A_STREAM} containers and {} of regions for each restore. A look-up that RAM does not answer reads \
             both levels of the index (with the cache: a page of the SSD), and the metadata of the container, which then answers \
             for the chunks that follow. Space is that of {} contents in {} of containers; pages of hash tables are 70 % full. \
             Fingerprints are drawn for a store of {} contents, of which the pages of {} were looked at. A collision costs a read \
             of the disk: the full fingerprint decides.",
            Size(READ_BYTES),
            Size(REGION_BYTES_A_STREAM),
            space.contents,
            Size(image.stats.stored_bytes),
            drawn.contents,
            drawn.sampled,
        ),
        charts: vec![restored.chart()],
        tables: vec![restored.table(), spaces, collisions],
        verdicts: vec![verdict(&space, restored, drawn, random)],
    }
}

fn verdict(space: &Space, restored: &Restored, drawn: &Drawn, random: Requests) -> Verdict {
    let (sequential, gains) = (restored.base().requests.index_share(), restored.gains());
    let parts = Parts {
        sequential,
        random: random.index_share(),
        full: space.full,
        short: space.short,
        collisions: drawn.own_percent(),
        gains: &gains,
    };
    let found = format!(
        "index: {:.0} % of the requests of a restore ({:.1} of {:.1} for a MiB), {:.0} % of those of random reads; {:.2} % of the \
         physical space on the disk, {:.2} % with four bytes on the SSD ({:.2} % in our store), with collisions of {:.4} % of \
         {} contents; restores {} with 1, 4 and 8 at once",
        parts.sequential * 100.0,
        restored.base().per_mebibyte(restored.base().requests.index()),
        restored.base().per_mebibyte(restored.base().requests.all()),
        parts.random * 100.0,
        parts.full,
        parts.short,
        space.own,
        parts.collisions,
        drawn.contents,
        percents(&gains),
    );
    let judged = parts.judge();
    let lacking: Vec<_> = judged
        .iter()
        .filter(|(_, holds)| *holds != Holds::Holds)
        .map(|(name, holds)| format!("{name}: {}", holds.words()))
        .collect();
    let why = format!(
        "parts outside a quarter of the paper's figures: {}. A restore here takes {:.2} look-ups a MiB, and {:.2} requests for \
         data; the paper counts one look-up and about six requests without the index",
        lacking.join("; "),
        restored.base().per_mebibyte(restored.base().requests.index()) / 2.0,
        restored.base().per_mebibyte(restored.base().requests.0[Kind::Data as usize]),
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
