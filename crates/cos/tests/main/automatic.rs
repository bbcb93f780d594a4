//! Collections that begin by themselves, and writes that wait for them.

use crate::model::{CHUNK, again, bytes_of, plan, settings};
use futures_executor::block_on;
use futures_util::future::{Either, join, join_all, select};
use nitro_cos::{AutoCollector, CollectOptions, Error, Store, Volume};
use nitro_port::Clock;
use nitro_port::yielding::yield_now;
use nitro_testkit::{CrashingDevice, Rng, Simulation, VirtualTime, seeds, trace};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

const SIZE_BYTES: u64 = 12 << 20;
/// A store of few containers.
const SIZE_BYTES_SMALL: u64 = 4 << 20;
const WRITERS: u64 = 4;
/// Far more than any of these tests takes.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

type CrashingStore = Arc<Store<CrashingDevice>>;

async fn create(seed: u64, size_bytes: u64, chunks: u64) -> (CrashingStore, Volume<CrashingDevice>) {
    let device = Arc::new(CrashingDevice::new(size_bytes, 4096, seed));
    let store = Arc::new(Store::create(device, &plan(size_bytes, seed), settings()).await.unwrap());
    store.create_volume("v", chunks * CHUNK as u64, None, 1).await.unwrap();
    let volume = store.open_volume("v").await.unwrap();
    (store, volume)
}

/// The number of chunks for which a container of a test's store has room if they do not shrink: three regions of four.
const CHUNKS_PER_CONTAINER: u64 = 12;

/// Runs `work` while the store collects by itself, as in a server.
async fn with_collector<T>(store: &CrashingStore, clock: &VirtualTime, work: impl Future<Output = T>) -> T {
    let collecting = async {
        let mut collector = AutoCollector::of(store).unwrap();
        while clock.now() < TIME_MAX {
            collector.wait(clock).await;
            let checked = collector.check(store, clock).await;
            trace(|| format!("{:?}: {:?} {:?}", clock.now(), store.stats().containers_used, checked));
            if let Some(Err(error)) = checked {
                assert!(error.is_full(), "{error}");
            }
        }
    };
    match select(pin!(work), pin!(collecting)).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => panic!("writes wait for ever"),
    }
}

/// A content that does not shrink, and is not stored yet.
fn new_content(random: &mut Rng) -> u64 {
    2 * (1 + random.below(1 << 40))
}

#[test]
fn a_volume_is_overwritten_for_ever_in_a_store_that_collects_by_itself() {
    for seed in seeds(10) {
        let replay = again(seed, "automatic::a_volume_is_overwritten_for_ever_in_a_store_that_collects_by_itself");
        let simulation = Simulation::new(seed);
        let clock = &simulation.clock.clone();
        simulation.run(async {
            // Up to three quarters of the room are live; in a small store, of which open containers take much, up to
            // three eighths.
            let (size_bytes, share_max) = if seed % 2 == 0 { (SIZE_BYTES, 12) } else { (SIZE_BYTES_SMALL, 6) };
            let share = 4 + Rng::new(seed).below(share_max - 3);
            let room = u64::from(create(seed, size_bytes, 1).await.0.stats().containers) * CHUNKS_PER_CONTAINER;
            let chunks = room * share / 16 / WRITERS * WRITERS;
            let (store, volume) = create(seed, size_bytes, chunks).await;
            let each = chunks / WRITERS;
            let writers = (0..WRITERS).map(|writer| {
                let (store, volume) = (&store, volume.in_lane(writer as usize));
                async move {
                    let mut random = Rng::new(seed * WRITERS + writer);
                    let mut written = vec![0; each as usize];
                    for step in 0..8 * room / WRITERS {
                        let index = random.below(each);
                        let number = new_content(&mut random);
                        let offset = (writer * each + index) * CHUNK as u64;
                        volume.write_range(offset, bytes_of(&[number])).await.unwrap();
                        written[index as usize] = number;
                        if step % 64 == 0 {
                            store.commit().await.unwrap();
                            clock.sleep(Duration::from_millis(random.below(40))).await;
                        }
                    }
                    written
                }
            });
            let written = with_collector(&store, clock, join_all(writers)).await;
            let counters = store.counters();
            assert!(counters.collections > 1, "{counters:?}");
            store.close().await.unwrap();
            let expected: Vec<u64> = written.into_iter().flatten().collect();
            let read = volume.read_range(0, expected.len() * CHUNK).await.unwrap();
            assert!(read == bytes_of(&expected));
            assert!(store.check(&|_, _, _| ()).await.unwrap().is_clean());
        });
        drop(replay);
    }
}

