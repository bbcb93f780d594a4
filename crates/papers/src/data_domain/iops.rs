//! D3: random requests a second without an SSD, with metadata on it, with data, and with the changes of the software.

use super::Work;
use super::bed::{Design, Image, Kind, Object, Requests, System, wrong};
use super::failed;
use crate::report::{Band, Bars, Chart, Holds, Section, Table, Verdict};
use crate::store::bed::{CHUNK_BYTES, Draws, bytes_of};
use futures_util::future::try_join_all;
use hashbrown::HashSet;
use nitro_console::error::Error;
use nitro_cos::{Fpi, Settings, SsdOptions};
use nitro_port::Clock;
use nitro_testkit::VirtualTime;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// The paper's ratios: metadata on the SSD to no SSD, data too to that, and the changes of the software to that.
const PAPER: [f64; 3] = [5.7, 1.7, 2.7];
/// Clients, with a request each.
pub(super) const CLIENTS: u64 = 64;
/// Percent of the requests that are writes.
pub(super) const WRITE_PERCENT: u64 = 30;
/// One in this number of writes has a content that an image has elsewhere.
const COPY_PART: u64 = 6;
/// RAM that a store counts for a recipe block.
pub(super) const BLOCK_RAM_BYTES: u64 = 24 << 10;
/// The containers whose fingerprints RAM holds.
const CONTAINERS_IN_RAM: usize = 8;
/// A recipe block has at least this number of chunks.
pub(super) const CHUNKS_A_BLOCK: usize = 256;
/// Contents of writes are numbered from here on.
const NEW_CONTENTS: u64 = 1 << 40;
/// How far the borders of chunks are from those of clients' blocks where chunks are not fixed by them.
const SHIFT_BYTES: u64 = CHUNK_BYTES / 2;
/// Shares of the images' data that the data cache holds, in percent.
const FITTING: [u64; 3] = [25, 50, 100];

/// The changes of the software, each of which may be made.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    /// Patterns are detected, so that nothing is read ahead at random.
    detection: bool,
    parallel: bool,
    no_metadata: bool,
    no_dedup: bool,
    delayed: bool,
    /// Chunks have the borders of clients' blocks.
    fixed: bool,
}

/// A change: its name, and how it is made.
type Change = (&'static str, fn(&mut Changes));

const CHANGES: [Change; 6] = [
    ("no prefetch at random", |changes| changes.detection = true),
    ("parallel look-ups", |changes| changes.parallel = true),
    ("no container metadata", |changes| changes.no_metadata = true),
    ("no dedup of small writes", |changes| changes.no_dedup = true),
    ("delayed recipes (FMD)", |changes| changes.delayed = true),
    ("fixed-size chunks", |changes| changes.fixed = true),
];

impl Changes {
    fn all() -> Self {
        let mut all = Self::default();
        CHANGES.iter().for_each(|(_, make)| make(&mut all));
        all
    }

    fn applied(&self, design: Design) -> Design {
        let settings = design.settings;
        let settings = Settings {
            nsio_prefetch_bytes: if self.detection { 0 } else { settings.nsio_prefetch_bytes },
            nsio_parallel: self.parallel,
            nsio_metadata: !self.no_metadata,
            nsio_dedup: !self.no_dedup,
            delayed_recipes: self.delayed,
            ..settings
        };
        Design { settings, ..design }
    }
}

/// A system under load.
struct Run {
    name: String,
    iops: f64,
    /// Requests of the disk for a client's request.
    requests: [f64; Kind::ALL.len()],
    /// Pages of the SSD that were read for one.
    ssd_pages: f64,
}

impl Run {
    fn disk(&self) -> f64 {
        self.requests.iter().sum()
    }
}

/// Requests that are in progress, by clients.
pub(super) struct Load<'a> {
    image: &'a Image,
    volume: Object,
    shift: u64,
    /// Requests that were begun.
    begun: Cell<u64>,
    /// Chunks that were written.
    touched: RefCell<HashSet<usize>>,
}

impl<'a> Load<'a> {
    /// Requests to a system's images. Chunks are `shift` bytes away from the borders of clients' blocks.
    pub(super) async fn new(image: &'a Image, system: &System, shift: u64) -> Result<Self, Error> {
        let volume = system.volume().await?;
        Ok(Self { image, volume, shift, begun: Cell::new(0), touched: RefCell::default() })
    }

    async fn read(&self, chunk: usize) -> Result<(), Error> {
        let offset = chunk as u64 * CHUNK_BYTES + self.shift;
        let read = self.volume.read_range(offset, CHUNK_BYTES as usize).await.map_err(|e| failed(&e))?;
        let chunks = chunk..chunk + if self.shift > 0 { 2 } else { 1 };
        if chunks.clone().any(|chunk| self.touched.borrow().contains(&chunk)) {
            return Ok(());
        }
        let expected = bytes_of(&self.image.contents[chunks]);
        let expected = &expected[self.shift as usize..][..read.len()];
        if read != expected {
            return Err(wrong());
        }
        Ok(())
    }

