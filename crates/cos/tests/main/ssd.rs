//! A store with an SSD that power leaves in any state, that is lost, stale, another store's or damaged: never wrong data.

use crate::crash::World;
use crate::model::{CHUNK, again, bytes_of, plan, settings};
use crate::streams::import;
use bytes::Bytes;
use futures_executor::block_on;
use nitro_cos::{Error, Fpi, SsdOptions, SsdSource, SsdState, Store};
use nitro_device::faulty::{Effect, Fault, FaultyDevice};
use nitro_port::{Clock, Device, ErrorKind, Operation};
use nitro_testkit::{CrashingDevice, Rng, VirtualTime, seeds};
use std::sync::Arc;
use std::time::Duration;

const UNIT_BYTES: u64 = 512 << 10;
const SSD_BYTES: u64 = 10 * UNIT_BYTES;
/// How long an SSD may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

pub fn options() -> SsdOptions {
    SsdOptions { unit_bytes: UNIT_BYTES as u32, ..SsdOptions::default() }
}

fn source(device: &Arc<CrashingDevice>) -> SsdSource {
    SsdSource::new(Arc::clone(device), options())
}

/// As [`source`], with compressed chunks if `lz4` is set.
fn source_with(device: &Arc<CrashingDevice>, lz4: bool) -> SsdSource {
    SsdSource::new(Arc::clone(device), SsdOptions { lz4, ..options() })
}

/// The choices of what is cached of the index, each twice as often as the one before.
const FPI: [Fpi; 7] = [Fpi::Off, Fpi::Pages, Fpi::Pages, Fpi::Short, Fpi::Short, Fpi::Short, Fpi::Short];

/// An SSD, and what it was before.
struct Ssds {
    now: Arc<CrashingDevice>,
    /// As it was after some session.
    older: Vec<u8>,
    random: Rng,
    lz4: bool,
    fpi: Fpi,
    short: u64,
    kept: u64,
    hits: u64,
}

impl Ssds {
    fn new(seed: u64) -> Self {
        let now = Arc::new(CrashingDevice::new(SSD_BYTES, 4096, seed));
        let older = now.image();
        Self {
            now,
            older,
            random: Rng::new(seed ^ 0x0055_DD00),
            lz4: seed % 2 == 1,
            fpi: FPI[seed as usize % 7],
            short: 0,
            kept: 0,
            hits: 0,
        }
    }

    /// What the next session finds, after this one ended: mostly the SSD as it was left.
    fn next(&mut self) -> Option<SsdSource> {
        let left = Arc::new(self.now.crashed());
        let seed = self.random.next();
        self.now = match self.random.below(9) {
            // Stale: sessions have passed since.
            0 => Arc::new(CrashingDevice::with_image(self.older.clone(), 4096, seed)),
            1 => {
                self.damage(&left);
                left
            }
            // Lost, and with it what it held.
            2 => Arc::new(CrashingDevice::new(SSD_BYTES, 4096, seed)),
            _ => left,
        };
        if self.random.below(3) == 0 {
            self.older = self.now.image();
        }
        self.lz4 ^= self.random.below(10) == 0;
        if self.random.below(10) == 0 {
            self.fpi = FPI[self.random.below(7) as usize];
        }
        // It may miss a session.
        (self.random.below(6) > 0).then(|| self.source())
    }

    fn source(&self) -> SsdSource {
        SsdSource::new(Arc::clone(&self.now), SsdOptions { lz4: self.lz4, fpi: self.fpi, ..options() })
    }

    /// Changes some bytes anywhere: rarely in the superblocks.
    fn damage(&mut self, device: &CrashingDevice) {
        for _ in 0..1 + self.random.below(200) {
            let at = self.random.below(SSD_BYTES / 512) * 512;
            device.damage(at, &[self.random.next() as u8; 64]);
        }
    }

    fn note(&mut self, store: &Store<CrashingDevice>) {
        let Some(stats) = store.ssd_stats() else { return };
        self.kept += u64::from(stats.state == SsdState::Kept);
        self.short += stats.short.map_or(0, |short| short.found);
        self.hits += stats.pieces.iter().map(|pieces| pieces.hits).sum::<u64>();
    }

