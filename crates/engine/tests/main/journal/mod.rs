//! The journal: what was flushed is there after a crash, and what was refused, torn or left from before never is.

mod crashes;
mod faults;

use nitro_engine::journal::{
    AppendError, Area, Budget, Counts, Identity, Journal, Record, Replay, SNAPSHOT_PART_BYTES,
};
use nitro_port::Device;
use nitro_testkit::CrashingDevice;
use nitro_units::{ClassId, ExtentKey, Generation, WeuId};
use std::collections::BTreeMap;
use std::future::Future;

const EPOCH: u64 = 0x5EED_0123_4567_89AB;
const AREA: Area = Area { offset: 8192, len: 64 << 10 };
const FIRST: Identity = Identity { epoch: EPOCH, start: 0 };

/// A device full of what is not a journal, which remembers what it is asked for.
fn recorder(block_bytes: u32) -> CrashingDevice {
    recorder_of(block_bytes, AREA.offset + AREA.len)
}

fn recorder_of(block_bytes: u32, size_bytes: u64) -> CrashingDevice {
    CrashingDevice::recorded(vec![0xA5; size_bytes as usize], block_bytes)
}

/// Another device that holds the same.
fn copy(flash: &CrashingDevice) -> CrashingDevice {
    CrashingDevice::recorded(flash.image(), flash.geometry().block_bytes)
}

/// The devices of these tests are never pending.
fn now<T>(future: impl Future<Output = T>) -> T {
    futures_util::FutureExt::now_or_never(future).unwrap()
}

fn read(flash: &CrashingDevice) -> Replay {
    now(Journal::read(flash, AREA, EPOCH)).unwrap().unwrap()
}

fn clean(key: u64, version: u64) -> Record {
    Record::Clean { key: ExtentKey::from_raw(key), version }
}

/// Appends a batch for each version, of one record. What precedes it is known to be durable.
fn append(journal: &mut Journal, flash: &CrashingDevice, versions: impl IntoIterator<Item = u64>) {
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
    let flash = recorder(512);
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
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, [0, 1]);
    let many: Vec<_> = (0..300).map(|n| clean(n, 2)).collect();
    let at = AREA.offset + 3 * 512;
    let bytes = now(journal.append(&flash, &many)).unwrap().0;
    append(&mut journal, &flash, [3]);
    assert!(logged(&read(&flash)).ends_with(&[2, 2, 3]));
    for sector in 0..bytes / 512 {
        let torn = copy(&flash);
        torn.damage(at + sector * 512, &[0xEE; 512]);
        assert_eq!(logged(&read(&torn)), [0, 1], "sector {sector}");
    }
}

#[test]
fn a_refused_batch_never_comes_back() {
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..6);
    // From each batch on, with the very same batch and with another in place of the refused one.
    for accepted in 0..6 {
        for version in [accepted as u64, 77] {
            let flash = copy(&flash);
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
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..4);
    // The first batch of this start is torn, the others are not: nothing that can be read as the log bears its number.
    let mut journal = read(&flash).resume(4, FIRST);
    append(&mut journal, &flash, 4..8);
    let torn = copy(&flash);
    torn.damage(AREA.offset + 5 * 512, &[0; 512]);
    let replay = read(&torn);
    assert_eq!((logged(&replay), replay.next_start()), (vec![0, 1, 2, 3], 2));
    append(&mut replay.resume(4, FIRST), &torn, [4]);
    assert_eq!(logged(&read(&torn)), [0, 1, 2, 3, 4]);
}

#[test]
fn a_full_half_says_so_and_a_snapshot_makes_room() {
    let flash = recorder(4096);
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
    let flash = recorder(512);
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
    let flash = recorder(512);
    let mut journal = now(Journal::create(&flash, AREA, FIRST)).unwrap();
    append(&mut journal, &flash, 0..3);
    let flash = CrashingDevice::recorded(flash.image(), 4096);
    let mut journal = read(&flash).resume(3, FIRST);
    assert!(matches!(now(journal.append(&flash, &[clean(3, 3)])), Err(AppendError::Full)), "within a block");
    journal.begin_snapshot();
    now(journal.finish_snapshot(&flash, &[clean(3, 3)])).unwrap();
    append(&mut journal, &flash, [4]);
    assert_eq!(state(&read(&flash)), BTreeMap::from([(3, 3), (4, 4)]));
}

const COUNTS: Counts =
    Counts { slots: 8, weu_bytes: 2 << 20, weu_entries_max: 4096, dirty_extents: 100, unsealed_weus: 1 };

