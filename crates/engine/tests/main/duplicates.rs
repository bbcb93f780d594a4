//! Duplicates outlive a restart: how much of what was cached is there again after an orderly end, a kill of the program and
//! a power cut, and what records must not be believed.

use crate::any::Erased;
use bytes::Bytes;
use nitro_device::RamDevice;
use nitro_engine::manager::Settings;
use nitro_engine::manager::eviction::EvictionKind;
use nitro_engine::manager::pattern::StreamSettings;
use nitro_engine::{Cache, CrashMemory, DedupDomain, EngineSettings, Volume, VolumeEntry, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Clock, Device, DeviceError, Geometry};
use nitro_testkit::{Rng, Simulation, VirtualTime, noise};
use nitro_units::ObjectId;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

type TestCache = Arc<Cache<Erased, VirtualTime>>;
type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

const EXTENT: u64 = 16 << 10;
const WEU_BYTES: u64 = 512 << 10;
/// Extents of a unit that do not shrink.
const PER_UNIT: u64 = 31;
/// What a device may lose of the bytes written last, if it was not told to flush.
const VOLATILE_BYTES: usize = 4 << 20;

/// A cache device that can tell what a power cut would leave of it.
struct Flash {
    ram: RamDevice,
    /// What was at the places of the last writes before them.
    before: Mutex<Vec<(u64, Bytes)>>,
}

impl Flash {
    fn new(image: Bytes) -> Self {
        let ram = RamDevice::new(image.len() as u64, 512);
        now(ram.write(0, image)).unwrap();
        Self { ram, before: Mutex::default() }
    }

    fn image(&self) -> Bytes {
        now(self.ram.read(0, self.ram.geometry().size_bytes as usize)).unwrap()
    }

    /// Its content after a power cut, in which all writes are lost that are not known to be durable.
    fn cut(&self) -> Bytes {
        let mut image = self.image().to_vec();
        for (offset, bytes) in self.before.lock().iter().rev() {
            image[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        image.into()
    }
}

impl Device for Flash {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        self.ram.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        let old = self.ram.read(offset, data.len()).await?;
        {
            let mut before = self.before.lock();
            before.push((offset, old));
            let mut bytes: usize = before.iter().map(|(_, bytes)| bytes.len()).sum();
            while bytes > VOLATILE_BYTES {
                bytes -= before.remove(0).1.len();
            }
        }
        self.ram.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        self.before.lock().clear();
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.ram.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.ram.write_zeroes(offset, len, may_unmap).await
    }
}

nitro_port::plain_origin!(Flash);

/// Disks that were cloned from one: each extent has the content of its number modulo the number of contents, until it is
/// written to.
struct Clones {
    contents: u64,
    extents: u64,
    written: Mutex<HashMap<u64, Bytes>>,
    reads: AtomicU64,
}

impl Clones {
    fn new(contents: u64, ratio: u64) -> Self {
        Self { contents, extents: contents * ratio, written: Mutex::default(), reads: AtomicU64::new(0) }
    }

    fn content(&self, extent: u64) -> Bytes {
        let written = self.written.lock().get(&extent).cloned();
        written.unwrap_or_else(|| noise(extent % self.contents + 1, EXTENT as usize).into())
    }
}

impl Device for Clones {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.extents * EXTENT, ..RamDevice::new(EXTENT, 512).geometry() }
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        let extents = offset / EXTENT..(offset + len as u64) / EXTENT;
        self.reads.fetch_add(extents.end - extents.start, SeqCst);
        let contents: Vec<_> = extents.map(|extent| self.content(extent)).collect();
        Ok(if contents.len() == 1 { contents[0].clone() } else { contents.concat().into() })
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        self.written.lock().insert(offset / EXTENT, data);
        Ok(())
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _offset: u64, _len: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> Result<(), DeviceError> {
        assert_eq!((offset % EXTENT, len), (0, EXTENT));
        self.written.lock().insert(offset / EXTENT, vec![0; EXTENT as usize].into());
        Ok(())
    }
}

nitro_port::plain_origin!(Clones);

fn now<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).expect("RAM answers at once")
}

/// What outlives the program.
#[derive(Clone)]
struct Machine {
    settings: EngineSettings,
    flash: Option<Bytes>,
    origin: Arc<Clones>,
    words: Vec<u64>,
}

