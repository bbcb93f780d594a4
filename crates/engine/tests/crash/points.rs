//! Consistent points: the cache is lost with its host, at any moment, and what the origin then has, with the log of points applied, is
//! the state of the whole volume after one FLUSH: all that was acknowledged before it, and nothing that began after it.
//!
//! In other cycles the host comes back with its cache, and loses nothing that was flushed.

use crate::content::{Content, SHARED, Sector, describe};
use crate::scenario::powered;
use crate::seeds::for_seeds;
use crate::system::settings;
use bytes::Bytes;
use nitro_engine::{Cache, DedupDomain, EngineSettings, PointSettings, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::{Clock, PointLog};
use nitro_redo::RedoLog;
use nitro_testkit::crashing::{Loss, Medium, Platter, Power, SECTOR_BYTES, Wiring};
use nitro_testkit::{CrashingDevice, Rng, Simulation, VirtualTime, trace};
use nitro_units::ClassId;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

type TestCache = Cache<CrashingDevice, VirtualTime>;
type TestVolume = Volume<CrashingDevice, CrashingDevice, VirtualTime>;

const SECTOR: u64 = SECTOR_BYTES as u64;
const VOLUME_BYTES: u64 = 2 << 20;
const REDO_BYTES: u64 = 8 << 20;
/// Virtual time in which a cycle ends.
const CYCLE_MAX: Duration = Duration::from_secs(1000);
const SEEDS: u64 = 40;
/// Not yet.
const NEVER: u64 = u64::MAX;

/// What a write leaves in a sector.
#[derive(Debug, Clone)]
enum Value {
    Is(Sector),
    /// It was trimmed: anything that was ever there.
    Any,
}

/// One write of one sector, in moments of the history.
#[derive(Debug, Clone)]
struct Written {
    value: Value,
    begun: u64,
    ended: u64,
}

/// All that was asked of a volume since its origin was looked at.
struct History {
    now: u64,
    sectors: Vec<Vec<Written>>,
    /// FLUSHes that were answered: when they began and ended.
    flushes: Vec<(u64, u64)>,
    /// When writes ended, by the moment and by the clock.
    ended: Vec<(u64, Duration)>,
}

impl History {
    fn of(image: &[u8]) -> Self {
        let written = |bytes| vec![Written { value: Value::Is(Sector::new(bytes)), begun: 0, ended: 0 }];
        let sectors = image.chunks(SECTOR_BYTES).map(written).collect();
        Self { now: 1, sectors, flushes: vec![(0, 1)], ended: Vec::new() }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn begin(&mut self, first: u64, values: Vec<Value>) -> (Range<u64>, u64) {
        let begun = self.tick();
        let sectors = first..first + values.len() as u64;
        for (sector, value) in sectors.clone().zip(values) {
            self.sectors[sector as usize].push(Written { value, begun, ended: NEVER });
        }
        (sectors, begun)
    }

    fn end(&mut self, (sectors, begun): (Range<u64>, u64), clock: Duration) {
        let ended = self.tick();
        for sector in sectors {
            let writes = self.sectors[sector as usize].iter_mut();
            writes.filter(|write| write.begun == begun).for_each(|write| write.ended = ended);
        }
        self.ended.push((ended, clock));
    }

    /// A restart has found these contents: from now on, the volume has them.
    fn found(&mut self, image: &[u8], clock: Duration) {
        // What was trimmed may read as something else once it is read from the origin again.
        let value = |(sector, bytes): (&Vec<Written>, _)| match sector.last().map(|last| &last.value) {
            Some(Value::Any) => Value::Any,
            _ => Value::Is(Sector::new(bytes)),
        };
        let values = self.sectors.iter().zip(image.chunks(SECTOR_BYTES)).map(value).collect();
        let begun = self.tick();
        let writing = self.begin(0, values);
        self.end(writing, clock);
        let ended = self.tick();
        self.flushes.push((begun, ended));
    }

    /// The moments after which, and up to which, a sector may have had these bytes.
    fn times(&self, sector: usize, bytes: &[u8]) -> Vec<(u64, u64)> {
        let (found, writes) = (Sector::new(bytes), &self.sectors[sector]);
        let held = |before: &Written| match &before.value {
            Value::Is(value) => Some(value.bytes()),
            Value::Any => None,
        };
        let ever: Vec<_> = writes.iter().filter_map(held).collect();
        // A power failure may tear the zeroes of a trim, and a trim that is repeated may leave the sector as it is.
        let was = |(at, byte): (usize, &u8)| *byte == 0 || ever.iter().any(|old| old[at] == *byte);
        let may_be = |write: &&Written| match &write.value {
            Value::Is(value) => *value == found,
            Value::Any => bytes.iter().enumerate().all(was),
        };
        let until = |write: &Written| {
            let later = writes.iter().filter(|later| later.begun > write.ended);
            later.map(|later| later.ended).min().unwrap_or(NEVER)
        };
        writes.iter().filter(may_be).map(|write| (write.begun, until(write))).collect()
    }

    /// Checks that an image is the volume as it was at some moment, not before `least`: within a FLUSH, unless `is_free`.
    fn check_point(&self, image: &[u8], least: u64, is_free: bool) {
        let within = |(begun, ended): &(u64, u64)| begun + 1..=*ended;
        let mut moments: Vec<u64> = match is_free {
            true => (1..=self.now + 1).collect(),
            false => self.flushes.iter().flat_map(within).collect(),
        };
        moments.retain(|at| *at >= least);
        assert!(!moments.is_empty(), "no point is as new as {least}, of {}", self.now);
        for (sector, bytes) in image.chunks(SECTOR_BYTES).enumerate() {
            let (times, before) = (self.times(sector, bytes), moments.clone());
            moments.retain(|at| times.iter().any(|(from, until)| from < at && at <= until));
            assert!(
                !moments.is_empty(),
                "the image is at no point: sector {sector} has {}, which it had in {times:?}, and the sectors before it are as at \
                 {before:?}; its writes: {:?}",
                describe(bytes),
                self.sectors[sector].iter().map(|write| (write.begun, write.ended)).collect::<Vec<_>>(),
            );
        }
    }

    /// Checks that contents after a restart have all that was flushed.
    fn check_flushed(&self, image: &[u8]) {
        let flushed = self.flushes.iter().map(|(begun, _)| *begun).max().unwrap_or(0);
        for (sector, bytes) in image.chunks(SECTOR_BYTES).enumerate() {
            let times = self.times(sector, bytes);
            assert!(
                times.iter().any(|(_, until)| *until > flushed),
                "sector {sector} has {}, which it had in {times:?}, before the FLUSH at {flushed}",
                describe(bytes)
            );
        }
    }
}

/// How often things happened, to be sure that the scenario reaches what it is for.
#[derive(Default)]
struct Happened {
    points: AtomicU64,
    unflushed: AtomicU64,
    lost: AtomicU64,
    applied: AtomicU64,
    interrupted: AtomicU64,
    restarted: AtomicU64,
    newer: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// A world that outlives crashes.
struct World<'a> {
    seed: u64,
    rng: Rng,
    settings: EngineSettings,
    points: PointSettings,
    flash: Platter,
    redo: Platter,
    origin: Platter,
    block_bytes: u32,
    is_formatted: bool,
    history: Rc<RefCell<History>>,
    /// Number of the last write.
    writes: Rc<Cell<u32>>,
    /// A point was frozen between two writes since the history began.
    is_free: bool,
    happened: &'a Happened,
}

/// The devices of one cycle.
struct Devices {
    flash: CrashingDevice,
    redo: CrashingDevice,
    origin: CrashingDevice,
}

fn platter(bytes: u64) -> Platter {
    Platter::new(Medium::new(bytes).into())
}

impl World<'_> {
    fn devices(&mut self, sim: &Simulation, power: &Power) -> Devices {
        let us = [300, 3000, 20_000][self.rng.below(3) as usize];
        let mut device = |name, platter: &Platter, delay_us_max, block_bytes| {
            let (clock, power, seed) = (sim.clock.clone(), power.clone(), self.rng.next());
            let (stalls, keeps_writes, unit_bytes) = (false, true, None);
            let wiring =
                Wiring { name, block_bytes, clock, power, seed, delay_us_max, stalls, keeps_writes, unit_bytes };
            CrashingDevice::on(platter, wiring)
        };
        Devices {
            flash: device(0, &self.flash, 300, 512),
            redo: device(1, &self.redo, us, 512),
            origin: device(2, &self.origin, us, self.block_bytes),
        }
    }

    fn lose_power(&mut self, platter: &Platter) {
        let losses = [Loss::Shuffled, Loss::Shuffled, Loss::All, Loss::None, Loss::Torn];
        let loss = losses[self.rng.below(losses.len() as u64) as usize];
        platter.lock().lose_power(&mut self.rng, loss);
    }

    /// Opens the log of points and gives the origin what is complete there, as whoever opens an origin does; the power may fail
    /// meanwhile.
    fn apply(&mut self) {
        for attempt in 0.. {
            let sim = Simulation::new(self.rng.next());
            let fails_at = if attempt < 3 && self.rng.one_in(3) { 1 + self.rng.below(60) } else { u64::MAX };
            let power = Power::new(fails_at);
            let Devices { redo, origin, .. } = self.devices(&sim, &power);
            let applying = async move {
                let log = RedoLog::open(redo, || 0).await.unwrap();
                log.apply(&origin).await.unwrap()
            };
            let applied = sim.run(powered(power, applying));
            sim.end();
            if let Some(stamp) = applied {
                add(&self.happened.applied, stamp.is_some().into());
                return;
            }
            add(&self.happened.interrupted, 1);
            let (redo, origin) = (self.redo.clone(), self.origin.clone());
            self.lose_power(&redo);
            self.lose_power(&origin);
        }
    }

    fn image(&self) -> Vec<u8> {
        let mut image = vec![0; VOLUME_BYTES as usize];
        self.origin.lock().read(0, &mut image);
        image
    }

    fn cycle(&mut self, number: u64) {
        let sim = Simulation::new(self.rng.next());
        let fails_at = if self.rng.one_in(6) { u64::MAX } else { 1 + self.rng.below(6000) };
        let power = Power::new(fails_at);
        let devices = self.devices(&sim, &power);
        let volume: Rc<RefCell<Option<Arc<TestVolume>>>> = Rc::default();
        let start = self.start(sim.clone(), devices, number, volume.clone());
        let found = sim.run(powered(power.clone(), start));
        if let Some(image) = found {
            if self.is_formatted {
                self.history.borrow().check_flushed(&image);
                self.history.borrow_mut().found(&image, sim.clock.now());
                add(&self.happened.restarted, 1);
            }
            self.is_formatted = true;
            let clients = self.clients(&sim, volume.borrow().clone().unwrap());
            sim.run(powered(power.clone(), clients));
        }
        let least = self.least(&sim, volume.take());
        power.cut();
        sim.end();
        self.crash(least);
    }

    /// The moment that the origin must have reached, by what the volume says of its points.
    fn least(&mut self, sim: &Simulation, volume: Option<Arc<TestVolume>>) -> u64 {
        let Some(volume) = volume else { return 0 };
        let counters = volume.counters();
        add(&self.happened.points, counters.points);
        add(&self.happened.unflushed, counters.points_unflushed);
        self.is_free |= counters.points_unflushed > 0;
        let Some(status) = volume.point_status() else { return 0 };
        let Some(since) = sim.clock.now().checked_sub(status.age) else { return 0 };
        let history = self.history.borrow();
        let before = history.ended.iter().filter(|(_, clock)| *clock < since);
        before.map(|(ended, _)| *ended).max().unwrap_or(0)
    }

    fn crash(&mut self, least: u64) {
        let (redo, origin, flash) = (self.redo.clone(), self.origin.clone(), self.flash.clone());
        let killed = self.rng.one_in(3);
        for platter in [&redo, &origin, &flash] {
            match killed {
                true => platter.lock().outlive_program(&mut self.rng),
                false => self.lose_power(platter),
            }
        }
        self.apply();
        if self.rng.one_in(3) {
            // The host comes back. Its clock begins anew.
            self.history.borrow_mut().ended.clear();
            return;
        }
        let image = self.image();
        self.history.borrow().check_point(&image, least, self.is_free);
        add(&self.happened.newer, (least > 0).into());
        add(&self.happened.lost, 1);
        *self.history.borrow_mut() = History::of(&image);
        (self.is_formatted, self.is_free) = (false, false);
        let flash_bytes = flash.lock().size_bytes();
        self.flash = platter(flash_bytes);
    }

    /// Opens or makes the cache, and serves the volume; returns what it reads as.
    fn start(
        &self,
        sim: Rc<Simulation>,
        devices: Devices,
        number: u64,
        served: Rc<RefCell<Option<Arc<TestVolume>>>>,
    ) -> impl Future<Output = Vec<u8>> + use<> {
        let (settings, points, is_formatted) = (self.settings, self.points, self.is_formatted);
        let (epoch, class) = (self.seed << 8 | number, ClassId::all().nth(number as usize % 4).unwrap_or_default());
        async move {
            let Devices { flash, redo, origin } = devices;
            let cache: Arc<TestCache> = match is_formatted {
                true => Cache::open(flash, sim.clock.clone(), settings).await.unwrap().0,
                false => Cache::format(flash, sim.clock.clone(), settings, [7; 16], epoch).await.unwrap(),
            };
            let [inserting, journaling] = [0; 2].map(|_| cache.clone());
            sim.spawn(async move { inserting.insertion_worker().await });
            sim.spawn(async move { journaling.journal_worker().await });
            let entry = VolumeEntry {
                name: "volume".into(),
                origin_bytes: VOLUME_BYTES,
                stamp: [0; 16],
                mode: 1,
                domain: DedupDomain::SHARED,
                identity: Vec::new(),
            };
            let object = cache.remember_volume(entry).unwrap();
            cache.sync().await.unwrap();
            let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteBack };
            let volume = Volume::new(cache, origin, options);
            let log = RedoLog::open(redo, || 0).await.unwrap();
            assert!(!log.is_sealed());
            volume.reach_points(Arc::new(log), points, Duration::ZERO);
            volume.set_class(class);
            let [ahead, destaging] = [0; 2].map(|_| volume.clone());
            sim.spawn(async move { ahead.readahead_worker().await });
            sim.spawn(async move { destaging.destage_worker().await });
            let image = volume.read(0, VOLUME_BYTES).await.unwrap().concat();
            *served.borrow_mut() = Some(volume);
            image
        }
    }

    /// Starts clients; the result ends when they have done all.
    fn clients(&mut self, sim: &Rc<Simulation>, volume: Arc<TestVolume>) -> impl Future<Output = ()> + use<> {
        let at_work = Rc::new(Cell::new(0));
        let steps = 20 + self.rng.below(200);
        let area = [256 << 10, VOLUME_BYTES, VOLUME_BYTES][self.rng.below(3) as usize];
        for _ in 0..1 + self.rng.below(3) {
            at_work.set(at_work.get() + 1);
            let mut client = Client {
                volume: volume.clone(),
                history: self.history.clone(),
                writes: self.writes.clone(),
                clock: sim.clock.clone(),
                rng: Rng::new(self.rng.next()),
                sectors: area / SECTOR,
            };
            let at_work = at_work.clone();
            sim.spawn(async move {
                for _ in 0..steps {
                    client.step().await;
                }
                at_work.set(at_work.get() - 1);
            });
        }
        let (clock, settles) = (sim.clock.clone(), self.rng.one_in(2));
        async move {
            while at_work.get() > 0 {
                clock.sleep(Duration::from_millis(20)).await;
                assert!(clock.now() < CYCLE_MAX, "{} clients hang", at_work.get());
            }
            if settles {
                volume.destage_all().await.unwrap();
                assert_eq!(volume.dirty_extents(), 0);
            }
        }
    }
}

