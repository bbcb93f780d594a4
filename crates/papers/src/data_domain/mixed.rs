//! Backups and restores beside random requests, with and without shares of the disks' time, for D4.

use super::bed::{Design, Image, SPINDLES, System, check};
use super::iops::{BLOCK_RAM_BYTES, CHUNKS_A_BLOCK, CLIENTS, Load, WRITE_PERCENT, on_ssd, with_clients};
use super::restores::{CONTAINERS, READ_BYTES, REGION_BYTES_A_STREAM};
use super::{Work, failed};
use crate::load::mix as mix_of;
use crate::report::{Bars, Chart, Holds, Section, Table, Verdict};
use crate::store::bed::{CHUNK_BYTES, bytes_of};
use futures_util::future::{join, try_join_all, try_join3};
use nitro_console::error::Error;
use nitro_cos::Settings;
use nitro_port::Clock;
use nitro_shares::Policy;
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Restores and backups at the same time, each of a volume of its own.
const RESTORES: u64 = 8;
const BACKUPS: u64 = 8;
/// Bytes of a backup's write.
const WRITE_BYTES: u64 = 1 << 20;
/// One in this number of chunks of a backup is new.
const NEW_PART: u64 = 20;
/// Contents of backups are numbered from here on.
const BACKUP_CONTENTS: u64 = 1 << 50;
/// Measurements of each mix with streams, whose mean counts: streams that read the same begin at other times in each, and
/// follow each other through RAM more or less closely.
const RUNS: u64 = 2;
/// Streams begin within this time.
const BEGIN_WITHIN: Duration = Duration::from_secs(1);
/// The time before the measurement.
const LEAD: Duration = Duration::from_secs(3);
/// The share at which the paper measured, in percent.
const PAPER_PERCENT: u8 = 10;
/// The shares that are compared.
const SHARES: [u8; 4] = [5, PAPER_PERCENT, Policy::RANDOM_PERCENT, 40];
/// Random requests that have a share get at least this part of what that share of the disks' time does alone: less would
/// be no share. Alone, each disk chooses among several requests, and takes half of the time for each.
const FAIR: f64 = 0.25;

/// What is done at the same time.
#[derive(Debug, Clone, Copy)]
struct Mix {
    streams: bool,
    clients: bool,
    shares: Option<Policy>,
}

/// What was done in the time of a measurement.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    /// MiB a second of all backups, and of all restores.
    backups: f64,
    restores: f64,
    /// Random requests a second, and the time within which 99 % of the reads ended, in milliseconds.
    iops: f64,
    p99_ms: f64,
    /// The share of the time for which a disk is busy, on average.
    busy: f64,
    /// The share of what all requests cost that random ones had, by the scheduler's own account.
    charged: Option<f64>,
}

/// What is counted.
#[derive(Default)]
struct Counts {
    backup_bytes: Cell<u64>,
    restore_bytes: Cell<u64>,
    random: Cell<u64>,
    reads: RefCell<Vec<Duration>>,
}

/// A measurement in progress.
struct Bench<'a> {
    image: &'a Image,
    system: System,
    counts: Counts,
    begin: Duration,
    end: Duration,
}