/// A program that serves.
struct Running {
    sim: Rc<Simulation>,
    cache: TestCache,
    volume: TestVolume,
    flash: Arc<Flash>,
    words: &'static [AtomicU64],
    at_work: Rc<Cell<u32>>,
    machine: Machine,
}

impl Machine {
    fn new(units: u64, contents: u64, ratio: u64) -> Self {
        let manager = Settings {
            weu_bytes: WEU_BYTES as u32,
            extent_bytes: EXTENT as u32,
            streams: StreamSettings { threshold_bytes: 0, ..StreamSettings::default() },
            ..Settings::new(units * WEU_BYTES)
        };
        let settings = EngineSettings {
            compression: Compression::None,
            ram_cache_bytes: 0,
            readahead_ram_bytes: 0,
            ..EngineSettings::new(manager)
        };
        Self { settings, flash: None, origin: Arc::new(Clones::new(contents, ratio)), words: vec![0; 4096] }
    }

    fn start(&self) -> Running {
        let sim: Rc<Simulation> = Simulation::new(1);
        let words: &'static [AtomicU64] = Vec::leak(self.words.iter().map(|word| AtomicU64::new(*word)).collect());
        let settings = EngineSettings { crash_memory: Some(CrashMemory { words, identity: [1; 16] }), ..self.settings };
        let bytes = Cache::<Erased, VirtualTime>::overhead_bytes(&settings) + settings.manager.cache_bytes;
        let image = self.flash.clone().unwrap_or_else(|| vec![0; bytes as usize].into());
        let flash = Arc::new(Flash::new(image));
        let device = Erased::new(Arc::clone(&flash));
        let cache = match self.flash {
            None => sim.run(Cache::format(device, sim.clock.clone(), settings, [7; 16], 1)).unwrap(),
            Some(_) => sim.run(Cache::open(device, sim.clock.clone(), settings)).unwrap().0,
        };
        let at_work = Rc::new(Cell::new(2));
        for worker in 0..2 {
            let (cache, at_work) = (cache.clone(), at_work.clone());
            sim.spawn(async move {
                if worker == 0 {
                    cache.insertion_worker().await
                } else {
                    cache.journal_worker().await
                }
                at_work.set(at_work.get() - 1);
            });
        }
        let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
        let volume = Volume::new(cache.clone(), Erased::new(Arc::clone(&self.origin)), options);
        Running { sim, cache, volume, flash, words, at_work, machine: self.clone() }
    }
}

impl Running {
    /// Reads extents; returns those that the cache had.
    fn hits(&self, extents: impl Iterator<Item = u64>) -> Vec<u64> {
        let (volume, cache, origin) = (self.volume.clone(), self.cache.clone(), self.machine.origin.clone());
        let clock = self.sim.clock.clone();
        self.sim.run(async move {
            while cache.is_restoring() {
                clock.sleep(Duration::from_millis(1)).await;
            }
            let mut hits = Vec::new();
            for extent in extents {
                let before = origin.reads.load(SeqCst);
                let read = volume.read(extent * EXTENT, EXTENT).await.unwrap().concat();
                hits.extend((origin.reads.load(SeqCst) == before).then_some(extent));
                assert!(read == origin.content(extent), "extent {extent}");
                if extent % 16 == 0 {
                    cache.settled().await;
                }
            }
            cache.settled().await;
            hits
        })
    }

    /// Reads extents; returns how many the cache had.
    fn read(&self, extents: impl Iterator<Item = u64>) -> u64 {
        self.hits(extents).len() as u64
    }

    fn write(&self, extent: u64, number: u64) {
        let (volume, cache) = (self.volume.clone(), self.cache.clone());
        self.sim.run(async move {
            volume.write(extent * EXTENT, noise(number, EXTENT as usize).into(), false).await.unwrap();
            cache.settled().await;
        });
    }

    /// Overwrites an extent with content that does not enter the cache: nothing there is newer than what was void by it.
    fn zero(&self, extent: u64) {
        let (volume, cache) = (self.volume.clone(), self.cache.clone());
        self.sim.run(async move {
            volume.write_zeroes(extent * EXTENT, EXTENT, true, false, false).await.unwrap();
            cache.settled().await;
        });
    }

