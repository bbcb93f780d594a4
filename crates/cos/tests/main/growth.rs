//! Growth: killed at each step, beside everything else, by itself, and without room for it.

use crate::crash::{Outcome, World};
use crate::model::{CHUNK, again, bytes_of, plan, settings};
use futures_executor::block_on;
use futures_util::future::{Either, join, select};
use nitro_cos::{AutoCollector, Error, Plan, Store, StoreOptions};
use nitro_port::Device;
use nitro_port::codec::Compression;
use nitro_testkit::{CrashingDevice, Simulation, seeds, trace};
use std::pin::pin;
use std::sync::Arc;

const SIZE_BYTES: u64 = 12 << 20;
const DEVICE_BYTES: u64 = 64 << 20;
const CHUNKS: u64 = 300;

type CrashingStore = Arc<Store<CrashingDevice>>;

async fn open(device: &Arc<CrashingDevice>) -> CrashingStore {
    Arc::new(Store::open(Arc::clone(device), settings()).await.unwrap())
}

async fn grow(store: &CrashingStore, bytes: u64) -> Result<(), Error> {
    store.grow(bytes, &|_, _, _| ()).await
}

/// The content of the volume in whose name the shift is.
fn numbers(shift: u64) -> Vec<u64> {
    (0..CHUNKS).map(|index| 1 + shift * 10_000 + index).collect()
}

async fn write(store: &CrashingStore, name: &str, shift: u64) {
    store.create_volume(name, CHUNKS * CHUNK as u64, None, 1).await.unwrap();
    let volume = store.open_volume(name).await.unwrap();
    volume.write_range(0, bytes_of(&numbers(shift))).await.unwrap();
}

async fn check(store: &CrashingStore, name: &str, shift: u64) {
    let volume = store.open_volume(name).await.unwrap();
    let read = volume.read_range(0, CHUNKS as usize * CHUNK).await.unwrap();
    assert!(read == bytes_of(&numbers(shift)), "{name}");
}

/// A store with two volumes on the first part of a device, closed.
async fn image(seed: u64) -> Vec<u8> {
    let device = Arc::new(CrashingDevice::new(DEVICE_BYTES, 4096, seed));
    let store = Store::create(Arc::clone(&device), &plan(SIZE_BYTES, seed), settings()).await.unwrap();
    let store = Arc::new(store);
    write(&store, "a", 0).await;
    write(&store, "b", 1).await;
    store.close().await.unwrap();
    device.image()
}

#[test]
fn growth_is_killed_at_each_step_and_nothing_is_lost() {
    block_on(async {
        let image = image(3).await;
        let (mut before, mut after) = (0, 0);
        for step in 0.. {
            let device = Arc::new(CrashingDevice::with_image(image.clone(), 4096, step));
            let store = open(&device).await;
            let old = store.size_bytes();
            write(&store, "c", 2).await;
            store.commit().await.unwrap();
            device.fail_power_after(step);
            let grown = grow(&store, 2 * SIZE_BYTES).await;
            let is_durable = grown.is_ok() && store.commit().await.is_ok();
            drop(store);
            let device = Arc::new(device.crashed());
            let store = open(&device).await;
            let is_larger = store.size_bytes() > old;
            assert!(is_larger || !is_durable, "step {step}: the growth is gone");
            *(if is_larger { &mut after } else { &mut before }) += 1;
            for (name, shift) in [("a", 0), ("b", 1), ("c", 2)] {
                check(&store, name, shift).await;
            }
            // What is there is found: by the index that counts.
            let stored = store.counters().stored_chunks;
            write(&store, "again", 0).await;
            let new = store.counters().stored_chunks - stored;
            assert!(new < CHUNKS / 4, "step {step}: {new} chunks were not found");
            write(&store, "d", 3).await;
            if !is_larger {
                grow(&store, 2 * SIZE_BYTES).await.unwrap();
            }
            grow(&store, 4 * SIZE_BYTES).await.unwrap();
            write(&store, "e", 4).await;
            store.close().await.unwrap();
            let store = open(&device).await;
            for (name, shift) in [("a", 0), ("b", 1), ("c", 2), ("d", 3), ("e", 4), ("again", 0)] {
                check(&store, name, shift).await;
            }
            assert!(store.check(&|_, _, _| ()).await.unwrap().is_clean(), "step {step}");
            if is_durable {
                break;
            }
        }
        assert!(before > 20 && after > 1, "{before} before, {after} after");
    });
}

