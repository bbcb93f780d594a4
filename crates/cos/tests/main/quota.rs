//! A store fills no more than its quota.

use crate::model::{CHUNK, bytes_of, plan, settings};
use futures_executor::block_on;
use nitro_cos::{CollectOptions, Error, Store, Volume};
use nitro_port::{Device, ErrorKind};
use nitro_testkit::CrashingDevice;
use std::sync::Arc;

const SIZE: u64 = 64 << 20;
const PIECE: u64 = 50;

/// Writes new contents from a piece on until that is refused; returns where.
async fn fill(volume: &Volume<CrashingDevice>, from: u64) -> (u64, Error) {
    for piece in from.. {
        let contents: Vec<u64> = (1..=PIECE).map(|i| piece * PIECE + i).collect();
        if let Err(error) = volume.write_range(piece * PIECE * CHUNK as u64, bytes_of(&contents)).await {
            return (piece, error);
        }
    }
    unreachable!("the volume has an end")
}

#[test]
fn a_quota_refuses_new_content_and_nothing_else() {
    block_on(async {
        let device = Arc::new(CrashingDevice::new(SIZE, 4096, 1));
        let store = Arc::new(Store::create(Arc::clone(&device), &plan(SIZE, 7), settings()).await.unwrap());
        assert!(matches!(store.set_quota(Some(1)).await, Err(Error::Setting { .. })));
        let quota = SIZE / 4;
        store.set_quota(Some(quota)).await.unwrap();
        store.create_volume("a", 2 * SIZE, None, 1).await.unwrap();
        let volume = store.open_volume("a").await.unwrap();
        let (end, error) = fill(&volume, 0).await;
        let Error::Quota { used_bytes, quota_bytes } = error else { panic!("{error}") };
        assert!(used_bytes <= quota_bytes && quota_bytes <= quota, "{used_bytes} of {quota_bytes}");
        assert!(end * PIECE * CHUNK as u64 > quota / 2, "{end}");
        // What is there is read, duplicates and holes need no room, and the refusal is that of a full device.
        let refused = Device::write(&volume, 0, bytes_of(&[u64::MAX])).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NoSpace);
        volume.write_range(0, bytes_of(&[2, 1])).await.unwrap();
        volume.zero_range(2 * CHUNK as u64, CHUNK as u64).await.unwrap();
        assert!(volume.read_range(0, 4 * CHUNK).await.unwrap() == bytes_of(&[2, 1, 0, 4]));
        store.close().await.unwrap();
        drop((volume, store));

        let store = Arc::new(Store::open(device, settings()).await.unwrap());
        assert_eq!(store.quota_bytes(), Some(quota_bytes));
        let volume = store.open_volume("a").await.unwrap();
        let (same, _) = fill(&volume, end).await;
        // A lane of recipes may have left some room.
        assert!(same <= end + 2, "{same} after {end}");
        // A collection frees what was given up, and new content has that room.
        volume.zero_range(0, SIZE / 8).await.unwrap();
        store.collect(&CollectOptions::default(), &|_, _, _| {}).await.unwrap();
        let (more, _) = fill(&volume, end).await;
        assert!(more > end + 10, "{more} after {end}");
        store.set_quota(None).await.unwrap();
        let (all, error) = fill(&volume, more).await;
        assert!(all > 2 * end && matches!(error, Error::Full { .. }), "{all} after {end}: {error}");
    });
}