    /// What is there after a kill now.
    fn killed(&self) -> Machine {
        let words = self.words.iter().map(|word| word.load(SeqCst)).collect();
        Machine { flash: Some(self.flash.image()), words, ..self.machine.clone() }
    }

    /// What is there after a power cut now.
    fn cut(&self) -> Machine {
        Machine { flash: Some(self.flash.cut()), words: vec![0; 4096], ..self.machine.clone() }
    }

    /// What is there after an orderly end.
    fn stop(self) -> Machine {
        let (cache, clock, at_work) = (self.cache.clone(), self.sim.clock.clone(), self.at_work.clone());
        let volume = self.volume.clone();
        self.sim.run(async move {
            volume.close_regions(true).await.unwrap();
            cache.close();
            while at_work.get() > 0 {
                clock.sleep(Duration::from_millis(10)).await;
            }
        });
        let stopped = self.killed();
        self.sim.end();
        stopped
    }
}

fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let (mut all, mut rng) = ((0..count).collect::<Vec<_>>(), Rng::new(seed));
    for at in (1..all.len()).rev() {
        all.swap(at, rng.below(at as u64 + 1) as usize);
    }
    all
}

/// The share of hits that are left, in thousandths.
fn left(before: u64, machine: &Machine, asked: &[u64]) -> u64 {
    let running = machine.start();
    let after = running.read(asked.iter().copied());
    running.sim.end();
    after * 1000 / before
}

#[test]
fn what_was_cached_is_there_again_with_its_duplicates() {
    for ratio in [1, 2, 8] {
        let contents = 256 * PER_UNIT;
        let machine = Machine::new(300, contents, ratio);
        let running = machine.start();
        let all = shuffled(contents * ratio, 5);
        running.read(all.iter().copied());
        let asked: Vec<u64> = shuffled(contents * ratio, 7).into_iter().step_by(4 * ratio as usize).collect();
        let before = running.read(asked.iter().copied());
        let (killed, cut) = (running.killed(), running.cut());
        let written = running.cache.metrics.snapshot();
        let stats = running.cache.status().manager;
        let least = stats.stored_bytes + stats.base_entries * 48;
        println!(
            "{ratio}:1: {before} of {} hits, {} bytes written for {least}, {} records",
            asked.len(),
            written.ssd_written_bytes(),
            stats.dups_recorded
        );
        let stopped = running.stop();
        let shares = [&stopped, &killed, &cut].map(|machine| left(before, machine, &asked));
        println!("{ratio}:1: of 1000 hits, {shares:?} are left after an orderly end, a kill, a power cut");
        assert!(shares[0] >= 990 && shares[1] >= 970 && shares[2] >= 800, "{ratio}:1: {shares:?}");
        let more = written.ssd_written_bytes().saturating_sub(least) * 1000 / least;
        assert!(more <= if ratio == 8 { 60 } else { 10 }, "{ratio}:1: {more} thousandths more bytes are written");
    }
}

/// More contents than fit, some of them read far more often than others: units are evicted, and what is worth it is copied.
#[test]
fn duplicates_are_recorded_again_when_units_are_evicted() {
    let (contents, ratio) = (384 * PER_UNIT, 4);
    let machine = Machine::new(256, contents, ratio);
    let running = machine.start();
    let mut rng = Rng::new(11);
    let mut reads = |count: u64| {
        let hot = |rng: &mut Rng| rng.below(contents / 4) + contents * rng.below(ratio);
        let any = |rng: &mut Rng| rng.below(contents * ratio);
        let reads = (0..count).map(|_| if rng.one_in(3) { any(&mut rng) } else { hot(&mut rng) });
        reads.collect::<Vec<u64>>()
    };
    running.read(reads(8 * contents).into_iter());
    let asked = reads(contents);
    let cached: Vec<u64> =
        running.hits(asked.iter().copied()).into_iter().collect::<BTreeSet<u64>>().into_iter().collect();
    let stats = running.cache.status().manager;
    println!(
        "{} of {} are cached, {} duplicates of {}, {} copied forward, {} records",
        cached.len(),
        asked.len(),
        stats.dup_entries,
        stats.cached_extents,
        stats.forwarded,
        stats.dups_recorded
    );
    assert!(stats.weus_evicted > 256 && stats.forwarded > contents / 8, "{stats:?}");
    let (killed, cut) = (running.killed(), running.cut());
    let stopped = running.stop();
    let shares = [&stopped, &killed, &cut].map(|machine| left(cached.len() as u64, machine, &cached));
    println!("of 1000 hits, {shares:?} are left after an orderly end, a kill, a power cut");
    assert!(shares[0] >= 990 && shares[1] >= 970 && shares[2] >= 900, "{shares:?}");
}

