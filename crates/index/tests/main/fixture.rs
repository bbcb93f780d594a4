//! Frozen images of format version 1: what programs of that version wrote is read by all later ones. To make them anew, after
//! a change of the formats that raises the version: `NITRO_MAKE_FIXTURES=1 cargo test -p nitro-index --test main fixture`.

use crate::resealed::{ENTRIES, Kind, image};
use futures_executor::block_on;
use nitro_index::FlashIndex;
use nitro_index::bufferhash::{BufferHash, Eviction};
use nitro_index::silt::{Rates, Silt};
use nitro_testkit::CrashingDevice;
use std::path::PathBuf;

const IMAGE_BYTES_MAX: usize = 64 << 20;

fn frozen(kind: Kind, name: &str) -> CrashingDevice {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if std::env::var_os("NITRO_MAKE_FIXTURES").is_some() {
        std::fs::write(&path, zstd::bulk::compress(&image(kind), 19).unwrap()).unwrap();
    }
    let image = zstd::bulk::decompress(&std::fs::read(path).unwrap(), IMAGE_BYTES_MAX).unwrap();
    CrashingDevice::with_image(image, 4096, 1)
}

async fn check(index: impl FlashIndex) {
    for n in 0..ENTRIES {
        let found = index.get(&n.to_be_bytes()).await.unwrap();
        // See `resealed::fill`: every fifth step removed the key at half its number.
        let is_removed = n * 2 < ENTRIES && (n * 2 % 5 == 0 || (n * 2 + 1) % 5 == 0 && n * 2 + 1 < ENTRIES);
        assert_eq!(found.is_none(), is_removed, "key {n}");
        assert!(found.is_none_or(|value| value[..] == [n as u8; 248]), "key {n}");
    }
}

#[test]
fn indexes_of_version_1_are_read() {
    let [buffer_hash, silt] =
        [(Kind::BufferHash, "bufferhash-v1.img.zst"), (Kind::Silt, "silt-v1.img.zst")].map(|(k, name)| frozen(k, name));
    block_on(async {
        check(BufferHash::open(buffer_hash, Eviction::Fifo).await.unwrap()).await;
        check(Silt::open(silt, Rates::default()).await.unwrap()).await;
    });
}
