//! Several workers insert the extents of a cache: they prepare extents at the same time, and append them in the order of
//! their arrival.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use futures_util::future::join;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::format::superblock::Superblock;
use nitro_engine::format::weu::Head;
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, EngineSettings, NoIndex, Volume, VolumeOptions, WriteMode};
use nitro_port::{Clock, Device, Operation};
use nitro_testkit::{Rng, Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestCache = Arc<Cache<Erased, VirtualTime>>;
type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 1000;
const WEU_BYTES: u32 = 512 << 10;
/// More than a unit holds: the first of them are on the SSD.
const BEFORE: u64 = 100;
/// A read of the SSD that takes as long as this holds one worker up.
const SLOW: Duration = Duration::from_secs(1);

/// Noise, which does not shrink.
fn content(number: u64) -> Bytes {
    let mut rng = Rng::new(number + 1);
    (0..EXTENT / 8).flat_map(|_| rng.next().to_le_bytes()).collect::<Vec<_>>().into()
}

fn format(sim: &Rc<Simulation>, seed: u64) -> (TestCache, TestVolume) {
    let manager = Settings { weu_bytes: WEU_BYTES, ..Settings::new(8 << 20) };
    let settings = EngineSettings { ram_cache_bytes: 0, readahead_ram_bytes: 0, ..EngineSettings::new(manager) };
    let flash = faulty(RamDevice::new(16 << 20, 512), sim.clock.clone(), seed);
    let cache = sim.run(Cache::format(flash, sim.clock.clone(), settings, [0; 16], seed)).unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode: WriteMode::WriteThrough };
    let volume = Volume::new(cache.clone(), Erased::new(RamDevice::new(EXTENTS * EXTENT, 512)), options);
    (cache, volume)
}

async fn write(volume: &TestVolume, index: u64, number: u64) {
    volume.write(index * EXTENT, content(number), false).await.unwrap();
}

/// A cache with two workers, which holds some extents already; the number of its workers, and of the one for dirty
/// extents, that are at work.
fn with_two_workers(sim: &Rc<Simulation>) -> (TestCache, TestVolume, Rc<Cell<usize>>) {
    let (cache, volume) = format(sim, 7);
    let at_work = Rc::new(Cell::new(3));
    let ended = |at_work: &Rc<Cell<usize>>| at_work.set(at_work.get() - 1);
    for _ in 0..2 {
        let (cache, at_work) = (cache.clone(), at_work.clone());
        sim.spawn(async move {
            cache.clean_insertion_worker(&NoIndex).await;
            ended(&at_work);
        });
    }
    let (dirty, counter) = (cache.clone(), at_work.clone());
    sim.spawn(async move {
        dirty.dirty_insertion_worker().await;
        ended(&counter);
    });
    let filling = volume.clone();
    sim.run(async move {
        for index in 0..BEFORE {
            write(&filling, index, index).await;
        }
        filling.cache().settled().await;
    });
    (cache, volume, at_work)
}

/// Content that a worker has to wait for: extent 0, on the SSD, of which a part is written; and then extents from 200 on
/// that are ready at once. The last of them equals the whole of extent 0. Returns their number.
async fn write_after_a_slow_one(volume: &TestVolume) -> u64 {
    volume.cache().flash().faults().inject(Fault::new(Effect::Delay(SLOW)).on(Operation::Read).times(1));
    volume.write(0, content(9000).slice(..512), false).await.unwrap();
    for index in 200..220 {
        write(volume, index, index).await;
    }
    let merged = [content(9000).slice(..512), content(0).slice(512..)].concat();
    volume.write(220 * EXTENT, merged.into(), false).await.unwrap();
    22
}

/// The indexes of the extents in each unit on the SSD, in their order there.
async fn in_units(cache: &TestCache) -> Vec<Vec<u64>> {
    let superblock: Superblock = Cache::<Erased, VirtualTime>::probe(cache.flash()).await.unwrap();
    let mut units = Vec::new();
    for weu in 0..superblock.weu_count {
        let offset = superblock.data_offset + u64::from(weu) * u64::from(WEU_BYTES);
        let unit = cache.flash().read(offset, WEU_BYTES as usize).await.unwrap();
        let Ok(head) = Head::decode(&unit, WEU_BYTES) else { continue };
        let entries = head.decode_table(&unit[head.table_offset as usize..], WEU_BYTES).unwrap();
        units.push(entries.iter().map(|entry| entry.key.index().0).collect());
    }
    units
}

