//! Many objects in one store: what the journal has to hold of them stays bounded.

use crate::model::{CHUNK, bytes_of, erased, plan_with, settings};
use bytes::Bytes;
use futures_executor::block_on;
use futures_util::future::join;
use nitro_cos::{CollectOptions, Error, ObjectInfo, Store};
use nitro_device::RamDevice;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, DeviceError, Geometry};
use nitro_testkit::{Erased, Rng};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

type RamStore = Arc<Store<Erased>>;

/// A device during whose requests other tasks go on.
struct Turns(RamDevice);

impl Device for Turns {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Bytes, DeviceError> {
        yield_now().await;
        self.0.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Bytes) -> Result<(), DeviceError> {
        yield_now().await;
        self.0.write(offset, data).await
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        yield_now().await;
        self.0.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), DeviceError> {
        self.0.write_zeroes(offset, len, may_unmap).await
    }
}

async fn create(size_bytes: u64, journal_bytes: Option<u64>) -> (Arc<RamDevice>, RamStore) {
    let device = Arc::new(RamDevice::new(size_bytes, 4096));
    let store = Store::create(erased(&device), &plan_with(size_bytes, journal_bytes, 7), settings()).await.unwrap();
    (device, Arc::new(store))
}

/// Makes clones of a base, writes to each at random, with a FLUSH now and then, and compares what they have at the end.
async fn farm(size_bytes: u64, journal_bytes: Option<u64>, clones: usize, writes: usize, commit_every: usize) {
    const CHUNKS: u64 = 448;
    let (device, store) = create(size_bytes, journal_bytes).await;
    store.create_volume("base", CHUNKS * CHUNK as u64, None, 1).await.unwrap();
    let base: Vec<u64> = (1..=CHUNKS).collect();
    store.open_volume("base").await.unwrap().write_range(0, bytes_of(&base)).await.unwrap();
    let mut names: Vec<String> = (0..clones).map(|i| format!("vm-{i:04}")).collect();
    for name in &names {
        store.clone_object("base", name, 1).await.unwrap();
    }
    let mut random = Rng::new(3);
    let mut written: HashMap<(usize, u64), u64> = HashMap::new();
    for write in 0..clones * writes {
        let (clone, index) = (random.below(clones as u64) as usize, random.below(CHUNKS));
        // Contents that occur often: what is looked at is the recipes.
        let number = 1000 + random.below(300);
        let volume = store.open_volume(&names[clone]).await.unwrap();
        volume.write_range(index * CHUNK as u64, bytes_of(&[number])).await.unwrap();
        written.insert((clone, index), number);
        if write % commit_every == 0 {
            volume.flush().await.unwrap();
        }
    }
    for name in names.iter_mut().step_by(9) {
        let new = format!("renamed/{name}");
        store.rename(name, &new).await.unwrap();
        *name = new;
    }
    store.commit().await.unwrap();
    let listed = |all: Vec<ObjectInfo>| all.into_iter().map(|o| o.name).filter(|name| name != "base");
    let sorted: BTreeSet<String> = names.iter().cloned().collect();
    assert!(listed(store.list().await.unwrap()).eq(sorted.iter().cloned()));
    // As after kill -9: nothing is closed.
    drop(store);
    let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
    assert!(listed(store.list().await.unwrap()).eq(sorted));
    for (clone, name) in names.iter().enumerate() {
        let volume = store.open_volume(name).await.unwrap();
        let seen: BTreeSet<u64> = written.keys().filter(|(c, _)| *c == clone).map(|(_, index)| *index).collect();
        for index in seen.into_iter().chain([random.below(CHUNKS)]) {
            let wanted = written.get(&(clone, index)).copied().unwrap_or(base[index as usize]);
            let read = volume.read_range(index * CHUNK as u64, CHUNK).await.unwrap();
            assert!(read == bytes_of(&[wanted]), "chunk {index} of {name}");
        }
    }
}

#[test]
fn a_thousand_clones_are_written_to_at_random() {
    block_on(farm(256 << 20, None, 1000, 24, 500));
}

#[test]
fn a_dozen_clones_are_written_to_much_between_flushes() {
    block_on(farm(192 << 20, None, 12, 2300, 7500));
}

#[test]
fn clones_are_written_to_in_the_smallest_journal() {
    block_on(farm(96 << 20, Some(1), 40, 150, 150));
}

