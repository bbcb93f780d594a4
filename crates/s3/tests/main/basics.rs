//! Volumes on a store without faults: what is refused, what requests are made, and what large changes cost.

use crate::crash::sleepy;
use crate::model::{SECTOR, stamped, stamps};
use crate::sim::{Client, Faults, World};
use bytes::Bytes;
use futures_util::future::{Either, join, join_all, select};
use nitro_port::Clock as _;
use nitro_s3::{Header, Options, Put, S3Error, Store, StoreError, Volume, create, open};
use nitro_testkit::VirtualTime;
use std::cell::Cell;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

pub const CHUNK: u64 = 64 << 10;

pub fn header(size_bytes: u64) -> Header {
    Header { uuid: [7; 16], size_bytes, chunk_bytes: CHUNK as u32 }
}

/// Runs `test` with a new volume.
pub fn with_volume<F: Future>(
    size_bytes: u64,
    test: impl FnOnce(Rc<World>, Rc<Volume<Client, VirtualTime>>) -> F,
) -> F::Output {
    let world = World::new(1);
    let simulation = Rc::clone(world.simulation());
    let output = simulation.run(async {
        create(Client(Rc::clone(&world)), world.clock(), "test", 1, &header(size_bytes)).await.unwrap();
        let volume = Rc::new(opened(&world).await.unwrap());
        match select(pin!(test(Rc::clone(&world), Rc::clone(&volume))), pin!(volume.run())).await {
            Either::Left((output, _)) => output,
            Either::Right((never, _)) => match never {},
        }
    });
    simulation.end();
    output
}

pub async fn opened(world: &Rc<World>) -> Result<Volume<Client, VirtualTime>, S3Error> {
    open(Client(Rc::clone(world)), world.clock(), "test", 2, Options::default(), false).await
}

#[test]
fn a_store_that_loses_races_is_refused() {
    for seed in 0..20 {
        let world = World::new(seed);
        let result = world.simulation().run(async {
            world.loses.set(true);
            create(Client(Rc::clone(&world)), world.clock(), "test", seed, &header(CHUNK)).await
        });
        assert!(matches!(&result, Err(S3Error::Unfit(why)) if why.contains("s3s-fs")), "{result:?}");
        assert!(world.names("").is_empty(), "{:?}", world.names(""));
        world.simulation().end();
    }
}

#[test]
fn what_is_no_volume_is_refused_by_name() {
    let world = World::new(1);
    let simulation = Rc::clone(world.simulation());
    simulation.run(async {
        assert!(matches!(opened(&world).await.err(), Some(S3Error::NoVolume)));
        assert!(world.names("").is_empty(), "a prefix without a volume is left alone");
        let make = || async { create(Client(Rc::clone(&world)), world.clock(), "test", 1, &header(CHUNK)).await };
        make().await.unwrap();
        let other = Header { uuid: [8; 16], ..header(CHUNK) };
        let again = create(Client(Rc::clone(&world)), world.clock(), "test", 1, &other).await;
        assert!(matches!(again, Err(S3Error::NotEmpty(name)) if name == "volume"));
        drop(opened(&world).await.unwrap());
        assert!(matches!(make().await, Err(S3Error::NotEmpty(name)) if name.starts_with("manifest/")));
        // Another volume's header, and a damaged manifest.
        world.objects.borrow_mut().insert("volume".to_owned(), other.encode().into());
        assert!(matches!(opened(&world).await.err(), Some(S3Error::Foreign(name)) if name.starts_with("manifest/")));
        world.objects.borrow_mut().insert("volume".to_owned(), header(CHUNK).encode().into());
        let name = world.names("manifest/").pop().unwrap();
        let mut bytes = world.objects.borrow()[&name].to_vec();
        bytes[40] ^= 1;
        world.objects.borrow_mut().insert(name, bytes.into());
        assert!(matches!(opened(&world).await.err(), Some(S3Error::Format { .. })));
        // The store refuses everything.
        world.faults.set(Faults { refused: 1000, ..Faults::default() });
        assert!(matches!(opened(&world).await.err(), Some(S3Error::Store(StoreError::Refused(_)))));
    });
    simulation.end();
}

#[test]
fn equal_reads_at_the_same_time_are_one_and_a_whole_chunk_is_one_put() {
    with_volume(4 * CHUNK, |_, volume| async move {
        volume.write(0, stamped(5, CHUNK as usize / SECTOR)).await.unwrap();
        volume.flush().await.unwrap();
        let before = volume.metrics().snapshot();
        let reads = join_all((0..10).map(|_| volume.read(512, 8192))).await;
        assert!(reads.into_iter().all(|read| stamps(&read.unwrap()) == [5; 16]));
        let after = volume.metrics().snapshot();
        assert_eq!((after.gets - before.gets, after.got_bytes - before.got_bytes), (1, 8192));
        // In small parts, in any order: one object, and nothing is read.
        let sectors = CHUNK as usize / SECTOR;
        join_all((0..sectors).rev().map(|s| volume.write(CHUNK + (s * SECTOR) as u64, stamped(s as u64 + 9, 1)))).await;
        volume.flush().await.unwrap();
        let last = volume.metrics().snapshot();
        assert_eq!((last.gets, last.puts), (after.gets, after.puts + 2), "the object and a generation");
        // Nothing to do.
        volume.flush().await.unwrap();
        assert_eq!(volume.metrics().snapshot().puts, last.puts);
    });
}