    async fn write(&self, chunk: usize, content: u64) -> Result<(), Error> {
        self.touched.borrow_mut().extend([chunk, chunk + 1]);
        let offset = chunk as u64 * CHUNK_BYTES + self.shift;
        self.volume.write_range(offset, bytes_of(&[content])).await.map_err(|e| failed(&e))
    }

    /// A client: it makes requests as long as another one may begin after this number of them. `done` gets the time that
    /// each took, and whether it was a read.
    pub(super) async fn client(
        &self,
        (number, clock): (u64, &VirtualTime),
        may_begin: impl Fn(u64) -> bool,
        done: impl Fn(Duration, bool),
    ) -> Result<(), Error> {
        let mut draws = Draws::new(number);
        // The last chunk has no neighbour.
        let chunks = self.image.contents.len() as u64 - 1;
        loop {
            let (begun, since) = (self.begun.get(), clock.now());
            if !may_begin(begun) {
                return Ok(());
            }
            self.begun.set(begun + 1);
            let chunk = draws.below(chunks) as usize;
            let is_read = draws.below(100) >= WRITE_PERCENT;
            if is_read {
                self.read(chunk).await?;
            } else if draws.below(COPY_PART) == 0 {
                self.write(chunk, self.image.contents[draws.below(chunks) as usize]).await?;
            } else {
                self.write(chunk, NEW_CONTENTS + begun).await?;
            }
            done(clock.now() - since, is_read);
        }
    }

    /// Reads each recipe block and, if `data`, each content, at random.
    pub(super) async fn warm(&self, data: bool) -> Result<(), Error> {
        let contents = self.image.contents.len();
        let whole = if data { contents / self.image.images } else { 0 };
        let mut order: Vec<usize> = (0..whole).chain((whole..contents - 1).step_by(CHUNKS_A_BLOCK)).collect();
        let mut draws = Draws::new(0xD3);
        for at in (1..order.len()).rev() {
            order.swap(at, draws.below(at as u64 + 1) as usize);
        }
        let next = Cell::new(0);
        try_join_all((0..CLIENTS).map(async |_| {
            while let Some(chunk) = order.get(next.replace(next.get() + 1)) {
                self.read(*chunk).await?;
            }
            Ok::<_, Error>(())
        }))
        .await
        .map(|_| ())
    }
}

async fn run(image: &Image, work: &Work, name: &str, design: Design, changes: Changes) -> Result<Run, Error> {
    let system = System::open(image, &changes.applied(design)).await?;
    let shift = if changes.fixed { 0 } else { SHIFT_BYTES };
    let load = Load::new(image, &system, shift).await?;
    if let Some(ssd) = design.ssd {
        load.warm(ssd.data).await?;
    }
    system.take();
    let (begun, pages) = (system.clock.now(), system.ssd_pages_read());
    let client = |number| load.client((number, &system.clock), |begun| begun < work.operations, |_, _| ());
    try_join_all((0..CLIENTS).map(client)).await?;
    let seconds = (system.clock.now() - begun).as_secs_f64();
    let each = |count: u64| count as f64 / work.operations as f64;
    let requests = Requests::of(&system.take()).0.map(each);
    Ok(Run {
        name: name.to_owned(),
        iops: work.operations as f64 / seconds,
        requests,
        ssd_pages: each(system.ssd_pages_read() - pages),
    })
}

/// With as much RAM as the requests in progress need: a recipe block for each client, and the fingerprints of a few
/// containers.
pub(super) fn with_clients(design: Design) -> Design {
    let settings = Settings {
        recipe_cache_bytes: (CLIENTS + 1) * BLOCK_RAM_BYTES,
        locality_containers: CONTAINERS_IN_RAM,
        ..design.settings
    };
    Design { settings, ..design }
}

/// What is on the SSD: recipes, and data if `data`.
pub(super) fn on_ssd(data: bool) -> SsdOptions {
    SsdOptions { data, fpi: Fpi::Off, ..SsdOptions::default() }
}