#[test]
fn random_operations_growth_collections_and_power_failures() {
    for seed in seeds(20) {
        let _again = again(seed, "growth::random_operations_growth_collections_and_power_failures");
        block_on(async {
            let mut world = World::on(DEVICE_BYTES, seed).await;
            for _ in 0..5 {
                let left = 50 + world.random.below(1500);
                world.device.fail_power_after(left);
                for _ in 0..120 {
                    let stepped = match world.random.below(20) {
                        0 => grow_beside(&mut world).await,
                        _ => world.step().await,
                    };
                    match stepped {
                        Ok(()) => {}
                        Err(Error::Full { .. }) => panic!("full"),
                        Err(error @ (Error::Missing { .. } | Error::Damaged { .. })) => {
                            assert!(world.device.flush().await.is_err(), "{error}");
                            break;
                        }
                        Err(_) => break,
                    }
                }
                world.crash().await;
            }
            world.store.checkpoint().await.unwrap();
            assert!(world.store.check(&|_, _, _| ()).await.unwrap().is_clean());
        });
    }
}

async fn grow_beside(world: &mut World) -> Outcome {
    let store = Arc::clone(&world.store);
    let bytes = store.size_bytes() + ((4 + world.random.below(8)) << 20);
    let growing = async {
        match grow(&store, bytes).await {
            // It has all of the device already.
            Err(Error::Setting { .. }) => Ok(()),
            grown => grown,
        }
    };
    world.beside(growing).await
}

/// A store of few containers that grows by itself.
fn small(grows_to: u64) -> Plan {
    let options = StoreOptions {
        size_bytes: 4 << 20,
        chunk_bytes: CHUNK as u32,
        region_bytes: 16 << 10,
        container_bytes: 64 << 10,
        compression: Compression::None,
        journal_bytes: Some(64 << 10),
    };
    Plan::new(&options, 5, 6).unwrap().growing_to(grows_to)
}

#[test]
fn a_store_grows_by_itself_up_to_its_maximum_and_then_is_full() {
    const MAX: u64 = 24 << 20;
    let simulation = Simulation::new(1);
    let clock = simulation.clock.clone();
    simulation.run(async {
        let device = Arc::new(CrashingDevice::new(DEVICE_BYTES, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &small(MAX), settings()).await.unwrap());
        store.create_volume("v", DEVICE_BYTES, None, 1).await.unwrap();
        let volume = store.open_volume("v").await.unwrap();
        assert!(store.size_bytes() <= 4 << 20 && store.grows_to() == Some(MAX));
        let filling = async {
            let mut sizes = vec![store.size_bytes()];
            for number in 0_u64.. {
                let numbers: Vec<u64> = (0..50).map(|i| 2 * (1 + number * 50 + i)).collect();
                let written = volume.write_range(number * 50 * CHUNK as u64, bytes_of(&numbers)).await;
                sizes.extend(Some(store.size_bytes()).filter(|size| sizes.last() != Some(size)));
                match written {
                    Ok(()) => {}
                    Err(error) => return (number, error, sizes),
                }
            }
            unreachable!("the store has a maximum")
        };
        let growing = async {
            let mut collector = AutoCollector::growing(&store);
            loop {
                collector.wait(&clock).await;
                let checked = collector.check(&store, &clock).await;
                trace(|| format!("{} bytes, {:?}: {checked:?}", store.size_bytes(), store.stats().containers_used));
            }
        };
        let (written, error, sizes) = match select(pin!(filling), pin!(growing)).await {
            Either::Left((done, _)) => done,
            Either::Right((never, _)) => never,
        };
        assert!(error.is_full(), "{error}");
        assert!(sizes.len() >= 3 && sizes.is_sorted() && sizes.last().is_some_and(|size| *size <= MAX), "{sizes:?}");
        assert!(written * 50 * CHUNK as u64 > MAX / 2, "{written}: {sizes:?}");
        store.close().await.unwrap();
        drop(volume);
        let store = open(&device).await;
        let volume = store.open_volume("v").await.unwrap();
        for number in 0..written {
            let numbers: Vec<u64> = (0..50).map(|i| 2 * (1 + number * 50 + i)).collect();
            assert!(volume.read_range(number * 50 * CHUNK as u64, 50 * CHUNK).await.unwrap() == bytes_of(&numbers));
        }
        assert!(store.check(&|_, _, _| ()).await.unwrap().is_clean());
    });
}

