//! Requests of which a part is cached: the origin is read through gaps, whose bytes are neither served nor kept.

use crate::any::{Behind, Erased, faulty};
use bytes::Bytes;
use futures_util::future::join;
use futures_util::poll;
use nitro_device::RamDevice;
use nitro_device::faulty::{Effect, Fault};
use nitro_engine::manager::Settings;
use nitro_engine::{Cache, Change, EngineSettings, Volume, VolumeOptions, WriteMode};
use nitro_port::codec::Compression;
use nitro_port::{Device, ErrorKind, Operation};
use nitro_testkit::{Simulation, VirtualTime};
use nitro_units::ObjectId;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type TestVolume = Arc<Volume<Erased, Erased, VirtualTime>>;

const EXTENT: u64 = 8192;
const EXTENTS: u64 = 64;

/// What extent `index` holds: the origin's content (0), or a newer one.
fn content(index: u64, version: u64) -> Bytes {
    let word = |n: u64| ((index * 1000 + version) << 32 | n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..EXTENT / 8).flat_map(|n| word(n).to_le_bytes()).collect()
}

/// A volume whose workers run.
fn volume(mode: WriteMode) -> (Rc<Simulation>, TestVolume) {
    let sim = Simulation::new(11);
    let mut manager = Settings { weu_bytes: 512 << 10, ..Settings::new(16 << 20) };
    manager.streams.threshold_bytes = 0;
    let settings = EngineSettings {
        ram_cache_bytes: 0,
        compression: Compression::None,
        dirty_age: Duration::from_secs(100_000),
        origin_timeout: Some(Duration::from_secs(5)),
        ..EngineSettings::new(manager)
    };
    let device = |bytes| faulty(RamDevice::new(bytes, 512), sim.clock.clone(), 3);
    let flash = device(settings.manager.cache_bytes + Cache::<Erased, VirtualTime>::overhead_bytes(&settings));
    let origin = device(EXTENTS * EXTENT);
    sim.run(async {
        for index in 0..EXTENTS {
            origin.write(index * EXTENT, content(index, 0)).await.unwrap();
        }
    });
    let cache = sim.run(Cache::format(flash, sim.clock.clone(), settings, [0; 16], 5)).unwrap();
    let options = VolumeOptions { object: ObjectId(0), read_only: false, mode };
    let volume = Volume::new(cache.clone(), origin, options);
    let (inserting, destaging) = (cache.clone(), volume.clone());
    sim.spawn(async move { inserting.insertion_worker().await });
    sim.spawn(async move { cache.journal_worker().await });
    sim.spawn(async move { destaging.destage_worker().await });
    (sim, volume)
}

async fn settle(volume: &TestVolume) {
    volume.cache().settled().await;
}

async fn write(volume: &TestVolume, index: u64, version: u64) {
    volume.write(index * EXTENT, content(index, version), false).await.unwrap();
}

/// Reads extents with one request, and checks their contents, which have version 0 unless `newer` has another one.
/// Returns what the counters have grown by: reads of the origin, bytes of them, and bytes of gaps.
async fn read(volume: &TestVolume, extents: Range<u64>, newer: &[(u64, u64)]) -> [u64; 3] {
    let counters = || {
        let now = volume.counters();
        [now.origin_reads, now.origin_read_bytes, now.origin_gap_bytes]
    };
    let before = counters();
    let read = volume.read(extents.start * EXTENT, (extents.end - extents.start) * EXTENT).await.unwrap().concat();
    for (index, found) in extents.zip(read.chunks(EXTENT as usize)) {
        let version = newer.iter().find(|(of, _)| *of == index).map_or(0, |(_, version)| *version);
        assert!(found == content(index, version), "extent {index} has not its version {version}");
    }
    let after = counters();
    [0, 1, 2].map(|i| after[i] - before[i])
}

#[test]
fn a_gap_of_clean_dirty_and_pending_extents_is_read_through_and_neither_served_nor_inserted() {
    let (sim, volume) = volume(WriteMode::WriteBack);
    let own = volume.clone();
    sim.run(async move {
        // 3 and 9 are dirty on the SSD, 5 is clean there, 7 waits for insertion.
        write(&own, 3, 1).await;
        write(&own, 9, 1).await;
        read(&own, 5..6, &[]).await;
        settle(&own).await;
        write(&own, 7, 2).await;
        let newer = [(3, 1), (9, 1), (7, 2)];
        let insertions = || own.cache().status().manager.insertions;
        let pending = || own.cache().status().engine.pending_hits;
        let before = (insertions(), pending());
        let grown = read(&own, 0..13, &newer).await;
        assert_eq!(grown, [1, 13 * EXTENT, 4 * EXTENT], "one request, through the gaps");
        assert_eq!(pending() - before.1, 1, "7 does not wait any more");
        settle(&own).await;
        assert_eq!(insertions() - before.0, 9 + 1, "the misses, and what was waiting");
        // All of it is cached now, and what is newer is what the origin gets.
        assert_eq!(read(&own, 0..13, &newer).await, [0; 3]);
        own.destage_all().await.unwrap();
        for (index, version) in newer {
            let found = own.origin().read(index * EXTENT, EXTENT as usize).await.unwrap();
            assert!(found == content(index, version), "extent {index} was not destaged");
        }
    });
}

#[test]
fn what_cannot_be_read_in_a_gap_is_no_error() {
    let (sim, volume) = volume(WriteMode::WriteThrough);
    sim.run(async move {
        read(&volume, 2..3, &[]).await;
        settle(&volume).await;
        let bad = Fault::new(Effect::Fail(ErrorKind::Io)).on(Operation::Read).within(2 * EXTENT..3 * EXTENT);
        volume.origin().faults().inject(bad);
        let [reads, ..] = read(&volume, 0..6, &[]).await;
        assert_eq!(reads, 3, "once through the gap, then each part by itself");
        assert_eq!(volume.counters().errors, 0);
    });
}

#[test]
fn an_extent_whose_write_hangs_in_the_origin_is_not_read_through() {
    let (sim, volume) = volume(WriteMode::WriteThrough);
    sim.run(async move {
        read(&volume, 2..3, &[]).await;
        settle(&volume).await;
        let faults = volume.origin().faults();
        let hang = faults.inject(Fault::new(Effect::Hang).on(Operation::Write));
        let change = Change::Write { offset: 4 * EXTENT, data: content(4, 1), fua: false };
        let (result, rest) = volume.change(change).await;
        assert!(result.is_err());
        let before = volume.counters();
        let mut reading = pin!(read(&volume, 1..6, &[(4, 1)]));
        // 4 has to wait. 2 is cached, and read through.
        assert!(poll!(reading.as_mut()).is_pending());
        let after = volume.counters();
        assert_eq!(after.origin_reads - before.origin_reads, 2, "extents 1 to 3, and 5");
        faults.remove(hang);
        let (grown, ()) = join(reading, rest.unwrap()).await;
        assert_eq!(grown, [3, 5 * EXTENT, EXTENT]);
    });
}