pub(super) async fn section(image: &Image, work: &Work) -> Result<Section, Error> {
    let none = Changes::default();
    let bytes = image.ssd_bytes();
    let paper = with_clients(Design::paper());
    let metadata = Design { short: true, ..paper }.with_ssd(on_ssd(false), bytes);
    let data = metadata.with_ssd(on_ssd(true), bytes);
    let mut runs = vec![
        run(image, work, "no SSD", paper, none).await?,
        run(image, work, "metadata on SSD", metadata, none).await?,
        run(image, work, "data on SSD, too", data, none).await?,
        run(image, work, "and all changes of the software", data, Changes::all()).await?,
        run(image, work, "these without data on SSD", metadata, Changes::all()).await?,
    ];
    let own = Changes::all();
    let ours = with_clients(Design::own());
    let with_dedup = Changes { no_dedup: false, ..own };
    runs.push(run(image, work, "our store, no SSD", ours, with_dedup).await?);
    runs.push(run(image, work, "our store, with SSD", ours.with_ssd(SsdOptions::default(), bytes), with_dedup).await?);
    let mut alone = Vec::new();
    for (name, make) in CHANGES {
        let mut changes = none;
        make(&mut changes);
        let without_ssd = run(image, work, name, paper, changes).await?;
        let with_metadata = run(image, work, name, metadata, changes).await?;
        alone.push([without_ssd, with_metadata, run(image, work, name, data, changes).await?]);
    }
    // Only where chunks are whole blocks of clients, a write may have the content of another chunk.
    let fixed = Changes { fixed: true, ..none };
    let no_dedup = Changes { no_dedup: true, ..fixed };
    let mut pairs = Vec::new();
    for design in [paper, metadata, data] {
        let name = "no dedup of small writes, with fixed-size chunks";
        pairs.push([run(image, work, name, design, fixed).await?, run(image, work, name, design, no_dedup).await?]);
    }
    let mut fitting = Vec::new();
    for percent in FITTING {
        let smaller = metadata.with_ssd(on_ssd(true), bytes * percent / 100);
        let name = format!("data cache of {percent} % of the data");
        let before = run(image, work, &name, smaller, none).await?;
        fitting.push([before, run(image, work, &name, smaller, Changes::all()).await?]);
    }
    Ok(shown(&runs, &alone, &pairs, &fitting, work))
}

fn shown(runs: &[Run], alone: &[[Run; 3]], pairs: &[[Run; 2]], fitting: &[[Run; 2]], work: &Work) -> Section {
    let [none, metadata, data, ..] = runs else { return Section::default() };
    let mut columns = vec!["system", "IOPS", "relative to no SSD", "relative to the row above", "requests of the disk"];
    columns.extend(Kind::ALL.iter().map(|kind| kind.name()));
    columns.push("pages of the SSD read");
    let mut steps = Table::new("Random requests of 8 KiB a second, and what each asks of the devices", &columns);
    let mut above = none.iops;
    for run in runs {
        let mut row = vec![run.name.clone(), format!("{:.0}", run.iops), format!("{:.2}", run.iops / none.iops)];
        row.extend([format!("{:.2}", run.iops / above), format!("{:.2}", run.disk())]);
        row.extend(run.requests.iter().map(|each| format!("{each:.2}")));
        row.push(format!("{:.2}", run.ssd_pages));
        steps.rows.push(row);
        above = run.iops;
    }
    let mut switches = Table::new(
        "Each change of the software alone: IOPS relative to the same system without it",
        &["change", "no SSD", "metadata on SSD", "data on SSD, too", "requests of the disk there"],
    );
    for of_change in alone {
        let ratio = |at: usize, base: &Run| format!("{:.2}", of_change[at].iops / base.iops);
        let name = of_change[0].name.clone();
        let requests = format!("{:.2} instead of {:.2}", of_change[2].disk(), data.disk());
        switches.rows.push(vec![name, ratio(0, none), ratio(1, metadata), ratio(2, data), requests]);
    }
    if let [first, .., last] = pairs {
        let mut row = vec![first[0].name.clone()];
        row.extend(pairs.iter().map(|[with, without]| format!("{:.2}", without.iops / with.iops)));
        row.push(format!("{:.2} instead of {:.2}", last[1].disk(), last[0].disk()));
        switches.rows.push(row);
    }
    let mut sizes = Table::new(
        "Data caches that hold a part of the images' data",
        &[
            "data cache",
            "IOPS relative to metadata on SSD",
            "with all changes, relative to that",
            "requests of the disk before and after the changes",
        ],
    );
    for [before, after] in fitting {
        sizes.rows.push(vec![
            before.name.clone(),
            format!("{:.2}", before.iops / metadata.iops),
            format!("{:.2}", after.iops / before.iops),
            format!("{:.2} and {:.2}", before.disk(), after.disk()),
        ]);
    }
    let chart = Chart::Bars(Bars {
        title: "Random requests of 8 KiB a second".into(),
        y_label: "IOPS".into(),
        log_y: true,
        groups: runs.iter().map(|run| run.name.clone()).collect(),
        bars: vec![("IOPS".into(), runs.iter().map(|run| Some(run.iops)).collect())],
    });
    let each = Chart::Bars(Bars {
        title: "Each change of the software alone".into(),
        y_label: "IOPS relative to the same system without it".into(),
        log_y: false,
        groups: alone.iter().map(|of_change| of_change[0].name.clone()).collect(),
        bars: [("no SSD", none), ("metadata on SSD", metadata), ("data on SSD, too", data)]
            .into_iter()
            .enumerate()
            .map(|(at, (name, base))| (name.to_owned(), alone.iter().map(|c| Some(c[at].iops / base.iops)).collect()))
            .collect(),
    });
    Section {
        id: "data-domain-iops",
        title: "IOPS of random requests".into(),
        text: format!(
            "{CLIENTS} clients make {} requests of 8 KiB at random places of the images, {WRITE_PERCENT} % of which are writes; \
             one in {COPY_PART} of these has a content that an image has elsewhere. The paper does not say what its load was. \
             With an SSD, everything was read once before; its share for data holds the data of the images (\"sufficient to instantly \
             access\" images). Before the changes of the software, each read is followed by a read of the next 64 KiB (the paper: \
             \"simple prefetch\"; it gives no size), look-ups are made one after the other, a look-up reads the metadata of the \
             container, small writes are deduplicated, each write updates the recipe, and the borders of chunks lie in the \
             middle of clients' blocks, as those of content-defined chunks do: a request touches two chunks. Container \
             and journal writes are part of the times; a client does not flush. A change alone may cost more than it saves: the \
             metadata that one look-up reads answer those of the neighbouring chunks, but only if they come later.",
            work.operations
        ),
        charts: vec![chart, each],
        tables: vec![steps, switches, sizes],
        verdicts: vec![verdict(runs, fitting)],
    }
}