#[test]
fn duplicates_that_were_written_to_do_not_come_back() {
    let machine = Machine::new(16, 5 * PER_UNIT, 2);
    let running = machine.start();
    let extents = running.machine.origin.extents;
    running.read(0..extents);
    let running = running.stop().start();
    assert_eq!(running.read(0..extents), extents);
    // Half of the duplicates, and half of the first keys of contents.
    for extent in (0..extents).step_by(2) {
        if extent % 4 == 0 {
            running.write(extent, 1_000_000 + extent);
        } else {
            running.zero(extent);
        }
    }
    for machine in [running.killed(), running.cut(), running.stop()] {
        let running = machine.start();
        // Whatever is read is what the origin has.
        running.read(0..extents);
        let again = running.stop().start();
        again.read(0..extents);
        again.sim.end();
    }
}

/// Extents are overwritten, and get the content again that is stored in their name.
#[test]
fn what_is_written_again_is_there_after_a_restart() {
    let machine = Machine::new(64, 4 * PER_UNIT, 2);
    let running = machine.start();
    let (contents, extents) = (running.machine.origin.contents, running.machine.origin.extents);
    running.read(0..extents);
    let all: Vec<u64> = (0..extents).collect();
    for extent in 0..contents {
        running.write(extent, 1_000_000 + extent);
        if extent % 2 == 0 {
            running.write(extent, extent % contents + 1);
        }
    }
    let shares = [running.killed(), running.stop()].map(|machine| left(extents, &machine, &all));
    println!("of 1000 hits, {shares:?} are left after a kill, an orderly end");
    assert!(shares[1] >= 990, "what was written again is void");
}

/// The first keys of contents are written to; the other keys are used, while far more comes than there is room for.
#[test]
fn contents_are_copied_in_the_name_of_another_key() {
    let running = Machine::new(16, 4 * PER_UNIT, 8).start();
    let (contents, extents) = (running.machine.origin.contents, running.machine.origin.extents);
    running.read(0..2 * contents);
    for extent in 0..contents {
        running.write(extent, 1_000_000 + extent);
        // The journal has that this key was void once.
        running.write(contents + extent, 3_000_000 + extent);
        running.write(contents + extent, extent + 1);
    }
    for round in 0..8 {
        for extent in 2 * contents..extents {
            running.write(extent, 2_000_000 + round * extents + extent);
            running.read(std::iter::once(contents + extent % contents));
        }
    }
    let duplicates: Vec<u64> = (contents..2 * contents).collect();
    let before = running.read(duplicates.iter().copied());
    let stats = running.cache.status().manager;
    assert!(stats.weus_evicted > 64 && stats.forwarded > contents && before > contents * 9 / 10, "{before}, {stats:?}");
    let shares = [running.killed(), running.stop()].map(|machine| left(before, &machine, &duplicates));
    println!("of 1000 copies, {shares:?} are left after a kill, an orderly end");
    assert!(shares[1] >= 970, "the copies are void");
}

#[test]
fn voids_of_records_outlive_snapshots_of_the_journal() {
    let machine = Machine::new(16, 4 * PER_UNIT, 3);
    let running = machine.start();
    let (contents, extents) = (running.machine.origin.contents, running.machine.origin.extents);
    running.read(0..extents);
    let running = running.stop().start();
    assert_eq!(running.read(0..extents), extents);
    for extent in (contents..extents).step_by(3) {
        running.zero(extent);
    }
    // Until the log with the changes is given up for a snapshot.
    let snapshots = |running: &Running| running.cache.status().engine.journal_snapshots;
    let mut round = 0;
    while snapshots(&running) < 2 {
        for extent in 0..contents {
            running.write(extent, 3_000_000 + round * contents + extent);
        }
        round += 1;
        assert!(round < 1000, "no snapshot is taken");
    }
    for machine in [running.killed(), running.stop()] {
        let running = machine.start();
        running.read(contents..extents);
        running.sim.end();
    }
}

