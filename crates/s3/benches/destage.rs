//! What a volume in a bucket costs beside puts of the same objects by the same client. Run by `scripts/bench-s3`, which starts a store:
//! `AWS_ENDPOINT_URL`, the bucket `bench`; `MIB` is the amount.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use nitro_port::Device as _;
use nitro_s3::{Bucket, Place, Store as _, create_at, start};
use nitro_testkit::noise;
use std::time::Instant;

const MIB: usize = 1 << 20;
const OBJECT: usize = 4 * MIB;
/// As a volume has.
const AT_ONCE: usize = 8;
/// Writes as destage makes them.
const WRITE: usize = MIB;

fn place(prefix: &str) -> Place {
    Place {
        bucket: "bench".to_owned(),
        prefix: prefix.to_owned(),
        endpoint: None,
        region: Some("us-east-1".to_owned()),
        snapshot: None,
    }
}

fn main() {
    if std::env::var_os("AWS_ENDPOINT_URL").is_none() {
        println!("no store: scripts/bench-s3 starts one");
        return;
    }
    let mib: usize = std::env::var("MIB").ok().and_then(|text| text.parse().ok()).unwrap_or(256);
    let objects = mib * MIB / OBJECT;
    let round = std::process::id();
    let volume = place(&format!("volume-{round}"));
    create_at(&volume, (mib * MIB) as u64, OBJECT as u32).expect("a volume");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let data: Vec<Bytes> = (0..AT_ONCE as u64).map(|n| noise(n + 1, OBJECT).into()).collect();
        let bucket = Bucket::new(&place(&format!("raw-{round}"))).expect("a bucket");
        let (bucket, data) = (&bucket, &data);
        let begun = Instant::now();
        stream::iter(0..objects)
            .for_each_concurrent(AT_ONCE, |n| async move {
                bucket.put(&format!("data/{n}"), data[n % AT_ONCE].clone()).await.expect("a put");
            })
            .await;
        let raw = mib as f64 / begun.elapsed().as_secs_f64();
        let disk = start(volume, "bench", "bench", false).await.expect("a device");
        let disk = &disk;
        let begun = Instant::now();
        stream::iter(0..mib * MIB / WRITE)
            .for_each_concurrent(16, |n| async move {
                let at = n * WRITE;
                let part = data[at / OBJECT % AT_ONCE].slice(at % OBJECT..at % OBJECT + WRITE);
                disk.write(at as u64, part).await.expect("a write");
            })
            .await;
        disk.flush().await.expect("a flush");
        let device = mib as f64 / begun.elapsed().as_secs_f64();
        println!("puts {raw:.0} MiB/s, volume {device:.0} MiB/s: {:.2}", device / raw);
    });
}