impl Bench<'_> {
    fn counts_now(&self) -> bool {
        (self.begin..self.end).contains(&self.system.clock.now())
    }

    fn add(&self, to: &Cell<u64>, count: u64) {
        if self.counts_now() {
            to.set(to.get() + count);
        }
    }

    fn goes_on(&self) -> bool {
        self.system.clock.now() < self.end
    }

    /// Restores generations, one after the other.
    async fn restore(&self, number: u64) -> Result<(), Error> {
        let last = self.image.generations.len() as u64;
        for pass in 0.. {
            let generation = ((number + pass * RESTORES) % last + 1) as usize;
            let snapshot = self.system.snapshot(generation).await?;
            let contents = &self.image.generations[generation - 1];
            for offset in (0..snapshot.size_bytes()).step_by(READ_BYTES as usize) {
                if !self.goes_on() {
                    return Ok(());
                }
                let read = snapshot.read_range(offset, READ_BYTES as usize).await.map_err(|e| failed(&e))?;
                let chunk = (offset / CHUNK_BYTES) as usize;
                check(&read[..CHUNK_BYTES as usize], &contents[chunk..=chunk])?;
                self.add(&self.counts.restore_bytes, READ_BYTES);
            }
        }
        Ok(())
    }

    /// The content of a chunk of a backup: that of the last generation, or a new one.
    fn content(&self, (number, pass, chunk): (u64, u64, usize)) -> u64 {
        let new = BACKUP_CONTENTS + ((number << 20 | pass) << 24) + chunk as u64;
        let old = self.image.generations.last().and_then(|last| last.get(chunk)).copied().unwrap_or_default();
        if mix_of(new).is_multiple_of(NEW_PART) { new } else { old }
    }

    /// Backs up one volume again and again, each time with some changes.
    async fn back_up(&self, number: u64) -> Result<(), Error> {
        let (name, bytes) = (format!("backup {number}"), self.image.volume_bytes());
        let store = &self.system.store;
        store.create_volume(&name, bytes, Some(CHUNK_BYTES as u32), 0).await.map_err(|e| failed(&e))?;
        let volume = store.open_volume(&name).await.map_err(|e| failed(&e))?;
        for pass in 0.. {
            for offset in (0..bytes).step_by(WRITE_BYTES as usize) {
                if !self.goes_on() {
                    return Ok(());
                }
                let chunks = offset / CHUNK_BYTES..(offset + WRITE_BYTES).min(bytes) / CHUNK_BYTES;
                let contents: Vec<u64> = chunks.map(|chunk| self.content((number, pass, chunk as usize))).collect();
                volume.write_range(offset, bytes_of(&contents)).await.map_err(|e| failed(&e))?;
                self.add(&self.counts.backup_bytes, contents.len() as u64 * CHUNK_BYTES);
            }
            store.commit().await.map_err(|e| failed(&e))?;
        }
        Ok(())
    }

    /// Random requests of one client.
    async fn client(&self, load: &Load<'_>, number: u64) -> Result<(), Error> {
        let done = |took, is_read| {
            self.add(&self.counts.random, 1);
            if is_read && self.counts_now() {
                self.counts.reads.borrow_mut().push(took);
            }
        };
        load.client((number, &self.system.clock), |_| self.goes_on(), done).await
    }

    /// Random's share of all that was charged, if anything was.
    fn charged(&self) -> Option<f64> {
        let used = self.system.store.device().counters();
        let all = used.random_cost_us + used.stream_cost_us + used.background_cost_us;
        (all > 0).then(|| used.random_cost_us as f64 / all as f64)
    }
}

impl Done {
    /// The mean of several measurements.
    fn mean(all: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        Self {
            backups: mean(|done| done.backups),
            restores: mean(|done| done.restores),
            iops: mean(|done| done.iops),
            p99_ms: mean(|done| done.p99_ms),
            busy: mean(|done| done.busy),
            charged: all
                .iter()
                .all(|done| done.charged.is_some())
                .then(|| mean(|done| done.charged.unwrap_or_default())),
        }
    }
}

/// Measures a mix, several times if it has streams.
async fn runs(image: &Image, design: Design, mix: Mix, seconds: u64) -> Result<Done, Error> {
    let mut all = Vec::new();
    for number in 0..if mix.streams { RUNS } else { 1 } {
        all.push(run(image, design, mix, (seconds, number)).await?);
    }
    Ok(Done::mean(&all))
}