#[test]
fn content_that_was_evicted_since_is_not_believed() {
    let mut machine = Machine::new(16, 20 * PER_UNIT, 2);
    machine.settings.manager.eviction = EvictionKind::Fifo;
    let running = machine.start();
    let (contents, first) = (running.machine.origin.contents, 4 * PER_UNIT);
    running.read(0..first);
    let duplicates = contents..contents + first;
    running.read(duplicates.clone());
    // Their records are in the next unit. It is still there when the units of the contents have others.
    running.read(first..19 * PER_UNIT);
    let stats = running.cache.status().manager;
    assert!(stats.weus_evicted >= 4 && stats.weus_evicted < 8 && stats.dups_recorded >= first, "{stats:?}");
    // After a kill, some may be there: the journal has not heard of all evictions.
    let killed = running.killed().start();
    killed.read(duplicates.clone());
    killed.sim.end();
    let running = running.stop().start();
    assert_eq!((running.read(duplicates), running.cache.status().manager.dups_restored), (0, 0));
    running.sim.end();
}

impl Running {
    /// Serves a volume of one unit's extents, which all have the contents of another such volume.
    fn serve(&self, name: &str, domain: &str) -> (TestVolume, Arc<Clones>) {
        let entry = VolumeEntry {
            name: name.to_owned(),
            origin_bytes: PER_UNIT * EXTENT,
            stamp: [0; 16],
            mode: 0,
            domain: DedupDomain::named(domain),
            identity: Vec::new(),
        };
        let object = self.cache.remember_volume(entry).unwrap();
        let options = VolumeOptions { object, read_only: false, mode: WriteMode::WriteThrough };
        let origin = Arc::new(Clones::new(PER_UNIT, 1));
        (Volume::new(self.cache.clone(), Erased::new(Arc::clone(&origin)), options), origin)
    }

    /// Reads all of such a volume; returns how many extents the cache had.
    fn read_served(&self, (volume, origin): &(TestVolume, Arc<Clones>)) -> u64 {
        let (cache, clock, volume) = (self.cache.clone(), self.sim.clock.clone(), volume.clone());
        let before = origin.reads.load(SeqCst);
        self.sim.run(async move {
            while cache.is_restoring() {
                clock.sleep(Duration::from_millis(1)).await;
            }
            for extent in 0..PER_UNIT {
                volume.read(extent * EXTENT, EXTENT).await.unwrap();
                cache.settled().await;
            }
            cache.sync().await.unwrap();
        });
        PER_UNIT - (origin.reads.load(SeqCst) - before)
    }

    /// Two volumes of one domain, with the same contents.
    fn read_both(&self) {
        for name in ["first", "second"] {
            self.read_served(&self.serve(name, "red"));
        }
        assert_eq!(self.cache.status().manager.dup_entries, PER_UNIT);
    }
}

#[test]
fn records_of_another_domain_are_not_believed() {
    for (domain, hits) in [("red", PER_UNIT), ("blue", 0)] {
        let running = Machine::new(16, PER_UNIT, 2).start();
        running.read_both();
        let running = running.stop().start();
        let [first, second] = [running.serve("first", "red"), running.serve("second", domain)];
        assert_eq!([running.read_served(&first), running.read_served(&second)], [PER_UNIT, hits], "{domain}");
        running.sim.end();
    }
}

#[test]
fn duplicates_of_a_volume_that_gets_another_domain_are_dropped() {
    let running = Machine::new(16, PER_UNIT, 2).start();
    running.read_both();
    let second = running.serve("second", "blue");
    let cache = running.cache.clone();
    running.sim.run(async move { cache.part_domains().await });
    assert_eq!(running.read_served(&second), 0);
    // Nor do their records come back, whatever the domains are then.
    let running = running.stop().start();
    assert_eq!(running.read_served(&running.serve("second", "blue")), PER_UNIT);
    running.sim.end();
}