fn verdict(runs: &[Run], fitting: &[[Run; 2]]) -> Verdict {
    let [none, metadata, data, all, ..] = runs else {
        return Verdict::not_judged("D3", "not all systems were measured");
    };
    let ratios = [metadata.iops / none.iops, data.iops / metadata.iops, all.iops / data.iops];
    let found = format!(
        "{:.0} IOPS without an SSD; × {:.1} with metadata on it, × {:.1} more with data, × {:.1} more with the changes of the software \
         ({:.0} IOPS); {:.1}, {:.1}, {:.1} and {:.2} requests of the disk for each",
        none.iops,
        ratios[0],
        ratios[1],
        ratios[2],
        all.iops,
        none.disk(),
        metadata.disk(),
        data.disk(),
        all.disk(),
    );
    let partial: Vec<_> = fitting
        .iter()
        .map(|[before, after]| {
            format!(
                "{}: × {:.1} and × {:.1}, {:.1} requests of the disk",
                before.name,
                before.iops / metadata.iops,
                after.iops / before.iops,
                before.disk()
            )
        })
        .collect();
    let why = format!(
        "metadata on the SSD saves {:.0} % of the disk's requests, which is × {:.1} in requests; the paper's ratio would take {:.0} %. \
         With data on it, {:.2} requests of the disk remain for each request, and the SSD reads {:.1} pages for each before the changes \
         and {:.1} after them ({:.0} and {:.0} a second). The size of the data cache decides how the gain is divided between data and \
         software ({}). The processor takes no time here, and the paper does not give its load",
        100.0 * (1.0 - metadata.disk() / none.disk()),
        none.disk() / metadata.disk(),
        100.0 * (1.0 - 1.0 / PAPER[0]),
        data.disk(),
        data.ssd_pages,
        all.ssd_pages,
        data.ssd_pages * data.iops,
        all.ssd_pages * all.iops,
        partial.join("; "),
    );
    Verdict::new("D3", found, judge(ratios)).because(&why)
}

/// D3: IOPS with metadata on the SSD to those without an SSD, with data to that, and with the changes of the software to that.
fn judge(ratios: [f64; 3]) -> Holds {
    let near = PAPER.iter().zip(ratios).all(|(paper, ratio)| Band::at(*paper).has(ratio));
    Holds::of(near, ratios.iter().all(|ratio| *ratio > 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        assert_eq!(judge([5.7, 1.7, 2.7]), Holds::Holds);
        assert_eq!(judge([3.0, 6.0, 2.7]), Holds::InDirection);
        assert_eq!(judge([5.7, 1.7, 0.9]), Holds::DoesNot);
    }

    #[test]
    fn each_change_changes_one_thing_and_all_of_them_everything() {
        let before = Design::paper();
        let settings = |changes: Changes| changes.applied(before).settings;
        let none = settings(Changes::default());
        assert_eq!(none, before.settings);
        let all = settings(Changes::all());
        let expected =
            Settings { nsio_prefetch_bytes: 0, nsio_parallel: true, nsio_metadata: false, ..before.settings };
        assert_eq!(all, Settings { nsio_dedup: false, delayed_recipes: true, ..expected });
        for (name, make) in CHANGES {
            let mut changes = Changes::default();
            make(&mut changes);
            assert!(changes.fixed != (settings(changes) != none), "{name}");
        }
    }
}