async fn run(image: &Image, design: Design, mix: Mix, (seconds, number): (u64, u64)) -> Result<Done, Error> {
    let system = System::open(image, &Design { shares: mix.shares, ..design }).await?;
    let load = Load::new(image, &system, 0).await?;
    if design.ssd.is_some() {
        load.warm(false).await?;
    }
    let begin = system.clock.now() + LEAD;
    let end = begin + Duration::from_secs(seconds);
    let bench = Bench { image, system, counts: Counts::default(), begin, end };
    let streams = |count: u64| 0..if mix.streams { count } else { 0 };
    let begins = async |stream: u64| {
        let within = BEGIN_WITHIN.as_micros() as u64;
        bench.system.clock.sleep(Duration::from_micros(mix_of(number << 32 | stream) % within)).await;
    };
    let restores = try_join_all(streams(RESTORES).map(async |stream| {
        begins(stream).await;
        bench.restore(stream).await
    }));
    let backups = try_join_all(streams(BACKUPS).map(async |stream| {
        begins(RESTORES + stream).await;
        bench.back_up(stream).await
    }));
    let clients = 0..if mix.clients { CLIENTS } else { 0 };
    let clients = try_join_all(clients.map(|client| bench.client(&load, number * CLIENTS + client)));
    let busy = async {
        bench.system.clock.sleep(LEAD).await;
        let before = bench.system.disk.stats().busy;
        bench.system.clock.sleep(bench.end - bench.begin).await;
        (bench.system.disk.stats().busy - before).as_secs_f64() / seconds as f64 / f64::from(SPINDLES)
    };
    let (all, busy) = join(try_join3(restores, backups, clients), busy).await;
    all?;
    let rate = |bytes: &Cell<u64>| bytes.get() as f64 / seconds as f64 / f64::from(1 << 20);
    let mut reads = bench.counts.reads.take();
    reads.sort_unstable();
    let p99 = reads.get(reads.len() * 99 / 100).copied().unwrap_or_default();
    Ok(Done {
        backups: rate(&bench.counts.backup_bytes),
        restores: rate(&bench.counts.restore_bytes),
        iops: bench.counts.random.get() as f64 / seconds as f64,
        p99_ms: p99.as_secs_f64() * 1e3,
        busy,
        charged: bench.charged(),
    })
}

/// A system by itself, and under mixed loads.
struct Measured {
    name: &'static str,
    streams: Done,
    clients: Done,
    /// Both, as they come.
    unshared: Done,
    /// Both, by [`SHARES`].
    shared: Vec<Done>,
}

impl Measured {
    async fn new(image: &Image, name: &'static str, design: Design, seconds: u64) -> Result<Self, Error> {
        let share = |random_percent| Some(Policy { random_percent, ..Policy::default() });
        let both = Mix { streams: true, clients: true, shares: None };
        let default = Some(Policy::default());
        let streams = runs(image, design, Mix { clients: false, shares: default, ..both }, seconds).await?;
        let clients = runs(image, design, Mix { streams: false, shares: default, ..both }, seconds).await?;
        let unshared = runs(image, design, both, seconds).await?;
        let mut shared = Vec::new();
        for percent in SHARES {
            shared.push(runs(image, design, Mix { shares: share(percent), ..both }, seconds).await?);
        }
        Ok(Self { name, streams, clients, unshared, shared })
    }

    fn at(&self, percent: u8) -> Done {
        let at = SHARES.iter().position(|share| *share == percent);
        at.and_then(|at| self.shared.get(at)).copied().unwrap_or_default()
    }

    /// What backups and restores lose, in percent of what they do without random requests.
    fn losses(&self, done: &Done) -> [f64; 2] {
        let lost = |alone: f64, beside: f64| 100.0 * (1.0 - beside / alone);
        [lost(self.streams.backups, done.backups), lost(self.streams.restores, done.restores)]
    }

    fn figures(&self) -> Figures {
        let done = self.at(PAPER_PERCENT);
        Figures {
            losses: self.losses(&done),
            unshared: self.losses(&self.unshared),
            iops: done.iops / self.clients.iops,
        }
    }
}

