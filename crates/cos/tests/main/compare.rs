//! Where duplicates are compared, contents of one fingerprint that differ are stored side by side.

use crate::model::{CHUNK, bytes_of, plan, settings};
use futures_executor::block_on;
use nitro_cos::{Settings, Store};
use nitro_port::Device;
use nitro_port::Origin;
use nitro_testkit::CrashingDevice;
use nitro_units::Fingerprint;
use std::sync::Arc;

const SIZE: u64 = 64 << 20;

/// What a volume returns after contents were written under one fingerprint, in one write and in several.
async fn written_under_one_fingerprint(settings: Settings) -> (bool, u64) {
    let device = Arc::new(CrashingDevice::new(SIZE, 4096, 1));
    let store = Arc::new(Store::create(device, &plan(SIZE, 7), settings).await.unwrap());
    store.create_volume("a", SIZE, None, 1).await.unwrap();
    let volume = store.open_volume("a").await.unwrap();
    let forged = [Some(Fingerprint([7; 20])); 2];
    volume.write_known(0, bytes_of(&[1, 2]), &forged).await.unwrap();
    volume.flush().await.unwrap();
    volume.write_known(2 * CHUNK as u64, bytes_of(&[3, 1]), &forged).await.unwrap();
    volume.flush().await.unwrap();
    let read = volume.read_range(0, 4 * CHUNK).await.unwrap();
    (read == bytes_of(&[1, 2, 3, 1]), store.counters().false_duplicates)
}

#[test]
fn duplicates_are_compared_before_they_are_believed() {
    let compared = Settings { compare_duplicates: true, ..settings() };
    let (is_right, false_duplicates) = block_on(written_under_one_fingerprint(compared));
    assert!(is_right && false_duplicates >= 2, "{is_right}, {false_duplicates}");
    let (is_right, _) = block_on(written_under_one_fingerprint(settings()));
    assert!(!is_right, "without comparison the fingerprint is believed");
}