#[test]
fn objects_in_use_are_refused_before_the_journal_has_no_room_for_them() {
    block_on(async {
        let (device, store) = create(32 << 20, Some(1)).await;
        let mut open = Vec::new();
        let error = loop {
            let name = format!("volume-{:05}", open.len());
            match store.create_volume(&name, CHUNK as u64, None, 1).await {
                // In the directory, it would not be in the journal.
                Ok(()) => open.push(store.open_volume(&name).await.unwrap()),
                Err(error) => break error,
            }
            assert!(open.len() < 5000, "a journal of 64 KiB takes in {} objects", open.len());
        };
        assert!(matches!(error, Error::Objects { .. }), "{error}");
        let there = open.len();
        assert!(there > 50, "{there}");
        // Nothing else is harmed.
        open[0].write_range(0, bytes_of(&[5])).await.unwrap();
        open[0].flush().await.unwrap();
        store.checkpoint().await.unwrap();
        let refused = store.clone_object("volume-00000", "a clone", 1).await;
        assert!(matches!(refused, Err(Error::Objects { .. })), "{refused:?}");
        store.delete("volume-00001").await.unwrap();
        store.clone_object("volume-00000", "clone", 1).await.unwrap();
        assert!(store.create_volume(&"x".repeat(100), CHUNK as u64, None, 1).await.is_err());
        drop((store, open));
        let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
        assert_eq!(store.list().await.unwrap().len(), there);
        let read = store.open_volume("clone").await.unwrap().read_range(0, CHUNK).await.unwrap();
        assert!(read == bytes_of(&[5]));
        // Nobody uses them now.
        for number in 0..200 {
            store.create_volume(&format!("{number}-{}", "x".repeat(100)), CHUNK as u64, None, 1).await.unwrap();
        }
        assert_eq!(store.list().await.unwrap().len(), there + 200);
    });
}

/// The content of an object of that number.
async fn read_small(store: &RamStore, name: &str) -> Bytes {
    store.open_volume(name).await.unwrap().read_range(0, CHUNK).await.unwrap()
}

#[test]
fn thousands_of_objects_are_kept_with_the_smallest_journal() {
    const OBJECTS: u64 = 4000;
    // Names that are not created in their order.
    let name = |number: u64| format!("{:04}-{number}", number * 7919 % OBJECTS);
    block_on(async {
        let (device, store) = create(64 << 20, Some(1)).await;
        let mut ram_bytes = 0;
        for number in 0..OBJECTS {
            store.create_volume(&name(number), CHUNK as u64, None, number).await.unwrap();
            store.open_volume(&name(number)).await.unwrap().write_range(0, bytes_of(&[number])).await.unwrap();
            if number % 50 == 0 {
                store.commit().await.unwrap();
                let stats = store.stats();
                assert!(stats.ram_bytes <= stats.ram_need_bytes, "{stats:?}");
                ram_bytes = ram_bytes.max(stats.ram_bytes);
            }
        }
        assert!(matches!(store.create_volume(&name(0), CHUNK as u64, None, 1).await, Err(Error::Exists(_))));
        store.commit().await.unwrap();
        // As after kill -9.
        drop(store);
        let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
        let stats = store.stats();
        assert_eq!((stats.objects, stats.snapshots, stats.logical_bytes), (OBJECTS, 0, OBJECTS * CHUNK as u64));
        let listed: Vec<String> = store.list().await.unwrap().into_iter().map(|o| o.name).collect();
        assert!(listed.is_sorted() && listed.len() as u64 == OBJECTS);
        // Some are deleted, created again, changed, or get a snapshot.
        for number in (0..OBJECTS).step_by(3) {
            store.delete(&name(number)).await.unwrap();
        }
        assert!(matches!(store.delete(&name(0)).await, Err(Error::NoObject(_))));
        for number in (0..OBJECTS).step_by(6) {
            store.create_volume(&name(number), 2 * CHUNK as u64, None, 1).await.unwrap();
        }
        for number in (1..OBJECTS).step_by(3) {
            let volume = store.open_volume(&name(number)).await.unwrap();
            volume.write_range(0, bytes_of(&[number + OBJECTS])).await.unwrap();
        }
        for number in (1..OBJECTS).step_by(300) {
            store.snapshot(&format!("{}@1", name(number)), 1).await.unwrap();
        }
        store.commit().await.unwrap();
        store.collect(&CollectOptions { alive_share_min: 1.0 }, &|_, _, _| ()).await.unwrap();
        drop(store);
        let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
        let findings = store.check(&|_, _, _| ()).await.unwrap();
        assert!(findings.is_clean(), "{findings:?}");
        assert!(store.scrub(&|_, _, _| ()).await.unwrap().is_clean());
        for number in 0..OBJECTS {
            let wanted = match (number % 6, number % 3) {
                (0, _) => 0,
                (_, 0) => {
                    assert!(matches!(store.open_volume(&name(number)).await, Err(Error::NoObject(_))));
                    continue;
                }
                (_, 1) => number + OBJECTS,
                _ => number,
            };
            assert!(read_small(&store, &name(number)).await == bytes_of(&[wanted]), "{number}");
            if number % 300 == 1 {
                assert!(read_small(&store, &format!("{}@1", name(number))).await == bytes_of(&[wanted]));
            }
        }
        let objects = OBJECTS - OBJECTS.div_ceil(3) + OBJECTS.div_ceil(6) + OBJECTS.div_ceil(300);
        assert_eq!(store.stats().objects, objects);
        assert_eq!(store.list().await.unwrap().len() as u64, objects);
        // All of them together would need more than five times this.
        assert!(ram_bytes < 1536 * OBJECTS / 2, "{ram_bytes}");
        for object in store.list().await.unwrap() {
            store.delete(&object.name).await.unwrap();
        }
        store.collect(&CollectOptions::default(), &|_, _, _| ()).await.unwrap();
        assert_eq!((store.stats().objects, store.stats().containers_used), (0, 0));
    });
}

