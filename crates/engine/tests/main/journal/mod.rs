//! The journal: what was flushed is there after a crash, and what was refused, torn or left from before never is.

mod crashes;
pub mod device;
mod faults;

use device::Recorder;
use nitro_engine::journal::{AppendError, Area, Counts, Identity, Journal, Record, Replay, SNAPSHOT_PART_BYTES};
use nitro_engine::manager::{ExtentKey, Generation, ObjectId, WeuId};
use nitro_engine::port::Device;
use std::collections::BTreeMap;
use std::future::Future;

const EPOCH: u64 = 0x5EED_0123_4567_89AB;
const AREA: Area = Area { offset: 8192, len: 64 << 10 };
const FIRST: Identity = Identity { epoch: EPOCH, start: 0 };

/// The devices of these tests are never pending.
fn now<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).unwrap()
}

fn read(flash: &Recorder) -> Replay {
    now(Journal::read(flash, AREA, EPOCH)).unwrap().unwrap()
}

fn clean(key: u64, version: u64) -> Record {
    Record::Clean { key: ExtentKey::from_raw(key), version }
}

/// Appends a batch for each version, of one record. What precedes it is known to be durable.
fn append(journal: &mut Journal, flash: &Recorder, versions: impl IntoIterator<Item = u64>) {
    for version in versions {
        let position = journal.position();
        now(flash.flush()).unwrap();
        journal.flushed(position);
        now(journal.append(flash, &[clean(version, version)])).unwrap();
    }
}

/// The versions in the log, in order.
fn logged(replay: &Replay) -> Vec<u64> {
    let log = replay.batches().iter().filter(|b| !b.is_snapshot());
    log.flat_map(|b| b.records())
        .map(|record| match record {
            Record::Clean { version, .. } => version,
            other => panic!("{other:?} was never appended"),
        })
        .collect()
}

/// What a whole journal says: the last version of each key.
fn state(replay: &Replay) -> BTreeMap<u64, u64> {
    let records = replay.batches().iter().flat_map(|b| b.records());
    records
        .map(|record| match record {
            Record::Clean { key, version } => (key.raw(), version),
            other => panic!("{other:?} was never appended"),
        })
        .collect()
}

#[test]
fn a_journal_comes_back_through_a_switch() {
    let flash = Recorder::new(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..5);
    assert_eq!(logged(&read(&flash)), [0, 1, 2, 3, 4]);
    journal.begin_snapshot();
    now(journal.snapshot_part(&flash, &[clean(0, 4)])).unwrap();
    append(&mut journal, &flash, [5]);
    assert_eq!(logged(&read(&flash)), [0, 1, 2, 3, 4, 5]);
    now(journal.snapshot_part(&flash, &[clean(1, 4)])).unwrap();
    now(journal.finish_snapshot(&flash, &[clean(5, 5)])).unwrap();
    append(&mut journal, &flash, [6, 7]);
    let replay = read(&flash);
    assert_eq!((logged(&replay), replay.log_batches()), (vec![6, 7], 2));
    assert_eq!(state(&replay), BTreeMap::from([(0, 4), (1, 4), (5, 5), (6, 6), (7, 7)]));
    let last: Vec<_> = replay.batches().iter().map(|b| b.is_last()).collect();
    assert_eq!(last, [false, false, false, false, true]);
    let counters = journal.counters();
    assert_eq!((counters.log_batches, counters.log_bytes, counters.snapshots), (8, 8 * 512, 2));
    assert_eq!(counters.snapshot_bytes, 4 * 512);
    assert_eq!(journal.room(), journal.half_bytes() - 5 * 512);
}

#[test]
fn a_torn_batch_ends_the_log() {
    let flash = Recorder::new(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, [0, 1]);
    let many: Vec<_> = (0..300).map(|n| clean(n, 2)).collect();
    let at = AREA.offset + 3 * 512;
    let bytes = now(journal.append(&flash, &many)).unwrap().0;
    append(&mut journal, &flash, [3]);
    assert!(logged(&read(&flash)).ends_with(&[2, 2, 3]));
    for sector in 0..bytes / 512 {
        let torn = flash.copy();
        torn.fill(at + sector * 512, 512, 0xEE);
        assert_eq!(logged(&read(&torn)), [0, 1], "sector {sector}");
    }
}

#[test]
fn a_refused_batch_never_comes_back() {
    let flash = Recorder::new(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..6);
    // From each batch on, with the very same batch and with another in place of the refused one.
    for accepted in 0..6 {
        for version in [accepted as u64, 77] {
            let flash = flash.copy();
            let mut journal = read(&flash).resume(accepted, FIRST);
            append(&mut journal, &flash, [version]);
            let expected: Vec<_> = (0..accepted as u64).chain([version]).collect();
            let replay = read(&flash);
            assert_eq!(logged(&replay), expected, "{accepted} accepted");
            assert_eq!(replay.lost_batches(), 0);
            append(&mut replay.resume(accepted + 1, FIRST), &flash, [88]);
            assert_eq!(logged(&read(&flash)), [&expected[..], &[88]].concat());
        }
    }
}

#[test]
fn remains_of_a_torn_log_never_continue_it() {
    let flash = Recorder::new(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..4);
    // The first batch of this start is torn, the others are not: nothing that can be read as the log bears its number.
    let mut journal = read(&flash).resume(4, FIRST);
    append(&mut journal, &flash, 4..8);
    let torn = flash.copy();
    torn.fill(AREA.offset + 5 * 512, 512, 0);
    let replay = read(&torn);
    assert_eq!((logged(&replay), replay.next_start()), (vec![0, 1, 2, 3], 2));
    append(&mut replay.resume(4, FIRST), &torn, [4]);
    assert_eq!(logged(&read(&torn)), [0, 1, 2, 3, 4]);
}