#[test]
fn extents_enter_the_cache_in_the_order_of_their_arrival_though_the_first_is_slow() {
    let sim = Simulation::new(3);
    let (cache, volume, at_work) = with_two_workers(&sim);
    let (clock, inserting) = (sim.clock.clone(), cache.clone());
    let units = sim.run(async move {
        let before = inserting.status().manager.base_entries;
        let count = write_after_a_slow_one(&volume).await;
        clock.sleep(SLOW / 2).await;
        // The first one is not ready. All others wait for it, and are served from RAM.
        assert_eq!(inserting.status().manager.base_entries, before, "none may be appended before the first");
        assert!(volume.read(210 * EXTENT, EXTENT).await.unwrap().concat() == content(210));
        inserting.settled().await;
        let status = inserting.status().manager;
        assert_eq!((status.base_entries, status.dup_entries), (before + count - 1, 1));
        inserting.close();
        while at_work.get() > 0 {
            clock.sleep(Duration::from_millis(1)).await;
        }
        in_units(&inserting).await
    });
    // The other key of the content of extent 0 came last: it is the duplicate.
    let expected: Vec<u64> = std::iter::once(0).chain(200..220).collect();
    let found: Vec<_> = units.iter().map(|unit| unit[unit.len() - expected.len()..].to_vec()).collect();
    assert!(found.contains(&expected), "{found:?}");
    assert!(
        !units.iter().flatten().any(|index| *index == 220),
        "the content that came first is the one that is stored"
    );
}

#[test]
fn what_is_queued_when_the_cache_is_closed_is_inserted_by_all_workers() {
    for seed in 0..8 {
        let sim = Simulation::new(seed);
        let (cache, volume, at_work) = with_two_workers(&sim);
        let (clock, inserting) = (sim.clock.clone(), cache.clone());
        let units = sim.run(async move {
            write_after_a_slow_one(&volume).await;
            inserting.close();
            clock.sleep(SLOW / 2).await;
            assert_eq!(at_work.get(), 2, "a worker has nothing to do; the others wait for the slow extent");
            while at_work.get() > 0 {
                clock.sleep(Duration::from_millis(1)).await;
            }
            in_units(&inserting).await
        });
        for index in std::iter::once(0).chain(200..220) {
            assert!(units.iter().flatten().any(|found| *found == index), "seed {seed}: extent {index} is on no unit");
        }
    }
}

#[test]
fn a_pool_goes_on_for_other_caches_when_one_is_closed() {
    let sim = Simulation::new(5);
    let [(one, first), (other, second)] = [11, 12].map(|seed| format(&sim, seed));
    let at_work = Rc::new(Cell::new(4));
    // As the server's threads: each is a worker of both caches.
    for _ in 0..2 {
        let (one, other, at_work) = (one.clone(), other.clone(), at_work.clone());
        sim.spawn(async move {
            let worker = async |cache: TestCache| {
                cache.clean_insertion_worker(&NoIndex).await;
                at_work.set(at_work.get() - 1);
            };
            join(worker(one), worker(other)).await;
        });
    }
    for cache in [&one, &other] {
        let dirty = cache.clone();
        sim.spawn(async move { dirty.dirty_insertion_worker().await });
    }
    let clock = sim.clock.clone();
    sim.run(async move {
        for index in 0..60 {
            write(&first, index, index).await;
            write(&second, index, index).await;
        }
        one.close();
        for index in 60..120 {
            write(&second, index, index).await;
        }
        other.settled().await;
        while at_work.get() > 2 {
            clock.sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(at_work.get(), 2, "both workers of the other cache are at work");
        assert_eq!(other.status().manager.base_entries, 120);
        let stored: usize = in_units(&one).await.iter().map(Vec::len).sum();
        assert_eq!(stored, 60, "all of the closed cache is on its SSD");
        write(&first, 70, 70).await;
        other.close();
        while at_work.get() > 0 {
            clock.sleep(Duration::from_millis(1)).await;
        }
        let stored: usize = in_units(&other).await.iter().map(Vec::len).sum();
        assert_eq!(stored, 120);
    });
}