#[test]
fn objects_are_changed_and_deleted_while_others_move_to_the_directory() {
    const OBJECTS: u64 = 500;
    const NEW: u64 = 3000;
    let name = |number: u64| format!("vm-{:03}", number * 77 % OBJECTS);
    block_on(async {
        let device = Arc::new(Turns(RamDevice::new(64 << 20, 4096)));
        let plan = plan_with(64 << 20, Some(1), 7);
        let store = Arc::new(Store::create(erased(&device), &plan, settings()).await.unwrap());
        let mut wanted: Vec<Option<u64>> = vec![Some(0); OBJECTS as usize];
        for number in 0..OBJECTS {
            store.create_volume(&name(number), CHUNK as u64, None, 1).await.unwrap();
        }
        let create = async {
            for number in 0..NEW {
                store.create_volume(&format!("new-{number}"), CHUNK as u64, None, 1).await.unwrap();
            }
        };
        let mut random = Rng::new(5);
        let change = async {
            for round in 1..8 * OBJECTS {
                yield_now().await;
                let number = random.below(OBJECTS);
                let there = &mut wanted[number as usize];
                match there {
                    Some(_) if round % 16 == 0 => {
                        store.delete(&name(number)).await.unwrap();
                        *there = None;
                    }
                    Some(content) => {
                        let volume = store.open_volume(&name(number)).await.unwrap();
                        volume.write_range(0, bytes_of(&[round])).await.unwrap();
                        *content = round;
                    }
                    None if round % 2 == 0 => {
                        store.create_volume(&name(number), CHUNK as u64, None, 1).await.unwrap();
                        *there = Some(0);
                    }
                    None => {
                        let missing = store.open_volume(&name(number)).await;
                        assert!(matches!(missing, Err(Error::NoObject(_))), "{number}");
                    }
                }
            }
        };
        join(create, change).await;
        store.commit().await.unwrap();
        let there = wanted.iter().flatten().count() as u64 + NEW;
        assert_eq!(store.stats().objects, there);
        drop(store);
        let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
        assert_eq!(store.stats().objects, there);
        for (number, content) in (0..).zip(&wanted) {
            let read = match store.open_volume(&name(number)).await {
                Ok(volume) => Some(volume.read_range(0, CHUNK).await.unwrap()),
                Err(_) => None,
            };
            assert!(read == content.map(|content| bytes_of(&[content])), "{number}");
        }
    });
}

#[test]
fn an_object_that_is_created_again_replaces_the_one_in_the_directory() {
    block_on(async {
        let (device, store) = create(64 << 20, Some(1)).await;
        let fill = async |store: &RamStore, prefix: &str| {
            for number in 0..400 {
                store.create_volume(&format!("{prefix}-{number}"), CHUNK as u64, None, 1).await.unwrap();
            }
        };
        fill(&store, "a").await;
        store.delete("a-0").await.unwrap();
        store.create_volume("a-0", CHUNK as u64, None, 1).await.unwrap();
        store.open_volume("a-0").await.unwrap().write_range(0, bytes_of(&[5])).await.unwrap();
        store.commit().await.unwrap();
        drop(store);
        let store = Arc::new(Store::open(erased(&device), settings()).await.unwrap());
        assert_eq!(store.stats().objects, 400);
        // It moves to the directory.
        fill(&store, "b").await;
        assert!(read_small(&store, "a-0").await == bytes_of(&[5]));
        assert_eq!(store.stats().objects, 800);
    });
}

nitro_port::plain_origin!(Turns);
