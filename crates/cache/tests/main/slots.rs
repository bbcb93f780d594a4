//! When slots of evicted write-evict units may be used again.

use nitro_cache::weu::{Space, Stored};
use nitro_cache::{Append, CacheManager, Settings};
use nitro_units::{ExtentIndex, ExtentKey, Generation, ObjectId, WeuId};

/// A manager whose slots all hold something.
fn full() -> CacheManager {
    let mut manager = CacheManager::new(Settings { dedup: false, ..Settings::new(16 << 20) }).unwrap();
    let mut extent = 0;
    while let Some((weu, _)) = manager.open_weu() {
        let key = ExtentKey::new(ObjectId(0), ExtentIndex(extent));
        assert!(matches!(manager.append(weu, key, None, Stored::Packed(4000)), Append::At(_)));
        manager.seal(weu);
        manager.stored(weu);
        extent += 1;
    }
    manager
}

fn evict_to_discard(manager: &mut CacheManager) -> WeuId {
    let weu = manager.begin_eviction(true).unwrap().weu;
    while manager.evict_step(weu) {}
    weu
}

#[test]
fn a_slot_is_not_opened_while_its_discard_is_under_way() {
    let mut manager = full();
    let evicted: Vec<WeuId> = (0..2).map(|_| evict_to_discard(&mut manager)).collect();
    assert!(!manager.wants_eviction(), "both will be free");
    assert!(manager.is_waiting_for_slots());
    assert_eq!(manager.open_weu(), None);
    manager.discarded(evicted[1]);
    manager.discarded(evicted[1]);
    assert_eq!(manager.open_weu().map(|(weu, _)| weu), Some(evicted[1]));
    assert_eq!(manager.open_weu(), None);
    manager.discarded(evicted[0]);
    assert_eq!(manager.open_weu().map(|(weu, _)| weu), Some(evicted[0]));
}

#[test]
fn a_slot_that_is_given_up_while_it_is_discarded_stays_so_until_the_cache_grows() {
    let mut manager = full();
    for weu in (0..7).map(WeuId) {
        assert_eq!(evict_to_discard(&mut manager), weu);
    }
    manager.begin_shrink(6);
    assert_eq!(manager.occupied_beyond(6), 2, "one is being discarded, one is full");
    manager.discarded(WeuId(6));
    assert_eq!(manager.occupied_beyond(6), 1);
    assert_eq!(manager.open_weu(), None);
    manager.grow(8, Generation(0));
    assert_eq!(manager.open_weu().map(|(weu, _)| weu), Some(WeuId(6)));
}

#[test]
fn a_unit_of_overwritten_dirty_extents_is_kept_until_the_journal_has_what_superseded_them() {
    let mut manager = CacheManager::new(Settings { dedup: false, ..Settings::new(16 << 20) }).unwrap();
    let key = ExtentKey::new(ObjectId(0), ExtentIndex(7));
    let weus = [1, 2].map(|second| {
        let (weu, _) = manager.open_dirty_weu(512).unwrap();
        assert!(matches!(manager.append_dirty(weu, key, None, Stored::Packed(4000), second), Append::At(_)));
        manager.seal(weu);
        manager.stored(weu);
        weu
    });
    assert_eq!((manager.pinned_count(), manager.evict()), (2, None));
    let superseded = manager.superseded();
    assert_eq!((manager.pinned_count(), manager.evict()), (2, None), "a crash brings the older content back");
    manager.release(superseded);
    assert_eq!((manager.pinned_count(), manager.evict().map(|evicted| evicted.weu)), (1, Some(weus[0])));
}

#[test]
fn every_byte_of_the_units_is_told_once() {
    let weu_bytes = u64::from(Settings::new(16 << 20).weu_bytes);
    let mut manager = CacheManager::new(Settings { dedup: false, ..Settings::new(16 << 20) }).unwrap();
    let space = |manager: &CacheManager| {
        let mut space = Space::default();
        for weu in 0..8 {
            manager.add_space(weu..weu + 1, &mut space);
        }
        space
    };
    let key = |index| ExtentKey::new(ObjectId(0), ExtentIndex(index));
    assert_eq!(space(&manager), Space { free_bytes: 8 * weu_bytes, ..Space::default() });
    let (weu, _) = manager.open_weu().unwrap();
    for index in 0..4 {
        assert!(matches!(manager.append(weu, key(index), None, Stored::Packed(4000)), Append::At(_)));
    }
    assert_eq!(space(&manager).open_bytes, weu_bytes);
    manager.seal(weu);
    manager.stored(weu);
    assert!(manager.invalidate(key(0)).is_some());
    let (dirty, _) = manager.open_dirty_weu(512).unwrap();
    assert!(matches!(manager.append_dirty(dirty, key(9), None, Stored::Packed(4000), 1), Append::At(_)));
    manager.seal(dirty);
    manager.stored(dirty);
    let expected = Space {
        free_bytes: 6 * weu_bytes,
        pinned_bytes: weu_bytes,
        live_bytes: weu_bytes * 3 / 4,
        overwritten_bytes: weu_bytes / 4,
        ..Space::default()
    };
    assert_eq!(space(&manager), expected);
}