struct Client {
    volume: Arc<TestVolume>,
    history: Rc<RefCell<History>>,
    writes: Rc<Cell<u32>>,
    clock: VirtualTime,
    rng: Rng,
    sectors: u64,
}

impl Client {
    async fn step(&mut self) {
        let longest = if self.rng.one_in(10) { 512 } else { 32 };
        let first = self.rng.below(self.sectors);
        let count = (1 + self.rng.below(longest)).min(self.sectors - first);
        let (offset, len) = (first * SECTOR, count * SECTOR);
        match self.rng.below(24) {
            0..13 => self.write(first, count).await,
            13..17 => self.flush().await,
            17..19 => {
                let writing = self.begin(first, vec![Value::Is(Sector::ZERO); count as usize], "zeroes");
                let may_unmap = self.rng.one_in(2);
                self.volume.write_zeroes(offset, len, may_unmap, false, false).await.unwrap();
                self.end(writing);
            }
            19..21 => {
                let writing = self.begin(first, vec![Value::Any; count as usize], "trim");
                self.volume.trim(offset, len, false).await.unwrap();
                self.end(writing);
            }
            21..23 => drop(self.volume.read(offset, len).await.unwrap()),
            _ => self.clock.sleep(Duration::from_millis(self.rng.below(4000))).await,
        }
    }