/// The figures of D4.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// What backups and restores lose at the paper's share, in percent.
    losses: [f64; 2],
    /// The same without shares.
    unshared: [f64; 2],
    /// Random requests a second at that share, relative to those without streams.
    iops: f64,
}

impl Figures {
    fn judge(&self) -> Holds {
        let is_bounded = self.losses.iter().all(|loss| *loss <= 10.0);
        let is_fair = self.iops >= FAIR * f64::from(PAPER_PERCENT) / 100.0;
        let is_less = self.losses.iter().zip(self.unshared).all(|(loss, without)| *loss < without);
        Holds::of(is_bounded && is_fair && Policy::RANDOM_PERCENT == 20, is_less && self.iops > 0.0)
    }
}

/// RAM of the recipes of all streams' volumes.
fn stream_recipe_bytes(volume_bytes: u64) -> u64 {
    (volume_bytes / CHUNK_BYTES).div_ceil(CHUNKS_A_BLOCK as u64) * (RESTORES + BACKUPS) * BLOCK_RAM_BYTES
}

/// A system with RAM for all streams and clients.
fn with_streams(design: Design, volume_bytes: u64) -> Design {
    let design = with_clients(design);
    let settings = Settings {
        // A large store has recipes of streams in RAM for a moment; this one is so small that streams come back to theirs soon.
        // They stay in RAM, whatever random requests do: what is measured is the disks.
        recipe_cache_bytes: design.settings.recipe_cache_bytes + stream_recipe_bytes(volume_bytes),
        locality_containers: CONTAINERS * (RESTORES + BACKUPS) as usize,
        region_cache_bytes: REGION_BYTES_A_STREAM * (RESTORES + BACKUPS),
        readahead_bytes: Settings::default().readahead_bytes,
        ..design.settings
    };
    Design { settings, ..design }
}

pub(super) async fn section(image: &Image, work: &Work) -> Result<Section, Error> {
    let own = with_streams(Design::own(), image.volume_bytes());
    let seconds = work.mixed_seconds;
    let metadata = own.with_ssd(on_ssd(false), image.ssd_bytes());
    let systems = [
        Measured::new(image, "no SSD", own, seconds).await?,
        Measured::new(image, "metadata on SSD", metadata, seconds).await?,
    ];
    Ok(shown(&systems, seconds))
}

fn rows(system: &Measured) -> Vec<Vec<String>> {
    let row = |load: String, done: &Done, has_streams: bool, has_clients: bool| {
        let if_so = |is_so: bool, text: String| if is_so { text } else { "–".into() };
        let [backups, restores] = system.losses(done);
        vec![
            system.name.to_owned(),
            load,
            if_so(has_streams, format!("{:.1}", done.backups)),
            if_so(has_streams, format!("{:.1}", done.restores)),
            if_so(has_streams && has_clients, format!("{backups:.1} and {restores:.1}")),
            if_so(has_clients, format!("{:.0}", done.iops)),
            if_so(has_clients, format!("{:.1}", 100.0 * done.iops / system.clients.iops)),
            if_so(has_clients, format!("{:.0}", done.p99_ms)),
            done.charged.filter(|_| has_streams && has_clients).map_or("–".into(), |c| format!("{:.1}", 100.0 * c)),
            format!("{:.0}", 100.0 * done.busy),
        ]
    };
    let mut rows = vec![
        row("streams".into(), &system.streams, true, false),
        row("random".into(), &system.clients, false, true),
        row("both, no shares".into(), &system.unshared, true, true),
    ];
    for (percent, done) in SHARES.iter().zip(&system.shared) {
        rows.push(row(format!("both, share of {percent} %"), done, true, true));
    }
    rows
}

