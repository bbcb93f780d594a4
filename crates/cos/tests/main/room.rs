//! A store in a sparse file on a filesystem that becomes full.

use crate::model::{CHUNK, bytes_of, erased, plan, settings};
use futures_executor::block_on;
use nitro_cos::{CollectOptions, Error, Settings, Store, Volume};
use nitro_device::RamDevice;
use nitro_port::{Device, ErrorKind};
use nitro_testkit::CrashingDevice;
use std::sync::Arc;

const SIZE: u64 = 64 << 20;
/// What the filesystem has for contents.
const ROOM: u64 = 10 << 20;
/// Bytes of what is written at once.
const PIECE: u64 = 50 * CHUNK as u64;

type CrashingStore = Arc<Store<CrashingDevice>>;

/// A store on a filesystem that has [`ROOM`] beyond what the store takes when it is new.
async fn create() -> (Arc<CrashingDevice>, CrashingStore, u64) {
    let device = Arc::new(CrashingDevice::new(SIZE, 4096, 1));
    device.set_room(SIZE);
    let store = Store::create(Arc::clone(&device), &plan(SIZE, 7), settings()).await.unwrap();
    store.close().await.unwrap();
    device.set_room(ROOM);
    let empty = device.backed_bytes();
    (device, Arc::new(store), empty)
}

fn piece(number: u64) -> bytes::Bytes {
    bytes_of(&(1..=50).map(|i| 2 * (number * 50 + i)).collect::<Vec<u64>>())
}

/// Writes what does not shrink until there is no room; returns how many pieces.
async fn fill(volume: &Volume<CrashingDevice>) -> (u64, Error) {
    for number in 0.. {
        if let Err(error) = volume.write_range(number * PIECE, piece(number)).await {
            return (number, error);
        }
    }
    unreachable!("the volume has an end")
}

async fn collect(store: &CrashingStore) -> nitro_cos::Collected {
    store.collect(&CollectOptions::default(), &|_, _, _| {}).await.unwrap()
}

async fn reopen(device: &Arc<CrashingDevice>) -> CrashingStore {
    Arc::new(Store::open(Arc::clone(device), settings()).await.unwrap())
}

#[test]
fn an_import_that_finds_no_room_leaves_nothing_behind() {
    block_on(async {
        let (device, store, empty) = create().await;
        let (volume, _) = store.begin_import("huge", SIZE, (None, 5), 1).await.unwrap();
        let (pieces, error) = fill(&volume).await;
        assert!(error.is_full() && pieces > 10, "{error} after {pieces}");
        store.abandon_import(&volume).await.unwrap();
        store.close().await.unwrap();
        assert!(device.backed_bytes() > empty + ROOM / 2);
        drop((volume, store));
        let store = reopen(&device).await;
        assert!(store.list().await.unwrap().is_empty());
        let collected = collect(&store).await;
        assert!(collected.freed_containers > 10, "{collected:?}");
        assert_eq!(store.stats().containers_used, 0, "{collected:?}");
        // The filesystem has its room back, and the next import finds it.
        let kept = device.backed_bytes() - empty;
        assert!(kept <= 4 * (64 << 10), "{kept} bytes more than before");
        let (volume, _) = store.begin_import("small", 20 * PIECE, (None, 6), 1).await.unwrap();
        for number in 0..20 {
            volume.write_range(number * PIECE, piece(1000 + number)).await.unwrap();
        }
        store.finish_import(&volume).await.unwrap();
        store.close().await.unwrap();
    });
}

