//! Snapshots and growth, and a store that does not answer for minutes, in virtual time.

use crate::basics::{CHUNK, header, opened, with_volume};
use crate::model::{SECTOR, stamped, stamps};
use crate::sim::{Client, Faults, World};
use futures_util::future::{Either, select};
use nitro_port::Clock as _;
use nitro_s3::{Header, Manifest, Options, S3Error, SNAPSHOTS_MAX, Segment, Volume, open_snapshot};
use nitro_testkit::VirtualTime;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

type Disk = Volume<Client, VirtualTime>;

async fn snapshot_of(world: &Rc<World>, name: &str) -> Result<Disk, S3Error> {
    open_snapshot(Client(Rc::clone(world)), world.clock(), ("test", name), 3, Options::default()).await
}

/// Writes whole chunks, and waits until they are durable and garbage is deleted.
async fn put(world: &World, volume: &Disk, chunks: impl Iterator<Item = u64>, stamp: u64) {
    for chunk in chunks {
        volume.write(chunk * CHUNK, stamped(stamp, CHUNK as usize / SECTOR)).await.unwrap();
    }
    volume.flush().await.unwrap();
    world.clock().sleep(Duration::from_secs(60)).await;
}

async fn first(volume: &Disk, chunk: u64) -> u64 {
    stamps(&volume.read(chunk * CHUNK, SECTOR).await.unwrap())[0]
}

/// Runs `test` while a volume works.
async fn working<T>(volume: &Disk, test: impl Future<Output = T>) -> T {
    match select(pin!(test), pin!(volume.run())).await {
        Either::Left((output, _)) => output,
        Either::Right((never, _)) => match never {},
    }
}

#[test]
fn a_snapshot_keeps_its_content_until_it_is_deleted_and_not_longer() {
    with_volume(8 * CHUNK, |world, volume| async move {
        let data = || world.names("data/").len();
        put(&world, &volume, 0..4, 1).await;
        volume.snapshot("one").await.unwrap();
        put(&world, &volume, 0..2, 2).await;
        volume.snapshot("two").await.unwrap();
        put(&world, &volume, 0..4, 3).await;
        volume.discard(3 * CHUNK, CHUNK).unwrap();
        volume.flush().await.unwrap();
        world.clock().sleep(Duration::from_secs(60)).await;
        // Four of the first one, two more of the second one, three of the volume.
        assert_eq!((data(), world.names("snapshot/").len()), (9, 2));
        let (one, two) = (snapshot_of(&world, "one").await.unwrap(), snapshot_of(&world, "two").await.unwrap());
        for (chunk, expected) in [(0, [1, 2, 3]), (1, [1, 2, 3]), (2, [1, 1, 3]), (3, [1, 1, 0]), (4, [0, 0, 0])] {
            assert_eq!([first(&one, chunk).await, first(&two, chunk).await, first(&volume, chunk).await], expected);
        }
        // Another server keeps them, too: it goes through all objects.
        let next = opened(&world).await.unwrap();
        working(&next, async {
            world.clock().sleep(Duration::from_secs(60)).await;
            assert_eq!((data(), first(&one, 3).await, first(&two, 0).await), (9, 1, 2));
            next.delete_snapshot("one").await.unwrap();
            world.clock().sleep(Duration::from_secs(60)).await;
            // Chunks 2 and 3 are those of the second one, too.
            assert_eq!((data(), world.names("snapshot/").len()), (7, 1));
            assert_eq!((first(&two, 0).await, first(&two, 2).await, first(&next, 0).await), (2, 1, 3));
            assert!(matches!(snapshot_of(&world, "one").await.err(), Some(S3Error::NoSnapshot(_))));
            next.delete_snapshot("two").await.unwrap();
            world.clock().sleep(Duration::from_secs(60)).await;
            assert_eq!((data(), world.names("snapshot/").len()), (3, 0));
        })
        .await;
    });
}

#[test]
fn snapshots_of_segments_share_them_and_keep_what_they_have() {
    const CHUNKS: u64 = 20_000;
    with_volume(CHUNKS * CHUNK, |world, volume| async move {
        let some = || (0..CHUNKS).step_by(9);
        for chunk in some() {
            volume.write(chunk * CHUNK, stamped(chunk + 1, 1)).await.unwrap();
        }
        volume.flush().await.unwrap();
        assert_eq!(world.names("segment/").len(), 2, "too many runs for a manifest");
        volume.snapshot("one").await.unwrap();
        volume.discard(0, CHUNKS * CHUNK).unwrap();
        for chunk in some().step_by(2) {
            volume.write(chunk * CHUNK, stamped(5, 1)).await.unwrap();
        }
        volume.flush().await.unwrap();
        let next = opened(&world).await.unwrap();
        working(&next, async {
            world.clock().sleep(Duration::from_secs(600)).await;
            let one = snapshot_of(&world, "one").await.unwrap();
            for chunk in some().step_by(100) {
                assert_eq!(first(&one, chunk).await, chunk + 1);
            }
            assert_eq!(world.names("data/").len(), some().count() + some().step_by(2).count());
            next.delete_snapshot("one").await.unwrap();
            world.clock().sleep(Duration::from_secs(600)).await;
            assert_eq!(world.names("data/").len(), some().step_by(2).count());
            assert!(world.names("segment/").len() <= 2, "{:?}", world.names("segment/"));
        })
        .await;
    });
}