fn shown(systems: &[Measured], seconds: u64) -> Section {
    let columns = [
        "system",
        "load",
        "backups, MiB/s",
        "restores, MiB/s",
        "lost of both, %",
        "random IOPS",
        "of those alone, %",
        "p99 of reads, ms",
        "share of the requests' cost, %",
        "disks busy, %",
    ];
    let mut table = Table::new("Streams beside random requests", &columns);
    table.rows = systems.iter().flat_map(rows).collect();
    let loads: Vec<String> =
        ["no shares".to_owned()].into_iter().chain(SHARES.map(|percent| format!("{percent} %"))).collect();
    let lost = |system: &Measured, at: usize| -> Vec<Option<f64>> {
        [&system.unshared].into_iter().chain(&system.shared).map(|done| Some(system.losses(done)[at])).collect()
    };
    let bars = systems.iter().flat_map(|system| {
        [("backups", 0), ("restores", 1)].map(|(what, at)| (format!("{what}, {}", system.name), lost(system, at)))
    });
    let chart = Chart::Bars(Bars {
        title: "What streams lose beside random requests, by the share of these".into(),
        y_label: "% of the streams' speed".into(),
        log_y: false,
        groups: loads,
        bars: bars.collect(),
    });
    Section {
        id: "data-domain-mixed",
        title: "Mixed workloads".into(),
        text: format!(
            "{BACKUPS} backups and {RESTORES} restores run at the same time, each of a volume of its own, beside {CLIENTS} clients with \
             requests of 8 KiB at random places of the images, {WRITE_PERCENT} % of which are writes; one in {NEW_PART} chunks of a \
             backup is new. All run for {seconds} s of virtual time, after {} s that do not count, {RUNS} times. The disks' time is shared by \
             the scheduler of `nitro serve` (crate `shares`): random requests have their share of it as long as streams have requests, and \
             all that streams do not use otherwise. What a request costs is learned from the disks. The store is our own, since the paper's \
             system had its changes; it is measured without an SSD, where random requests take most of the disks, and with \
             metadata on it. The paper does not give its load, nor what its disks could do; its random work was capped at 10,000 IOPS.",
            LEAD.as_secs()
        ),
        charts: vec![chart],
        tables: vec![table],
        verdicts: vec![verdict(systems)],
    }
}

fn verdict(systems: &[Measured]) -> Verdict {
    let told: Vec<String> = systems
        .iter()
        .map(|system| {
            let Figures { losses: [backups, restores], unshared: [a, b], iops } = system.figures();
            let [c, d] = system.losses(&system.at(Policy::RANDOM_PERCENT));
            format!(
                "{}: backups lose {backups:.1} % and restores {restores:.1} % at a share of {PAPER_PERCENT} % ({c:.1} and {d:.1} % at the \
                 default of {} %; {a:.1} and {b:.1} % without shares), random requests have {:.1} % of the IOPS that they have alone",
                system.name,
                Policy::RANDOM_PERCENT,
                100.0 * iops,
            )
        })
        .collect();
    let holds = systems.iter().map(|system| system.figures().judge()).reduce(Holds::and);
    let why = format!(
        "a verdict takes losses of at most 10 %, and at least {FAIR} of the share's part of the random IOPS: otherwise, random requests \
         would pay for what streams keep"
    );
    Verdict::new("D4", told.join("; "), holds.unwrap_or(Holds::NotJudged)).because(&why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_can_fail() {
        let good = Figures { losses: [9.0, 7.0], unshared: [40.0, 60.0], iops: 0.11 };
        assert_eq!(good.judge(), Holds::Holds);
        assert_eq!(Figures { losses: [9.0, 10.5], ..good }.judge(), Holds::InDirection);
        assert_eq!(Figures { iops: 0.01, ..good }.judge(), Holds::InDirection);
        assert_eq!(Figures { losses: [9.0, 61.0], ..good }.judge(), Holds::DoesNot);
        assert_eq!(Figures { iops: 0.0, ..good }.judge(), Holds::DoesNot);
    }
}