/// Records of about so many bytes.
fn dirty_records(bytes: u64) -> impl Iterator<Item = Record> {
    (0..bytes / 63).map(dirty_base)
}

#[test]
fn a_half_holds_the_largest_state_all_that_is_carried_and_two_more_rounds() {
    for (slots, entries, dirty, block) in [(8, 4096, 100, 4096), (40, 2048, 10_000, 512), (4096, 2048, 60_000, 4096)] {
        let counts = Counts { slots, weu_entries_max: entries, dirty_extents: dirty, ..COUNTS };
        let area = Area { offset: 0, len: counts.area_bytes() };
        let budget = counts.budget(area.len / 2).expect("it is made for that");
        let flash = recorder_of(block, area.len);
        let mut journal = now(Journal::create(&flash, area, FIRST)).unwrap();
        let slot = |n| Record::Slot {
            weu: WeuId(n),
            evicted: Generation(n),
            generation: Generation(n),
            dead: vec![0xFF; entries as usize / 8],
        };
        let slots: Vec<_> = (0..slots).map(slot).collect();
        let slot_bytes: u64 = slots.iter().map(|slot| slot.encoded_bytes() as u64).sum();
        assert!(budget.state_bytes() - slot_bytes >= dirty * 26 + u64::from(entries) * 79);
        let records: Vec<_> = slots.into_iter().chain(dirty_records(budget.snapshot_bytes() - slot_bytes)).collect();
        journal.begin_snapshot();
        let (mut part, mut bytes, mut part_bytes) = (Vec::new(), 0, journal.first_part_bytes());
        for record in &records {
            bytes += record.encoded_bytes() as u64;
            part.push(record.clone());
            if bytes >= part_bytes {
                now(journal.snapshot_part(&flash, &std::mem::take(&mut part))).unwrap();
                (bytes, part_bytes) = (0, SNAPSHOT_PART_BYTES);
            }
        }
        now(journal.snapshot_part(&flash, &part)).unwrap();
        let carry: Vec<_> = dirty_records(budget.carry_bytes()).collect();
        now(journal.finish_snapshot(&flash, &carry)).unwrap();
        let round: Vec<_> = dirty_records(budget.round_bytes).collect();
        for _ in 0..2 {
            now(journal.append(&flash, &round)).unwrap();
        }
    }
}

#[test]
fn a_journal_of_any_length_is_divided_or_refused() {
    for (block, slots, entries) in [(512, 8, 64), (4096, 8, 1024), (4096, 4096, 2048)] {
        let mut least = None;
        for half in (0..4096).map(|n| n * 1024).chain((3..20).map(|n| 1 << (n + 20))) {
            let Some(budget) = Budget::new(half, block, slots, entries) else {
                assert_eq!(least, None, "{half} bytes are refused, fewer are not");
                continue;
            };
            least.get_or_insert(half);
            // The shares, the batches' headers and padding.
            let records = budget.state_bytes() + 2 * budget.carry_bytes() + 2 * budget.round_bytes;
            assert!(records + (half / SNAPSHOT_PART_BYTES + 5) * (72 + block) <= half, "{budget:?} of {half}");
            assert!(budget.pending_bytes + budget.volumes_bytes + 33 <= budget.round_bytes);
            // One dirty extent, or one volume, always has room.
            assert!(budget.pending_bytes >= 87 && budget.volumes_bytes >= 300 && budget.regions_max >= 8);
            // At least one volume's worth of regions in each half of the regions' room.
            assert!(budget.regions_max / 2 >= budget.volumes_bytes / 29);
        }
        assert!(least.unwrap() <= 3 << 20, "{least:?}");
    }
}

#[test]
fn a_journal_is_no_longer_than_its_cache_needs() {
    for weus in [8, 31, 32, 512, 65_536] {
        let counts = Counts {
            slots: weus,
            weu_entries_max: 2048,
            dirty_extents: u64::from(weus) * 256,
            unsealed_weus: 4,
            ..COUNTS
        };
        let cache_bytes = u64::from(weus) * u64::from(counts.weu_bytes);
        assert!(counts.area_bytes() <= cache_bytes / 64 + (5 << 20), "{weus} units: {}", counts.area_bytes());
        assert!(counts.budget(counts.area_bytes() / 2).is_some());
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
        class: ClassId::UNCLASSIFIED,
        fingerprint: Some(nitro_units::Fingerprint([6; 20])),
    }
}