#[test]
fn deletes_and_collections_go_on_without_any_room() {
    block_on(async {
        let (device, store, _) = create().await;
        for name in ["a", "b"] {
            store.create_volume(name, SIZE, None, 1).await.unwrap();
        }
        let (a, b) = (store.open_volume("a").await.unwrap(), store.open_volume("b").await.unwrap());
        // What is deleted later shares containers with what stays.
        const FEW: usize = 3;
        let few = |number: u64| piece(number).slice(..FEW * CHUNK);
        let mut pieces = 0;
        let error = loop {
            let write = async {
                let at = pieces * (FEW * CHUNK) as u64;
                a.in_lane(1).write_range(at, few(2 * pieces)).await?;
                b.in_lane(1).write_range(at, few(2 * pieces + 1)).await
            };
            match write.await {
                Ok(()) => pieces += 1,
                Err(error) => break error,
            }
        };
        assert!(error.is_full() && pieces > 10, "{error} after {pieces}");
        // Something else takes what little is left.
        device.set_room(0);
        let refused = Device::write(&b, 0, bytes_of(&[u64::MAX])).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NoSpace);
        // What was acknowledged is made durable all the same.
        b.flush().await.unwrap();
        drop((a, b, store));
        let device = Arc::new(device.crashed());
        let store = reopen(&device).await;
        store.delete("a").await.unwrap();
        let before = device.backed_bytes();
        let collected = collect(&store).await;
        assert!(collected.copied_chunks > 0, "{collected:?}");
        assert!(device.backed_bytes() < before - ROOM / 4, "{} after {before}", device.backed_bytes());
        let b = store.open_volume("b").await.unwrap();
        for number in 0..pieces {
            let read = b.read_range(number * (FEW * CHUNK) as u64, FEW * CHUNK).await.unwrap();
            assert!(read == few(2 * number + 1), "{number}");
        }
        b.write_range(0, piece(5000)).await.unwrap();
        store.close().await.unwrap();
        drop((b, store));
        let store = reopen(&device).await;
        assert!(store.check(&|_, _, _| {}).await.unwrap().is_clean());
    });
}

#[test]
fn a_store_is_not_made_where_its_metadata_has_no_room() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(SIZE, 4096, 1));
        device.set_room(1 << 20);
        let made = Store::create(Arc::clone(&device), &plan(SIZE, 7), settings()).await;
        assert!(made.is_err_and(|error| error.is_full()));
    });
}

#[test]
fn a_collection_keeps_one_of_two_equal_chunks() {
    const CHUNKS: u64 = 600;
    block_on(async {
        let device = Arc::new(RamDevice::new(32 << 20, 4096));
        let settings = Settings { nsio_dedup: false, ..settings() };
        let mut store = Arc::new(Store::create(erased(&device), &plan(32 << 20, 3), settings).await.unwrap());
        for (name, shift) in [("one", 0), ("other", 1)] {
            store.create_volume(name, 2 * CHUNKS * CHUNK as u64, None, 1).await.unwrap();
            let volume = store.open_volume(name).await.unwrap();
            // At random; every second chunk of the first volume is overwritten later.
            for i in 0..CHUNKS {
                let index = i * 7 % CHUNKS;
                let number = if shift == 0 && index % 2 == 1 { 10_000 + index } else { 1 + index };
                volume.write_range((2 * index + shift) * CHUNK as u64, bytes_of(&[number])).await.unwrap();
            }
            // So that RAM has none of them.
            store.close().await.unwrap();
            store = Arc::new(Store::open(erased(&device), settings).await.unwrap());
        }
        let volume = store.open_volume("one").await.unwrap();
        for index in (1..CHUNKS).step_by(2) {
            volume.write_range(2 * index * CHUNK as u64, bytes_of(&[1 + index])).await.unwrap();
        }
        let all = CollectOptions { alive_share_min: 1.0 };
        let mut copied = store.collect(&all, &|_, _, _| ()).await.unwrap().copied_chunks;
        copied += store.collect(&all, &|_, _, _| ()).await.unwrap().copied_chunks;
        let stats = store.stats();
        // The chunks of the first volume that were not overwritten are those of the second.
        assert!(stats.chunks < 2 * CHUNKS - CHUNKS / 3, "{copied} chunks were copied: {stats:?}");
        for (name, shift) in [("one", 0), ("other", 1)] {
            let volume = store.open_volume(name).await.unwrap();
            for index in 0..CHUNKS {
                let read = volume.read_range((2 * index + shift) * CHUNK as u64, CHUNK).await.unwrap();
                assert!(read == bytes_of(&[1 + index]), "{name}, {index}");
            }
        }
        assert!(store.check(&|_, _, _| ()).await.unwrap().is_clean());
    });
}