    async fn flush(&self) {
        let begun = self.history.borrow_mut().tick();
        self.volume.flush().await.unwrap();
        let mut history = self.history.borrow_mut();
        let ended = history.tick();
        trace(|| format!("flush {begun} to {ended}"));
        history.flushes.push((begun, ended));
    }

    async fn write(&mut self, first: u64, count: u64) {
        self.writes.set(self.writes.get() + 1);
        let content = match self.rng.one_in(4) {
            true => Content::Shared(self.rng.below(SHARED) as u32),
            false => Content::Unique { volume: 0, write: self.writes.get() },
        };
        let mut data = vec![0; (count * SECTOR) as usize];
        for (sector, out) in (first..).zip(data.chunks_mut(SECTOR_BYTES)) {
            content.fill(sector, out);
        }
        let values = data.chunks(SECTOR_BYTES).map(|bytes| Value::Is(Sector::new(bytes))).collect();
        let writing = self.begin(first, values, "write");
        let fua = self.rng.one_in(16);
        self.volume.write(first * SECTOR, Bytes::from(data), fua).await.unwrap();
        self.end(writing);
    }

    fn begin(&self, first: u64, values: Vec<Value>, what: &str) -> (Range<u64>, u64) {
        let count = values.len();
        let begun = self.history.borrow_mut().begin(first, values);
        trace(|| format!("{what} of {count} sectors at {first} begins at {}", begun.1));
        begun
    }