    /// What may happen to an SSD while its store is in use.
    async fn happen(&mut self, world: &World) {
        match self.random.below(500) {
            0 => drop(world.store.detach_ssd()),
            1 => {
                self.now = Arc::new(CrashingDevice::new(SSD_BYTES, 4096, self.random.next()));
                world.store.attach_ssd(self.source()).await.unwrap();
            }
            2 => {
                let device = Arc::clone(&self.now);
                self.damage(&device);
            }
            3 => self.now.fail_power_after(self.random.below(4)),
            _ => {}
        }
    }
}

async fn open(world: &mut World, ssds: &mut Ssds) {
    let store = Store::open_with_ssd(Arc::clone(&world.device), settings(), ssds.next()).await.unwrap();
    world.store = Arc::new(store);
}

/// Both lose power, or the store is closed.
async fn restart(world: &mut World, ssds: &mut Ssds) {
    let closed = match world.random.below(2) {
        0 => world.store.close().await.is_ok(),
        _ => false,
    };
    ssds.note(&world.store);
    if closed {
        world.model.committed();
    }
    world.device = Arc::new(world.device.crashed());
    open(world, ssds).await;
    world.model.restarted(&world.store).await;
}

#[test]
fn random_operations_with_an_ssd_that_may_be_in_any_state() {
    let (mut kept, mut hits, mut short) = (0, 0, 0);
    let tried = seeds(16);
    let is_one = tried.end - tried.start == 1;
    for seed in tried {
        let _again = again(seed, "ssd::random_operations_with_an_ssd_that_may_be_in_any_state");
        block_on(async {
            let mut world = World::new(seed).await;
            let mut ssds = Ssds::new(seed);
            world.store.attach_ssd(ssds.source()).await.unwrap();
            for _ in 0..6 {
                if world.random.below(2) == 0 {
                    let left = 20 + world.random.below(2000);
                    world.device.fail_power_after(left);
                }
                for step in 0..120 {
                    ssds.happen(&world).await;
                    match world.step().await {
                        Ok(()) => {}
                        Err(Error::Full { .. }) => panic!("full at step {step}"),
                        Err(error @ (Error::Missing { .. } | Error::Damaged { .. })) => {
                            assert!(world.device.flush().await.is_err(), "{error}");
                            break;
                        }
                        Err(error) => {
                            assert!(world.device.flush().await.is_err(), "without reason: {error}");
                            break;
                        }
                    }
                }
                restart(&mut world, &mut ssds).await;
            }
            ssds.note(&world.store);
            (kept, hits, short) = (kept + ssds.kept, hits + ssds.hits, short + ssds.short);
        });
    }
    let all = format!("{kept} SSDs were kept, {hits} look-ups hit, {short} found short fingerprints");
    println!("{all}");
    assert!(is_one || kept > 3 && hits > 100 && short > 100, "{all}");
}

/// A store with a volume of `count` chunks, which is opened again so that nothing is in RAM.
async fn filled(device: &Arc<CrashingDevice>, count: u64) -> Arc<Store<CrashingDevice>> {
    let store = Arc::new(Store::create(Arc::clone(device), &plan(24 << 20, 3), settings()).await.unwrap());
    store.create_volume("a", count * CHUNK as u64, None, 1).await.unwrap();
    let all: Vec<u64> = (1..=count).map(|n| n * 2).collect();
    store.open_volume("a").await.unwrap().write_padded(0, bytes_of(&all)).await.unwrap();
    store
}

/// Reads all chunks of a volume that was [filled], each by itself, in a scattered order.
async fn read_all<D: Device>(store: &Arc<Store<D>>, count: u64) {
    let volume = store.open_volume("a").await.unwrap();
    for n in 0..count {
        let index = n * 467 % count;
        let read = volume.read_range(index * CHUNK as u64, CHUNK).await.unwrap();
        assert!(read == bytes_of(&[(index + 1) * 2]), "chunk {index}");
    }
}