#[test]
fn a_full_half_says_so_and_a_snapshot_makes_room() {
    let flash = Recorder::new(4096);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..7);
    assert_eq!(journal.room(), 0);
    assert!(matches!(now(journal.append(&flash, &[clean(9, 9)])), Err(AppendError::Full)));
    journal.begin_snapshot();
    now(journal.finish_snapshot(&flash, &[clean(9, 9)])).unwrap();
    assert_eq!(journal.room(), journal.half_bytes() - 4096);
    append(&mut journal, &flash, [10]);
    assert_eq!(state(&read(&flash)), BTreeMap::from([(9, 9), (10, 10)]));
}

#[test]
fn a_snapshot_that_is_too_large_leaves_the_log_as_it_was() {
    let flash = Recorder::new(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..3);
    journal.begin_snapshot();
    let part: Vec<_> = (0..1500).map(|n| clean(n, 50)).collect();
    now(journal.snapshot_part(&flash, &part)).unwrap();
    let too_large = |result| matches!(result, Err(AppendError::SnapshotTooLarge { half_bytes: 32768 }));
    assert!(too_large(now(journal.snapshot_part(&flash, &part))));
    assert!(too_large(now(journal.snapshot_part(&flash, &[]))), "a part is missing");
    assert!(too_large(now(journal.finish_snapshot(&flash, &[]))));
    append(&mut journal, &flash, [3]);
    assert_eq!(logged(&read(&flash)), [0, 1, 2, 3]);
    journal.begin_snapshot();
    now(journal.snapshot_part(&flash, &part)).unwrap();
    assert!(too_large(now(journal.finish_snapshot(&flash, &part))), "the carried records are too many");
    journal.begin_snapshot();
    now(journal.finish_snapshot(&flash, &[clean(1, 4)])).unwrap();
    assert_eq!(state(&read(&flash)), BTreeMap::from([(1, 4)]));
}

#[test]
fn the_log_goes_on_on_a_device_with_larger_blocks() {
    let flash = Recorder::new(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..3);
    let flash = flash.with_blocks(4096);
    let mut journal = read(&flash).resume(3, FIRST);
    assert!(matches!(now(journal.append(&flash, &[clean(3, 3)])), Err(AppendError::Full)), "within a block");
    journal.begin_snapshot();
    now(journal.finish_snapshot(&flash, &[clean(3, 3)])).unwrap();
    append(&mut journal, &flash, [4]);
    assert_eq!(state(&read(&flash)), BTreeMap::from([(3, 3), (4, 4)]));
}

#[test]
fn the_area_holds_the_largest_snapshot_and_its_log() {
    for (slots, entries, dirty, regions) in [(8, 4096, 100, 1), (40, 2048, 10_000, 64), (4096, 2048, 60_000, 4096)] {
        let counts = Counts {
            slots,
            weu_bytes: 2 << 20,
            weu_entries_max: entries,
            dirty_max: dirty,
            unsealed_entries_max: 100,
            regions_max: regions,
            volumes_max: 2,
        };
        let area = Area { offset: 0, len: counts.area_bytes() };
        let flash = Recorder::with_size(4096, area.len);
        let mut journal = now(Journal::create(&flash, area, FIRST)).unwrap();
        let slot = |n| Record::Slot {
            weu: WeuId(n),
            evicted: Generation(n),
            generation: Generation(n),
            dead: vec![0xFF; entries as usize / 8],
        };
        let region = |n| Record::RegionOpened { object: ObjectId(1), region: n };
        let dirty = (0..dirty + 100).map(dirty_base);
        let volume = |n| Record::Volume {
            object: ObjectId(n),
            name: "v".repeat(255),
            origin_bytes: 1 << 40,
            uuid: [7; 16],
            mode: 1,
        };
        let records = (0..slots).map(slot).chain((0..regions).map(region)).chain(dirty).chain((0..2).map(volume));
        let records: Vec<_> = records.collect();
        let least = if slots < 32 { 64 << 10 } else { counts.snapshot_bytes().max(256 << 10) };
        let small = journal.first_part_bytes();
        for (first, waste) in [(SNAPSHOT_PART_BYTES, 0), (small, Counts::FIRST_PART_WASTE_BYTES)] {
            journal.begin_snapshot();
            let (mut part, mut bytes, mut part_bytes) = (Vec::new(), 0, first);
            for record in &records {
                bytes += record.encoded_bytes() as u64;
                part.push(record.clone());
                if bytes >= part_bytes {
                    now(journal.snapshot_part(&flash, &std::mem::take(&mut part))).unwrap();
                    (bytes, part_bytes) = (0, SNAPSHOT_PART_BYTES);
                }
            }
            now(journal.finish_snapshot(&flash, &part)).unwrap();
            assert!(journal.room() >= least - waste, "{} bytes left of {}", journal.room(), journal.half_bytes());
            assert_eq!(journal.room(), journal.log_bytes());
        }
    }
}

fn dirty_base(n: u64) -> Record {
    Record::DirtyBase {
        key: ExtentKey::from_raw(n),
        version: n,
        weu: WeuId(1),
        generation: Generation(2),
        start: 3,
        entry: 4,
        offset: 512,
        stored_bytes: 4096,
        crc: 5,
        raw_blocks: true,
        fingerprint: Some(nitro_engine::manager::Fingerprint([6; 20])),
    }
}