    fn end(&self, writing: (Range<u64>, u64)) {
        trace(|| format!("what began at {} ends", writing.1));
        self.history.borrow_mut().end(writing, self.clock.now());
    }
}

fn run(seed: u64, happened: &Happened) {
    let mut rng = Rng::new(seed ^ 0x9017);
    let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
    let settings = EngineSettings { origin_timeout: None, ..settings(seed) };
    let points = PointSettings {
        max_age: Duration::from_secs(pick(&[1, 8, 8, 3600])),
        max_bytes: pick(&[256 << 10, 2 << 20, u64::MAX]),
    };
    let block_bytes = pick(&[512, 4096]) as u32;
    trace(|| format!("{points:?}"));
    let flash_bytes = settings.manager.cache_bytes + TestCache::overhead_bytes(&settings);
    let mut world = World {
        seed,
        rng,
        settings,
        points,
        flash: platter(flash_bytes),
        redo: platter(REDO_BYTES),
        origin: platter(VOLUME_BYTES),
        block_bytes,
        is_formatted: false,
        history: Rc::new(RefCell::new(History::of(&vec![0; VOLUME_BYTES as usize]))),
        writes: Rc::default(),
        is_free: false,
        happened,
    };
    for number in 0..6 {
        world.cycle(number);
    }
}

#[test]
fn a_host_that_is_lost_with_its_cache_leaves_an_older_image_that_is_whole() {
    let happened = Happened::default();
    let name = "a_host_that_is_lost_with_its_cache_leaves_an_older_image_that_is_whole";
    let seeds = for_seeds(name, SEEDS, |seed| run(seed, &happened));
    let Happened { points, unflushed, lost, applied, interrupted, restarted, newer } = &happened;
    let counts = [
        ("points", points),
        ("points frozen between two writes", unflushed),
        ("caches lost", lost),
        ("points applied after a crash", applied),
        ("applications of a point that were interrupted", interrupted),
        ("restarts with the cache", restarted),
        ("images that had to be newer than the first", newer),
    ];
    let few = counts.iter().any(|(_, count)| count.load(Ordering::Relaxed) < 20);
    counts.iter().for_each(|(name, count)| println!("{name}: {}", count.load(Ordering::Relaxed)));
    assert!(seeds < SEEDS || !few, "the scenario does not reach what it is for");
}
