//! Forgetting an object whole, and what is dirty of it.

use nitro_cache::weu::{Position, Stored};
use nitro_cache::{Append, CacheManager, FORGOTTEN_RUN_MAX, Forgotten, RestoredEntry, Settings};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};

const EXTENTS: u64 = 300;

fn key(object: u16, index: u64) -> ExtentKey {
    ExtentKey::new(ObjectId(object), ExtentIndex(index))
}

fn fingerprint(index: u64) -> Fingerprint {
    Fingerprint(std::array::from_fn(|i| (index * 31 + i as u64 * (index + 7)) as u8))
}

/// Two objects with the same contents: those of the second are dups.
fn two_objects() -> CacheManager {
    let mut manager = CacheManager::new(Settings::new(16 << 20)).unwrap();
    manager.keep_journal();
    let (weu, _) = manager.open_weu().unwrap();
    for index in 0..EXTENTS {
        let appended = manager.append(weu, key(1, index), Some(&fingerprint(index)), Stored::Packed(4000));
        assert!(matches!(appended, Append::At(_)));
        assert!(manager.insert_duplicate(key(2, index * 1000), &fingerprint(index)).is_some());
    }
    manager
}

fn forget(manager: &mut CacheManager, object: u16) {
    let (mut entry, mut number) = (Some(0), Some(0));
    for weu in (0..8).map(WeuId) {
        while let Some(from) = entry {
            entry = manager.forget_in_weu(ObjectId(object), weu, from, 64);
        }
        entry = Some(0);
    }
    while let Some(from) = number {
        number = manager.forget_in_dups(ObjectId(object), from, 64);
    }
}

#[test]
fn an_object_is_forgotten_by_what_is_cached_of_it() {
    for (gone, left) in [(1, 2), (2, 1)] {
        let mut manager = two_objects();
        forget(&mut manager, gone);
        assert_eq!(manager.stats().cached_extents, EXTENTS);
        let step = |object| if object == 2 { 1000 } else { 1 };
        for index in 0..EXTENTS {
            assert_eq!(manager.peek(key(gone, index * step(gone))), None);
            assert!(manager.peek(key(left, index * step(left))).is_some());
        }
        // Only base entries can come back from a header.
        let forgotten: u64 = manager.take_forgotten().iter().map(|run| u64::from(run.count)).sum();
        assert_eq!(forgotten, if gone == 1 { EXTENTS } else { 0 });
    }
}

#[test]
fn what_is_dirty_is_discarded_with_its_pins_and_told_to_the_journal() {
    let mut manager = CacheManager::new(Settings::new(16 << 20)).unwrap();
    manager.keep_journal();
    let (weu, _) = manager.open_dirty_weu(512).unwrap();
    manager.append_dirty(weu, key(1, 0), Some(&fingerprint(0)), Stored::Packed(4000), 0);
    manager.insert_dirty_duplicate(key(1, 1), &fingerprint(0), 0, u32::MAX).unwrap();
    let version = manager.version();
    forget(&mut manager, 1);
    assert_eq!((manager.dirty_count(), manager.pinned_count()), (2, 1), "dirty extents are not forgotten");
    for index in 0..2 {
        assert!(manager.discard_dirty(key(1, index)));
        assert!(!manager.discard_dirty(key(1, index)));
        assert_eq!(manager.peek(key(1, index)), None);
    }
    assert_eq!((manager.dirty_count(), manager.pinned_count()), (0, 0));
    let told = manager.take_forgotten();
    for index in 0..2 {
        let tells = |run: &&Forgotten| (0..u64::from(run.count)).any(|n| run.first.raw() + n == key(1, index).raw());
        assert!(told.iter().filter(tells).any(|run| run.version > version), "extent {index}");
    }
}