#[test]
fn a_trim_of_terabytes_is_one_generation() {
    const SIZE: u64 = (1 << 24) * CHUNK;
    with_volume(SIZE, |world, volume| async move {
        for at in [0, SIZE / 2, SIZE - CHUNK] {
            volume.write(at, stamped(3, 1)).await.unwrap();
        }
        volume.flush().await.unwrap();
        assert_eq!(world.names("data/").len(), 3);
        let (before, requests) = (volume.metrics().snapshot(), world.requests.get());
        volume.discard(0, SIZE).unwrap();
        volume.flush().await.unwrap();
        assert_eq!(volume.metrics().snapshot().puts - before.puts, 1);
        world.clock().sleep(Duration::from_secs(60)).await;
        assert!(world.requests.get() - requests < 12, "{} requests", world.requests.get() - requests);
        assert!(world.names("data/").is_empty() && stamps(&volume.read(SIZE / 2, 512).await.unwrap()) == [0]);
        let map = volume.allocation(0, SIZE);
        assert!(map.len() == 1 && map[0].hole);
    });
}

#[test]
fn many_changes_become_segments_and_come_back() {
    const CHUNKS: u64 = 40_000;
    with_volume(CHUNKS * CHUNK, |world, volume| async move {
        // Every seventh chunk of three segments, in several generations.
        let changed: Vec<u64> = (0..CHUNKS).step_by(7).collect();
        for part in changed.chunks(1500) {
            for chunk in part {
                volume.write(chunk * CHUNK, stamped(chunk + 1, 1)).await.unwrap();
            }
            volume.flush().await.unwrap();
        }
        // What they have replaced is deleted later.
        world.clock().sleep(Duration::from_secs(60)).await;
        assert_eq!(world.names("segment/").len(), 3, "{:?}", world.names("segment/"));
        let next = opened(&world).await.unwrap();
        for chunk in (0..CHUNKS).step_by(1000).chain([6993, 39_998, 39_999]) {
            let expected = if chunk % 7 == 0 { chunk + 1 } else { 0 };
            assert_eq!(stamps(&next.read(chunk * CHUNK, SECTOR).await.unwrap()), [expected], "chunk {chunk}");
        }
        assert!(matches!(volume.write(0, stamped(1, 1)).await, Ok(())), "it has not heard yet");
        assert!(matches!(volume.flush().await, Err(S3Error::Fenced { .. })));
        assert!(matches!(volume.write(0, stamped(1, 1)).await, Err(S3Error::Fenced { .. })));
    });
}

#[test]
fn a_put_whose_answer_was_lost_is_our_own() {
    with_volume(4 * CHUNK, |world, volume| async move {
        // Each request is carried out, and half of the answers are lost or late.
        world.faults.set(Faults { lost: 500, ..Faults::default() });
        for round in 1..10 {
            volume.write(CHUNK, stamped(round, 9)).await.unwrap();
            volume.flush().await.unwrap();
        }
        assert_eq!(stamps(&volume.read(CHUNK, 9 * SECTOR).await.unwrap()), [9; 9]);
        assert!(volume.metrics().snapshot().retries > 5);
    });
}

/// A client whose server falls asleep just before it puts a manifest.
struct Tired {
    client: Client,
    sleeps: Rc<Cell<Duration>>,
    puts: Cell<u32>,
}

impl Store for Tired {
    async fn put_new(&self, name: &str, data: Bytes) -> Result<Put, StoreError> {
        let clock = self.client.0.clock();
        if name.starts_with("manifest/") && self.puts.replace(1) == 0 {
            self.sleeps.set(clock.now() + Duration::from_secs(600));
            clock.sleep(Duration::from_millis(1)).await;
        }
        self.client.put_new(name, data).await
    }

    async fn put(&self, name: &str, data: Bytes) -> Result<(), StoreError> {
        self.client.put(name, data).await
    }

    async fn get(&self, name: &str, part: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.client.get(name, part).await
    }

    async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        self.client.list(folder, after).await
    }

    async fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        self.client.delete(names).await
    }
}

#[test]
fn a_server_that_slept_while_it_opened_the_volume_notices_what_was_written_meanwhile() {
    with_volume(4 * CHUNK, |world, volume| async move {
        let sleeps = Rc::new(Cell::new(Duration::ZERO));
        let tired = Tired { client: Client(Rc::clone(&world)), sleeps: Rc::clone(&sleeps), puts: Cell::new(0) };
        let opening = open(tired, world.clock(), "test", 3, Options::default(), false);
        let writes = async {
            world.clock().sleep(Duration::from_secs(60)).await;
            for round in 1..6 {
                volume.write(0, stamped(round, 1)).await.unwrap();
                volume.flush().await.unwrap();
            }
            world.clock().sleep(Duration::from_secs(60)).await;
            // The number that the other server is about to write is free again.
            assert_eq!(world.names("manifest/").len(), 2, "{:?}", world.names("manifest/"));
        };
        let (opened, ()) = join(sleepy(world.clock(), sleeps, opening), writes).await;
        assert!(matches!(opened.err(), Some(S3Error::Fenced { generation: 6 })));
        volume.write(0, stamped(7, 1)).await.unwrap();
        volume.flush().await.unwrap();
        assert_eq!(stamps(&volume.read(0, SECTOR).await.unwrap()), [7]);
    });
}