#[test]
fn what_was_read_at_random_comes_from_the_ssd_also_after_a_restart() {
    block_on(async {
        const COUNT: u64 = 400;
        let (device, ssd) =
            (Arc::new(CrashingDevice::new(24 << 20, 4096, 1)), Arc::new(CrashingDevice::new(SSD_BYTES, 4096, 2)));
        filled(&device, COUNT).await.close().await.unwrap();
        let open =
            async || Arc::new(Store::open_with_ssd(Arc::clone(&device), settings(), Some(source(&ssd))).await.unwrap());
        let store = open().await;
        read_all(&store, COUNT).await;
        let before = store.counters();
        read_all(&store, COUNT).await;
        assert_eq!(store.counters().region_reads, before.region_reads, "the disk is asked");
        let stats = store.ssd_stats().unwrap();
        assert!(stats.pieces[2].hits >= COUNT && stats.pieces[2].pieces >= COUNT, "{stats:?}");
        store.close().await.unwrap();
        drop(store);
        let store = open().await;
        assert_eq!(store.ssd_stats().unwrap().state, SsdState::Kept);
        read_all(&store, COUNT).await;
        assert_eq!((store.counters().region_reads, store.counters().recipe_reads), (0, 0), "{:?}", store.ssd_stats());
        // It misses a session.
        store.close().await.unwrap();
        drop(store);
        Store::open(Arc::clone(&device), settings()).await.unwrap().close().await.unwrap();
        let store = open().await;
        assert!(matches!(store.ssd_stats().unwrap().state, SsdState::Emptied { .. }));
        read_all(&store, COUNT).await;
        store.close().await.unwrap();
        drop(store);
        // It is another store's, which was closed in order.
        let other = Arc::new(CrashingDevice::new(24 << 20, 4096, 7));
        let store = Store::create(Arc::clone(&other), &plan(24 << 20, 99), settings()).await.unwrap();
        store.close().await.unwrap();
        let store = Store::open_with_ssd(other, settings(), Some(source(&ssd))).await.unwrap();
        let state = store.ssd_stats().unwrap().state;
        assert!(matches!(&state, SsdState::Emptied { why } if why.contains("another store")), "{state:?}");
    });
}

#[test]
fn an_ssd_with_another_choice_for_the_index_is_emptied() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(24 << 20, 4096, 1));
        filled(&device, 400).await.close().await.unwrap();
        let ssd = Arc::new(CrashingDevice::new(SSD_BYTES, 4096, 2));
        let mut last = None;
        for fpi in [Fpi::Short, Fpi::Short, Fpi::Pages, Fpi::Pages, Fpi::Off, Fpi::Short, Fpi::Short, Fpi::Off] {
            let source = SsdSource::new(Arc::clone(&ssd), SsdOptions { fpi, ..options() });
            let store = Store::open_with_ssd(Arc::clone(&device), settings(), Some(source)).await.unwrap();
            let store = Arc::new(store);
            let stats = store.ssd_stats().unwrap();
            // Pages of the index are not used after a restart, so that an SSD with them is as one without.
            let was_short = last.map(|last| last == Fpi::Short);
            match was_short {
                Some(was) if was == (fpi == Fpi::Short) => assert_eq!(stats.state, SsdState::Kept, "{fpi:?}"),
                Some(_) => {
                    let is_told =
                        matches!(&stats.state, SsdState::Emptied { why } if why.contains("fingerprint index"));
                    assert!(is_told, "{last:?}, {fpi:?}: {stats:?}");
                }
                None => {}
            }
            assert_eq!(stats.short.is_some(), fpi == Fpi::Short);
            read_all(&store, 400).await;
            store.close().await.unwrap();
            last = Some(fpi);
        }
    });
}

/// A stream in chunks of many sizes, most of which shrink.
fn uneven(bytes: usize) -> Bytes {
    let mut random = Rng::new(3);
    let mut data = vec![0; bytes];
    for part in data.chunks_mut(1024) {
        let filled = random.below(part.len() as u64 + 1) as usize;
        part[..filled].iter_mut().for_each(|byte| *byte = random.next() as u8);
    }
    data.into()
}

