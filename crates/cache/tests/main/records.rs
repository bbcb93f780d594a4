//! Records of duplicates: which are void, when they are made again, and how many there may be.

use crate::world::{fingerprint, key};
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, DupRecord, RestoredRecord, Settings};
use nitro_units::{Generation, WeuId};

const WEU_BYTES: u32 = 512 << 10;
const STORED: Stored = Stored::Packed(7000);
const DUPS: u64 = 100;

fn manager() -> CacheManager {
    let mut manager = CacheManager::new(Settings { weu_bytes: WEU_BYTES, ..Settings::new(16 << 20) }).unwrap();
    manager.keep_journal();
    manager.keep_duplicates();
    manager
}

/// Seals a unit, and returns its records.
fn seal(manager: &mut CacheManager, weu: WeuId) -> Vec<DupRecord> {
    let (mut room, mut made) = (manager.seal(weu), Vec::new());
    while manager.record(weu, &mut room, &mut made) {}
    manager.stored(weu);
    made
}

/// A unit with one content, and [`DUPS`] duplicates of it, whose keys follow that of the content.
fn recorded(manager: &mut CacheManager) -> (WeuId, Generation, Vec<DupRecord>) {
    let (weu, generation) = manager.open_weu().unwrap();
    assert!(matches!(manager.append(weu, key(0), Some(&fingerprint(0)), STORED), Append::At(_)));
    for n in 1..=DUPS {
        assert!(manager.insert_duplicate(key(n), &fingerprint(0)).is_some());
    }
    (weu, generation, seal(manager, weu))
}

fn void(manager: &CacheManager, weu: WeuId) -> Vec<usize> {
    let bits = manager.void_records(weu, 0, u32::MAX).unwrap_or_default();
    bits.iter().enumerate().filter(|(_, void)| **void).map(|(number, _)| number).collect()
}

#[test]
fn a_record_is_void_once_its_extent_changes_and_the_journal_is_told() {
    let mut manager = manager();
    let (weu, generation, made) = recorded(&mut manager);
    assert_eq!((made.len() as u64, void(&manager, weu)), (DUPS, vec![]));
    assert!(made.iter().all(|record| (record.weu, record.generation, record.entry) == (weu, generation, 0)));
    assert!(made.is_sorted_by_key(|record| record.version));
    let version = manager.version();
    manager.take_forgotten();
    assert!(manager.invalidate(key(5)).is_some());
    let told = manager.take_forgotten();
    assert!(told.len() == 1 && told[0].first == key(5) && told[0].count == 1 && told[0].version > version);
    assert_eq!(void(&manager, weu), [4]);
    // Found again, it gets another record, in another unit.
    assert!(manager.insert_duplicate(key(5), &fingerprint(0)).is_some());
    let next = manager.open_weu().unwrap().0;
    let made = seal(&mut manager, next);
    assert!(made.len() == 1 && made[0].key == key(5) && made[0].version > told[0].version);
    assert_eq!((void(&manager, weu), void(&manager, next)), (vec![4], vec![]));
}

#[test]
fn records_of_an_evicted_unit_are_made_again_if_their_content_is_elsewhere() {
    let mut manager = manager();
    let (content, _) = manager.open_weu().unwrap();
    assert!(matches!(manager.append(content, key(0), Some(&fingerprint(0)), STORED), Append::At(_)));
    assert!(seal(&mut manager, content).is_empty());
    for n in 1..=DUPS {
        manager.insert_duplicate(key(n), &fingerprint(0)).unwrap();
    }
    let (weu, _) = manager.open_weu().unwrap();
    assert_eq!(seal(&mut manager, weu).len() as u64, DUPS);
    assert_eq!(manager.unrecorded_count(), 0);
    manager.take_forgotten();
    assert!(manager.evict_weu(weu).is_some());
    assert_eq!((manager.unrecorded_count() as u64, manager.void_records(weu, 0, 1)), (DUPS, None));
    assert_eq!(manager.take_forgotten(), [], "the journal knows that the unit is evicted");
    // The content goes, too: there is nothing left to record, and nothing to tell.
    assert!(manager.evict_weu(content).is_some());
    let (next, _) = manager.open_weu().unwrap();
    assert_eq!(seal(&mut manager, next), []);
    assert_eq!(manager.lookup(key(1)), None);
    assert_eq!(manager.take_forgotten(), []);
}

#[test]
fn evicted_records_keep_their_room_while_a_snapshot_is_taken() {
    let mut manager = manager();
    let bound = 32 * u64::from(manager.settings().weu_entries_max());
    let (_, _, made) = recorded(&mut manager);
    let mut all = made.len() as u64;
    manager.hold_records(true);
    // The same duplicates again and again.
    let mut weu = manager.open_weu().unwrap().0;
    while all < bound {
        for n in 1..=DUPS {
            manager.invalidate(key(n));
            manager.insert_duplicate(key(n), &fingerprint(0)).unwrap();
        }
        let made = seal(&mut manager, weu).len() as u64;
        all += made;
        manager.evict_weu(weu).unwrap();
        weu = manager.open_weu().unwrap().0;
        assert!(made == DUPS || all == bound, "{made} records, {all} in all");
    }
    assert_eq!((all, seal(&mut manager, weu).len()), (bound, 0));
    manager.hold_records(false);
    let next = manager.open_weu().unwrap().0;
    assert_eq!(seal(&mut manager, next).len() as u64, DUPS);
}

#[test]
fn a_restart_believes_what_names_content_that_is_there() {
    let mut before = manager();
    let (weu, generation, made) = recorded(&mut before);
    let restored = |record: DupRecord| RestoredRecord { record, void: false, doubtful: false };
    let mut manager = manager();
    manager.begin_restore(before.version());
    let position = nitro_cache::weu::Position::new(512, 7008);
    let entry = nitro_cache::RestoredEntry {
        key: key(0),
        position,
        stored: STORED,
        fingerprint: None,
        class: nitro_units::ClassId::UNCLASSIFIED,
        version: 1,
        void: false,
        doubtful: false,
    };
    manager.restore_weu(weu, generation, &[entry]);
    manager.invalidate(key(3));
    let wrong = |change: fn(&mut DupRecord)| {
        let mut record = made[40];
        change(&mut record);
        restored(record)
    };
    let records = [
        restored(made[0]),
        RestoredRecord { void: true, ..restored(made[1]) },
        restored(made[2]), // written to since the start
        RestoredRecord { doubtful: true, ..restored(made[3]) },
        wrong(|record| record.generation = Generation(9)),
        wrong(|record| record.entry = 1),
        wrong(|record| record.weu = WeuId(3)),
        wrong(|record| record.weu = WeuId(1 << 20)),
        wrong(|record| record.key = key(0)),
        restored(made[0]),
    ];
    assert_eq!(manager.restore_records(weu, generation, &records, |_, _| true), 1);
    assert_eq!(manager.restore_records(weu, Generation(9), &records, |_, _| true), 0);
    assert_eq!(manager.restore_records(weu, generation, &[restored(made[50])], |_, _| false), 0);
    let found: Vec<u64> = (0..=DUPS).filter(|n| manager.peek(key(*n)).is_some()).collect();
    assert_eq!((found, void(&manager, weu)), (vec![0, 1], (1..=10).collect()));
    assert_eq!(manager.take_untold(), [weu]);
    manager.end_restore();
}
