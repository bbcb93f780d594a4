//! Streams: what is imported comes back, what moved is found. Collections: what they moved is read where it is.

use crate::model::{CHUNK, bytes_of, plan, settings};
use bytes::Bytes;
use futures_executor::block_on;
use nitro_cos::{CollectOptions, Store};
use nitro_testkit::{CrashingDevice, Rng};
use std::sync::Arc;

pub async fn import(store: &Arc<Store<CrashingDevice>>, name: &str, data: &Bytes) {
    let mut import = store.import_stream(name, 1).await.unwrap();
    let (mut at, mut end) = (0, 0);
    while at < data.len() {
        end = (end + 300_000).min(data.len());
        let cuts = store.cut(&data[at..end], end == data.len());
        let part = store.store_part(0, data.slice(at..end), &cuts).await.unwrap();
        at += cuts.last().map_or(0, |c| c.end);
        import.push(part).await.unwrap();
    }
    import.finish().await.unwrap();
}

#[test]
fn a_stream_comes_back_and_what_moved_is_stored_once() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(48 << 20, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(48 << 20, 7), settings()).await.unwrap());
        let mut random = Rng::new(5);
        let mut data: Vec<u8> = (0..10 << 20).map(|_| random.next() as u8).collect();
        let first: Bytes = data.clone().into();
        data.splice(1000..1000, [1, 2, 3]);
        data.truncate(9 << 20);
        let second: Bytes = data.into();
        import(&store, "one", &first).await;
        let before = store.counters().stored_raw_bytes;
        import(&store, "two", &second).await;
        assert!(store.counters().stored_raw_bytes - before < 400_000);
        store.close().await.unwrap();
        let store = Arc::new(Store::open(device, settings()).await.unwrap());
        for (name, data) in [("one", &first), ("two", &second)] {
            let stream = store.open_volume(name).await.unwrap();
            assert!(stream.is_read_only() && stream.size_bytes() == data.len() as u64);
            assert!(stream.read_range(0, data.len()).await.unwrap() == data);
            let (offset, len) = (random.below(8 << 20) as usize, 100_000);
            assert!(stream.read_range(offset as u64, len).await.unwrap() == data[offset..offset + len]);
        }
    });
}

#[test]
fn what_a_collection_moved_is_read_without_a_look_at_the_index() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(32 << 20, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(32 << 20, 7), settings()).await.unwrap());
        let mut random = Rng::new(9);
        let mut chunks: Vec<u64> = (1..=1500).collect();
        store.create_volume("a", 1500 * CHUNK as u64, None, 1).await.unwrap();
        let volume = store.open_volume("a").await.unwrap();
        for (i, some) in chunks.chunks(50).enumerate() {
            volume.write_range((i * 50 * CHUNK) as u64, bytes_of(some)).await.unwrap();
        }
        for day in 0..4 {
            store.snapshot(&format!("a@{day}"), 1).await.unwrap();
            for _ in 0..300 {
                let at = random.below(1500) as usize;
                chunks[at] = 10_000 + random.below(1 << 40);
                volume.write_range((at * CHUNK) as u64, bytes_of(&chunks[at..=at])).await.unwrap();
            }
        }
        let kept: Vec<u64> = chunks.clone();
        store.snapshot("a@kept", 1).await.unwrap();
        for day in 0..4 {
            store.delete(&format!("a@{day}")).await.unwrap();
        }
        let options = CollectOptions { alive_share_min: 1.0 };
        let collected = store.collect(&options, &|_, _, _| ()).await.unwrap();
        assert!(
            collected.copied_chunks > 500 && collected.used_bytes_after < collected.used_bytes_before,
            "{collected:?}"
        );
        store.close().await.unwrap();
        let store = Arc::new(Store::open(device, settings()).await.unwrap());
        for name in ["a", "a@kept"] {
            let volume = store.open_volume(name).await.unwrap();
            for _ in 0..500 {
                let at = random.below(1500) as usize;
                let read = volume.read_range((at * CHUNK) as u64, CHUNK).await.unwrap();
                assert!(read == bytes_of(&kept[at..=at]));
            }
        }
        let counters = store.counters();
        assert_eq!((counters.moved, counters.index_lookups), (0, 0), "{counters:?}");
    });
}