#[test]
fn compressed_chunks_take_less_of_the_ssd_and_come_back() {
    const STREAM_BYTES: usize = 2 << 20;
    block_on(async {
        let device = Arc::new(CrashingDevice::new(24 << 20, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(24 << 20, 3), settings()).await.unwrap());
        let stream = uneven(STREAM_BYTES);
        import(&store, "stream", &stream).await;
        store.create_volume("vm", 400 * CHUNK as u64, None, 1).await.unwrap();
        // Three quarters of the chunks shrink by half.
        let contents: Vec<u64> = (1..=400).map(|n| n * 2 + u64::from(n % 4 > 0)).collect();
        store.open_volume("vm").await.unwrap().write_padded(0, bytes_of(&contents)).await.unwrap();
        store.close().await.unwrap();
        drop(store);
        let mut kept = Vec::new();
        for lz4 in [false, true] {
            let ssd = Arc::new(CrashingDevice::new(SSD_BYTES, 4096, 2));
            for session in 0..2 {
                let source = Some(source_with(&ssd, lz4));
                let store = Arc::new(Store::open_with_ssd(Arc::clone(&device), settings(), source).await.unwrap());
                let (volume, streamed) =
                    (store.open_volume("vm").await.unwrap(), store.open_volume("stream").await.unwrap());
                for step in 0..800_u64 {
                    let index = (step * 467 % 400) as usize;
                    let read = volume.read_range((index * CHUNK) as u64, CHUNK).await.unwrap();
                    assert!(read == bytes_of(&contents[index..=index]), "chunk {index} in session {session}");
                    let at = (step * 771_427) as usize % (STREAM_BYTES - 6000);
                    let read = streamed.read_range(at as u64, 6000).await.unwrap();
                    assert!(read == stream[at..at + 6000], "the stream at {at} in session {session}");
                }
                let stats = store.ssd_stats().unwrap();
                let is_kept = stats.state == SsdState::Kept;
                assert!(is_kept == (session > 0) && stats.damaged == 0 && stats.read_errors == 0, "{stats:?}");
                assert!(stats.pieces[2].hits > 400, "{stats:?}");
                kept.push(stats);
                store.close().await.unwrap();
            }
            // With the other setting, its contents are not used.
            let other = Some(source_with(&ssd, !lz4));
            let store = Store::open_with_ssd(Arc::clone(&device), settings(), other).await.unwrap();
            let state = store.ssd_stats().unwrap().state;
            assert!(matches!(&state, SsdState::Emptied { why } if why.contains("compression")), "{state:?}");
            store.close().await.unwrap();
        }
        let [_, plain, _, packed] = &kept[..] else { panic!("four sessions") };
        println!("plain: {plain:?}\npacked: {packed:?}");
        assert!(packed.written_bytes < plain.written_bytes, "{packed:?}");
    });
}

#[test]
fn an_ssd_that_hangs_or_fails_is_left_and_the_disk_answers() {
    const COUNT: u64 = 400;
    for effect in [Effect::Hang, Effect::Fail(ErrorKind::Io)] {
        for operation in [Operation::Read, Operation::Write, Operation::Flush] {
            let clock = VirtualTime::default();
            let run = async {
                let device = Arc::new(CrashingDevice::new(24 << 20, 4096, 1));
                filled(&device, COUNT).await.close().await.unwrap();
                let ssd = FaultyDevice::new(CrashingDevice::new(SSD_BYTES, 4096, 2), clock.clone(), 3);
                let faults = ssd.faults();
                let source = SsdSource::new(ssd, options()).within(clock.clone(), LIMIT);
                let store = Store::open_with_ssd(Arc::clone(&device), settings(), Some(source)).await.unwrap();
                let store = Arc::new(store);
                read_all(&store, COUNT / 2).await;
                faults.inject(Fault::new(effect).on(operation));
                let begun = clock.now();
                read_all(&store, COUNT).await;
                read_all(&store, COUNT).await;
                store.close().await.unwrap();
                let stats = store.ssd_stats().unwrap();
                let SsdState::Failed { why } = stats.state else { panic!("{effect:?} {operation:?}: {stats:?}") };
                let waited = clock.now() - begun;
                assert_eq!(waited, if effect == Effect::Hang { LIMIT } else { Duration::ZERO }, "{operation:?}");
                assert!(effect != Effect::Hang || why.contains("no answer in time"), "{why}");
                // What it holds is not used again, and a store whose SSD hangs from the start opens without it.
                drop(store);
                let ssd = FaultyDevice::new(CrashingDevice::new(SSD_BYTES, 4096, 2), clock.clone(), 3);
                ssd.faults().inject(Fault::new(effect).on(operation));
                let source = SsdSource::new(ssd, options()).within(clock.clone(), LIMIT);
                let store = Store::open_with_ssd(device, settings(), Some(source)).await.unwrap();
                assert!(store.ssd_stats().is_none(), "{effect:?} {operation:?}");
                read_all(&Arc::new(store), COUNT).await;
            };
            clock.try_run(run).unwrap_or_else(|| panic!("{effect:?} {operation:?}: something waits for ever"));
        }
    }
}