#[test]
fn without_room_for_it_a_store_stays_as_it_is() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(DEVICE_BYTES, 4096, 1));
        device.set_room(DEVICE_BYTES);
        let store = Store::create(Arc::clone(&device), &plan(SIZE_BYTES, 7), settings()).await.unwrap();
        let store = Arc::new(store);
        write(&store, "a", 0).await;
        store.commit().await.unwrap();
        let (size, backed) = (store.size_bytes(), device.backed_bytes());
        device.set_room(1 << 20);
        let error = grow(&store, 2 * SIZE_BYTES).await.unwrap_err();
        assert!(error.is_full(), "{error}");
        assert_eq!((store.size_bytes(), store.poisoned()), (size, None));
        let kept = device.backed_bytes() - backed;
        assert!(kept < 256 << 10, "{kept} bytes more than before");
        for (bytes, what) in [(size, "has"), (2 * DEVICE_BYTES, "device")] {
            let error = grow(&store, bytes).await.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        check(&store, "a", 0).await;
        device.set_room(DEVICE_BYTES);
        // Stopped, then to its end, with writes meanwhile.
        let stopped = join(grow(&store, 2 * SIZE_BYTES), async { store.stop_collection() }).await.0;
        assert!(stopped.is_err_and(|error| error.to_string().contains("ended early")) && store.size_bytes() == size);
        join(async { grow(&store, 2 * SIZE_BYTES).await.unwrap() }, write(&store, "b", 1)).await;
        assert!(store.size_bytes() > size);
        drop(store);
        let store = open(&Arc::new(device.crashed())).await;
        check(&store, "a", 0).await;
        // What was stored meanwhile is in the new index.
        let stored = store.counters().stored_chunks;
        write(&store, "again", 1).await;
        let new = store.counters().stored_chunks - stored;
        assert!(new < CHUNKS / 4, "{new} chunks were not found");
    });
}

#[test]
fn an_old_copy_of_the_superblock_never_comes_back() {
    block_on(async {
        let image = image(5).await;
        let device = Arc::new(CrashingDevice::with_image(image.clone(), 4096, 1));
        let store = open(&device).await;
        grow(&store, 2 * SIZE_BYTES).await.unwrap();
        write(&store, "c", 2).await;
        store.close().await.unwrap();
        let size = store.size_bytes();
        drop(store);
        // As if power had failed between the two copies: the second one is the old one.
        let mut mixed = device.image();
        mixed[4096..8192].copy_from_slice(&image[4096..8192]);
        let device = Arc::new(CrashingDevice::with_image(mixed, 4096, 1));
        let store = open(&device).await;
        assert_eq!(store.size_bytes(), size);
        store.close().await.unwrap();
        drop(store);
        // Later, the first one goes bad.
        let mut damaged = device.image();
        damaged[100] ^= 1;
        let store = open(&Arc::new(CrashingDevice::with_image(damaged, 4096, 1))).await;
        assert_eq!(store.size_bytes(), size);
        check(&store, "c", 2).await;
    });
}