#[test]
fn dirty_duplicates_pin_no_more_units_than_they_may() {
    let mut manager = CacheManager::new(Settings::new(16 << 20)).unwrap();
    manager.keep_journal();
    // Two units, two contents each.
    for unit in 0..2 {
        let (weu, _) = manager.open_weu().unwrap();
        for index in [unit * 2, unit * 2 + 1] {
            manager.append(weu, key(1, index), Some(&fingerprint(index)), Stored::Packed(4000));
        }
        manager.seal(weu);
        manager.stored(weu);
    }
    let mut duplicate = |of| manager.insert_dirty_duplicate(key(2, of), &fingerprint(of), 0, 1).is_some();
    // The first pins its unit, the third another, which is one too many; the second finds its own pinned.
    assert_eq!([duplicate(0), duplicate(2), duplicate(1)], [true, false, true]);
    assert_eq!((manager.dirty_count(), manager.pinned_count()), (2, 1));
}

#[test]
fn neighbours_are_forgotten_as_runs() {
    let mut manager = CacheManager::new(Settings::new(16 << 20)).unwrap();
    manager.keep_journal();
    let run = u64::from(FORGOTTEN_RUN_MAX);
    let (weu, _) = manager.open_weu().unwrap();
    for index in 0..run + 2 {
        manager.append(weu, key(1, index), None, Stored::Zero);
    }
    manager.append(weu, key(2, run + 2), None, Stored::Zero);
    let version = manager.version();
    for index in 0..run + 2 {
        manager.invalidate(key(1, index));
    }
    // The next extent by number, but of another object.
    manager.invalidate(key(2, run + 2));
    let told = manager.take_forgotten();
    let expected = [
        Forgotten { first: key(1, 0), count: FORGOTTEN_RUN_MAX, version: version + run },
        Forgotten { first: key(1, run), count: 2, version: version + run + 2 },
        Forgotten { first: key(2, run + 2), count: 1, version: version + run + 3 },
    ];
    assert_eq!(told, expected);
    assert_eq!(manager.take_forgotten(), []);
}

#[test]
fn a_run_never_makes_void_what_came_while_it_grew() {
    let mut manager = CacheManager::new(Settings::new(16 << 20)).unwrap();
    manager.keep_journal();
    let (weu, _) = manager.open_weu().unwrap();
    for index in 0..3 {
        manager.append(weu, key(1, index), None, Stored::Zero);
    }
    manager.invalidate(key(1, 0));
    // Extent 0 again, newer than what was forgotten of it.
    manager.append(weu, key(1, 0), None, Stored::Packed(4000));
    let newest = manager.version();
    manager.invalidate(key(1, 1));
    manager.invalidate(key(1, 2));
    let told = manager.take_forgotten();
    let counts: Vec<_> = told.iter().map(|run| (run.first, run.count)).collect();
    assert_eq!(counts, [(key(1, 0), 1), (key(1, 1), 2)]);
    assert!(told[0].version < newest, "{told:?}");
}

#[test]
fn what_a_restart_finds_outdated_is_told_by_the_unit() {
    let mut manager = CacheManager::new(Settings::new(16 << 20)).unwrap();
    manager.keep_journal();
    manager.begin_restore(100);
    let entry = |index, version| RestoredEntry {
        class: ClassId::new(6).unwrap(),
        key: key(1, index),
        position: Position::new(512, 0),
        stored: Stored::Zero,
        fingerprint: None,
        version,
        void: false,
        doubtful: false,
    };
    // The newer unit first; of the older one, the first extent is outdated and the third not to be trusted.
    manager.restore_weu(WeuId(3), Generation(1), &[entry(0, 50)]);
    let older = [entry(0, 10), entry(1, 11), RestoredEntry { doubtful: true, ..entry(2, 12) }];
    manager.restore_weu(WeuId(5), Generation(1), &older);
    assert_eq!(manager.cached_by_class()[6], 2);
    assert_eq!((manager.forgotten_count(), manager.untold_count()), (0, 1));
    assert_eq!(manager.take_untold(), [WeuId(5)]);
    assert_eq!(manager.void_entries(WeuId(5), 0, 64), Some(vec![true, false, true]));
    assert_eq!(manager.take_untold(), []);
}
