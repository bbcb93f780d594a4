//! Streams: what is imported comes back, what moved is found.

use crate::model::{Random, plan, settings};
use bytes::Bytes;
use futures_executor::block_on;
use nitro_cos::Store;
use nitro_device::CrashingDevice;
use std::sync::Arc;

async fn import(store: &Arc<Store<CrashingDevice>>, name: &str, data: &Bytes) {
    let mut import = store.import_stream(name, 1).unwrap();
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
        let mut random = Random(5);
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
            let stream = store.open_volume(name).unwrap();
            assert!(stream.is_read_only() && stream.size_bytes() == data.len() as u64);
            assert!(stream.read_range(0, data.len()).await.unwrap() == data);
            let (offset, len) = (random.below(8 << 20) as usize, 100_000);
            assert!(stream.read_range(offset as u64, len).await.unwrap() == data[offset..offset + len]);
        }
    });
}
