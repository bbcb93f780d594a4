//! Streams: what is imported comes back, what moved is found. Collections: what they moved is read where it is.

use crate::model::{CHUNK, bytes_of, plan, settings};
use bytes::Bytes;
use futures_executor::block_on;
use nitro_cos::{CollectOptions, Store};
use nitro_testkit::{CrashingDevice, Rng};
use std::collections::BTreeSet;
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
fn a_collection_keeps_what_a_stream_refers_to_that_is_being_imported() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(48 << 20, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(48 << 20, 7), settings()).await.unwrap());
        let mut random = Rng::new(11);
        // More chunks than a block of a recipe has references.
        let mut bytes = |len: usize| -> Bytes { (0..len).map(|_| random.next() as u8).collect::<Vec<u8>>().into() };
        let (data, other) = (bytes(6 << 20), bytes(1 << 20));
        import(&store, "other", &other).await;
        // In the same containers as what goes.
        let mut stream = store.import_stream("stream", 1).await.unwrap();
        let cuts = store.cut(&data, true);
        assert!(cuts.len() > 448 * 2, "{}", cuts.len());
        let mut parts = Vec::new();
        for (n, some) in cuts.chunks(100).enumerate() {
            let from = some[0].start;
            let part = data.slice(from..some.last().unwrap().end);
            let some: Vec<_> = some.iter().map(|cut| cut.start - from..cut.end - from).collect();
            parts.push(store.store_part(n, part, &some).await.unwrap());
            let filler = bytes(50_000);
            import(&store, &format!("filler{n}"), &filler).await;
        }
        let waiting = parts.split_off(parts.len() - 2);
        for part in parts {
            stream.push(part).await.unwrap();
        }
        store.delete("other").await.unwrap();
        for n in 0..cuts.chunks(100).len() {
            store.delete(&format!("filler{n}")).await.unwrap();
        }
        let options = CollectOptions { alive_share_min: 1.0 };
        let collected = store.collect(&options, &|_, _, _| ()).await.unwrap();
        assert!(collected.copied_chunks > 100 && collected.freed_containers > 10, "{collected:?}");
        for part in waiting {
            stream.push(part).await.unwrap();
        }
        stream.finish().await.unwrap();
        let findings = store.scrub(&|_, _, _| ()).await.unwrap();
        assert!(findings.is_clean(), "{findings:?}");
        let read = store.open_volume("stream").await.unwrap().read_range(0, data.len()).await.unwrap();
        assert!(read == data);
        // A stream that was given up keeps nothing.
        let gone = store.import_stream("gone", 1).await.unwrap();
        drop(store.store_part(0, other.clone(), &store.cut(&other, true)).await.unwrap());
        drop(gone);
        let before = store.stats().containers_used;
        store.collect(&options, &|_, _, _| ()).await.unwrap();
        assert!(store.stats().containers_used < before);
    });
}

#[test]
fn unique_bytes_are_those_that_only_one_object_refers_to() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(32 << 20, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(32 << 20, 7), settings()).await.unwrap());
        const CHUNKS: u64 = 1000;
        let mut model: Vec<(&str, Vec<u64>)> = vec![("a", (1..=CHUNKS).collect())];
        store.create_volume("a", CHUNKS * CHUNK as u64, None, 1).await.unwrap();
        let a = store.open_volume("a").await.unwrap();
        a.write_range(0, bytes_of(&model[0].1)).await.unwrap();
        let mut random = Rng::new(4);
        for name in ["a@1", "b", "a@2"] {
            match name.contains('@') {
                true => store.snapshot(name, 1).await.unwrap(),
                false => store.clone_object("a", name, 1).await.unwrap(),
            }
            model.push((name, model[0].1.clone()));
            for _ in 0..40 {
                // Some of them twice, some zeroes, and some that others have.
                let (at, number) = (random.below(CHUNKS), random.below(2 * CHUNKS));
                model[0].1[at as usize] = number;
                a.write_range(at * CHUNK as u64, bytes_of(&[number])).await.unwrap();
            }
        }
        let told = store.unique_bytes(&|_, _, _| ()).await.unwrap();
        let wanted = |name: &str| {
            let of = |name: &str| model.iter().find(|(n, _)| *n == name).unwrap().1.iter().collect::<BTreeSet<_>>();
            let others: BTreeSet<_> = model.iter().filter(|(n, _)| *n != name).flat_map(|(_, all)| all).collect();
            of(name).into_iter().filter(|number| **number != 0 && !others.contains(number)).count() * CHUNK
        };
        assert_eq!(told.len(), 4);
        for (name, bytes) in &told {
            assert_eq!(*bytes as usize, wanted(name), "{name}");
        }
        assert!(told.iter().filter(|(_, bytes)| *bytes > 0).count() >= 2, "{told:?}");
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
