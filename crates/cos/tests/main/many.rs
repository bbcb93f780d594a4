//! Many objects in one store: what the journal has to hold of them stays bounded.

use crate::model::{CHUNK, bytes_of, plan_with, settings};
use futures_executor::block_on;
use nitro_cos::{Error, Store};
use nitro_device::RamDevice;
use nitro_port::Device;
use nitro_testkit::Rng;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

type RamStore = Arc<Store<RamDevice>>;

async fn create(size_bytes: u64, journal_bytes: Option<u64>) -> (Arc<RamDevice>, RamStore) {
    let device = Arc::new(RamDevice::new(size_bytes, 4096));
    let store = Store::create(Arc::clone(&device), &plan_with(size_bytes, journal_bytes, 7), settings()).await.unwrap();
    (device, Arc::new(store))
}

/// Makes clones of a base, writes to each at random, with a FLUSH now and then, and compares what they have at the end.
async fn farm(size_bytes: u64, journal_bytes: Option<u64>, clones: usize, writes: usize, commit_every: usize) {
    const CHUNKS: u64 = 448;
    let (device, store) = create(size_bytes, journal_bytes).await;
    store.create_volume("base", CHUNKS * CHUNK as u64, None, 1).await.unwrap();
    let base: Vec<u64> = (1..=CHUNKS).collect();
    store.open_volume("base").await.unwrap().write_range(0, bytes_of(&base)).await.unwrap();
    let names: Vec<String> = (0..clones).map(|i| format!("vm-{i:04}")).collect();
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
    store.commit().await.unwrap();
    // As after kill -9: nothing is closed.
    drop(store);
    let store = Arc::new(Store::open(device, settings()).await.unwrap());
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
fn objects_are_refused_before_the_journal_has_no_room_for_them() {
    block_on(async {
        let (device, store) = create(32 << 20, Some(1)).await;
        let mut there = 0;
        let error = loop {
            match store.create_volume(&format!("volume-{there:05}"), CHUNK as u64, None, 1).await {
                Ok(()) => there += 1,
                Err(error) => break error,
            }
            assert!(there < 5000, "a journal of 64 KiB takes in {there} objects");
        };
        assert!(matches!(error, Error::Objects { .. }), "{error}");
        assert!(there > 50, "{there}");
        // Nothing else is harmed.
        let volume = store.open_volume("volume-00000").await.unwrap();
        volume.write_range(0, bytes_of(&[5])).await.unwrap();
        volume.flush().await.unwrap();
        store.checkpoint().await.unwrap();
        let refused = store.clone_object("volume-00000", "a clone", 1).await;
        assert!(matches!(refused, Err(Error::Objects { .. })), "{refused:?}");
        store.delete("volume-00001").await.unwrap();
        store.clone_object("volume-00000", "clone", 1).await.unwrap();
        drop((store, volume));
        let store = Arc::new(Store::open(device, settings()).await.unwrap());
        assert_eq!(store.list().await.unwrap().len(), there);
        assert!(store.create_volume(&"x".repeat(100), CHUNK as u64, None, 1).await.is_err());
        let read = store.open_volume("clone").await.unwrap().read_range(0, CHUNK).await.unwrap();
        assert!(read == bytes_of(&[5]));
    });
}