#[test]
fn snapshots_that_cannot_be_are_refused() {
    with_volume(4 * CHUNK, |world, volume| async move {
        let refused = async |name: &str| matches!(volume.snapshot(name).await, Err(S3Error::Invalid(_)));
        for name in ["", "a/b", "a@b", "a b", &"x".repeat(65)] {
            assert!(refused(name).await, "{name}");
        }
        for number in 0..SNAPSHOTS_MAX {
            volume.snapshot(&format!("{number}")).await.unwrap();
        }
        assert!(refused("0").await && refused("one-more").await);
        assert!(matches!(volume.delete_snapshot("none").await, Err(S3Error::NoSnapshot(_))));
        volume.delete_snapshot("7").await.unwrap();
        volume.snapshot("one-more").await.unwrap();
        assert_eq!(volume.snapshots().len(), SNAPSHOTS_MAX);
        assert!(matches!(volume.grow(CHUNK).await, Err(S3Error::Invalid(_))));
        // Who has lost the volume makes none.
        drop(opened(&world).await.unwrap());
        assert!(matches!(volume.delete_snapshot("0").await, Err(S3Error::Fenced { .. })));
    });
}

#[test]
fn a_volume_grows_and_keeps_what_it_has_whatever_its_size_was() {
    // The last object is short, or whole; the size may grow within it.
    for (before, after) in
        [(3 * CHUNK + 1536, 3 * CHUNK + 8192), (3 * CHUNK + 512, 9 * CHUNK), (4 * CHUNK, 40_000 * CHUNK)]
    {
        with_volume(before, |world, volume| async move {
            let end = before - SECTOR as u64;
            put(&world, &volume, 0..1, 1).await;
            volume.write(end, stamped(2, 1)).await.unwrap();
            volume.snapshot("small").await.unwrap();
            // What is in RAM alone grows, too.
            volume.write(end - 512, stamped(3, 1)).await.unwrap();
            volume.grow(after).await.unwrap();
            assert_eq!(volume.header().size_bytes, after);
            let last = after - SECTOR as u64;
            assert_eq!(stamps(&volume.read(end - 512, 3 * 512).await.unwrap()), [3, 2, 0]);
            volume.write(last, stamped(4, 1)).await.unwrap();
            volume.write(before, stamped(5, 1)).await.unwrap();
            volume.flush().await.unwrap();
            let next = opened(&world).await.unwrap();
            assert_eq!(next.header().size_bytes, after);
            assert_eq!(stamps(&next.read(end - 512, 3 * 512).await.unwrap()), [3, 2, 5]);
            assert_eq!((stamps(&next.read(last, 512).await.unwrap()), first(&next, 0).await), (vec![4], 1));
            let small = snapshot_of(&world, "small").await.unwrap();
            assert_eq!(
                (small.header().size_bytes, stamps(&small.read(end - 512, 1024).await.unwrap())),
                (before, vec![0, 2])
            );
            assert!(volume.grow(after + 512).await.is_err(), "it has lost the volume");
        });
    }
}

#[test]
fn an_outage_of_minutes_costs_time_and_nothing_else() {
    with_volume(16 * CHUNK, |world, volume| async move {
        put(&world, &volume, 0..4, 1).await;
        world.faults.set(Faults { errors: 1000, ..Faults::default() });
        let outage = async {
            world.clock().sleep(Duration::from_secs(900)).await;
            world.faults.set(Faults::default());
        };
        let begun = world.clock().now();
        let work = async {
            for chunk in 0..16 {
                volume.write(chunk * CHUNK, stamped(2, CHUNK as usize / SECTOR)).await.unwrap();
            }
            let read = stamps(&volume.read(0, SECTOR).await.unwrap());
            volume.flush().await.unwrap();
            read
        };
        let (read, ()) = futures_util::future::join(work, outage).await;
        let took = world.clock().now() - begun;
        // The pauses end soon after the outage.
        assert!((900..930).contains(&took.as_secs()) && read == [2], "{took:?}");
        let next = opened(&world).await.unwrap();
        assert_eq!((first(&next, 0).await, first(&next, 15).await), (2, 2));
    });
}

#[test]
fn manifests_and_segments_come_back_and_no_changed_one_is_taken() {
    with_volume(8 * CHUNK, |world, volume| async move {
        put(&world, &volume, 0..4, 1).await;
        let original = header(8 * CHUNK);
        let newest = || world.objects.borrow()[&world.names("manifest/").pop().unwrap()].clone();
        let version = |bytes: &[u8]| bytes[8];
        assert_eq!(version(&newest()), 1, "who knows no snapshots reads what has none");
        volume.snapshot("one").await.unwrap();
        volume.grow(9 * CHUNK).await.unwrap();
        let bytes = newest();
        assert_eq!(version(&bytes), 2);
        let manifest = Manifest::decode(&bytes, &original).unwrap();
        assert_eq!((manifest.grown_bytes, manifest.snapshots.len()), (Some(9 * CHUNK), 1));
        assert_eq!((manifest.encode(), manifest.header(&original).chunks()), (bytes.to_vec(), 9));
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 4;
            assert!(Manifest::decode(&changed, &original).is_err(), "byte {at}");
        }
        // A segment from before the volume grew.
        let small = Header { size_bytes: 8 * CHUNK, ..original };
        let hole = nitro_s3::Id::HOLE;
        let segment = Segment { uuid: small.uuid, index: 0, chunks: vec![hole; 8].into() };
        let read = Segment::decode(&segment.encode(), &manifest.header(&original), 0).unwrap();
        assert_eq!(read.chunks.len(), 9);
        assert!(Segment::decode(&read.encode(), &small, 0).is_err());
    });
}