#[test]
fn a_store_that_is_full_of_live_data_refuses_writes_without_collecting_for_each() {
    const REFUSED: u64 = 500;
    let simulation = Simulation::new(5);
    let clock = &simulation.clock.clone();
    simulation.run(async {
        let (store, volume) = create(5, SIZE_BYTES, 1 << 20).await;
        let writing = async {
            let mut random = Rng::new(5);
            let (mut index, mut refused) = (0, 0);
            while refused < REFUSED {
                let content = bytes_of(&[new_content(&mut random)]);
                match volume.write_range(index * CHUNK as u64, content).await {
                    Ok(()) => index += 1,
                    Err(Error::Full { .. }) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                clock.sleep(Duration::from_millis(10)).await;
            }
            // Nobody changes anything.
            clock.sleep(Duration::from_secs(60)).await;
            let before = store.counters().collections;
            clock.sleep(Duration::from_secs(3600)).await;
            assert_eq!(store.counters().collections, before);
            // What is removed makes room, at the latest after the pause.
            volume.zero_range(0, index * CHUNK as u64).await.unwrap();
            clock.sleep(Duration::from_secs(20)).await;
            volume.write_range(0, bytes_of(&[new_content(&mut random)])).await.unwrap();
        };
        with_collector(&store, clock, writing).await;
        let collections = store.counters().collections;
        // Those while it was being filled, and one in ten seconds.
        assert!((2..REFUSED / 10).contains(&collections), "{collections}");
    });
}

#[test]
fn a_write_waits_for_room_as_long_as_there_is_who_makes_it() {
    let simulation = Simulation::new(6);
    let clock = &simulation.clock.clone();
    simulation.run(async {
        let (store, volume) = create(6, SIZE_BYTES, 1 << 20).await;
        let mut random = Rng::new(6);
        let mut index = 0;
        while volume.write_range(index * CHUNK as u64, bytes_of(&[new_content(&mut random)])).await.is_ok() {
            index += 1;
        }
        let collector = AutoCollector::of(&store).unwrap();
        let mut writing = pin!(volume.write_range(0, bytes_of(&[new_content(&mut random)])));
        // Nobody has it look.
        let mut hour = pin!(clock.sleep(Duration::from_secs(3600)));
        assert!(matches!(select(writing.as_mut(), hour.as_mut()).await, Either::Right(_)));
        drop(collector);
        assert!(writing.await.is_err_and(|error| error.is_full()));
    });
}

#[test]
fn a_collection_that_is_stopped_has_lost_nothing() {
    const CHUNKS: u64 = 600;
    block_on(async {
        let (store, volume) = create(7, SIZE_BYTES, CHUNKS).await;
        let mut random = Rng::new(7);
        let (mut stopped, mut ended) = (0, 0);
        let mut written = vec![0; CHUNKS as usize];
        for round in 0..60 {
            for _ in 0..CHUNKS / 4 {
                let index = random.below(CHUNKS);
                written[index as usize] = new_content(&mut random);
                let content = bytes_of(&[written[index as usize]]);
                volume.write_range(index * CHUNK as u64, content).await.unwrap();
            }
            let polls = random.below(6000);
            let stop = async {
                for _ in 0..polls {
                    yield_now().await;
                }
                store.stop_collection();
            };
            match join(store.collect(&CollectOptions::default(), &|_, _, _| ()), stop).await.0 {
                Ok(_) => ended += 1,
                Err(Error::Busy(_)) => stopped += 1,
                Err(error) => panic!("{error}"),
            }
            let read = volume.read_range(0, written.len() * CHUNK).await.unwrap();
            assert!(read == bytes_of(&written), "in round {round}");
        }
        assert!(stopped > 3 && ended > 3, "{stopped} were stopped, {ended} not");
        store.collect(&CollectOptions::default(), &|_, _, _| ()).await.unwrap();
        store.close().await.unwrap();
        assert!(store.check(&|_, _, _| ()).await.unwrap().is_clean());
    });
}
