//! Both kinds of sets, compared with a naive one: a list for each set, most recently used first.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

struct Naive {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Naive {
    fn refresh(&mut self, set: u64, key: u64) -> bool {
        let keys = &mut self.sets[set as usize];
        let found = keys.iter().position(|held| *held == key);
        if let Some(at) = found {
            keys.remove(at);
            keys.insert(0, key);
        }
        found.is_some()
    }

    fn insert(&mut self, set: u64, key: u64) -> Option<u64> {
        if self.refresh(set, key) {
            return Some(key);
        }
        let keys = &mut self.sets[set as usize];
        let old = if keys.len() == self.ways { keys.pop() } else { None };
        keys.insert(0, key);
        old
    }

    fn forget(&mut self, set: u64, key: u64) -> bool {
        let keys = &mut self.sets[set as usize];
        let before = keys.len();
        keys.retain(|held| *held != key);
        keys.len() < before
    }
}

proptest! {
    #[test]
    fn sets_hold_what_naive_ones_hold(
        (sets, ways) in (1u64..6, 1u32..12),
        operations in prop::collection::vec((0u8..8, 0u64..60), 0..500),
    ) {
        for mut index in [Index::Flat(Flat::new(sets, ways, false)), Index::Linked(Linked::new(sets, ways, false))] {
            let mut naive = Naive { sets: vec![Vec::new(); sets as usize], ways: ways as usize };
            let mut places: HashMap<u64, u64> = HashMap::new();
            for (operation, key) in &operations {
                let (set, key) = (key % sets, *key);
                match operation {
                    0..4 => {
                        let place = index.refresh(set, key);
                        prop_assert_eq!(place.is_some(), naive.refresh(set, key));
                        prop_assert_eq!(place, places.get(&key).copied());
                    }
                    4..7 => {
                        let (place, old) = index.insert(set, key, Level::Second);
                        prop_assert_eq!(old, naive.insert(set, key));
                        if let Some(old) = old {
                            prop_assert_eq!(places.remove(&old), Some(place));
                        }
                        prop_assert!(place < sets * u64::from(ways) && places.values().all(|other| *other != place));
                        places.insert(key, place);
                    }
                    _ => {
                        prop_assert_eq!(index.forget(set, key), naive.forget(set, key));
                        places.remove(&key);
                    }
                }
            }
        }
    }
}

#[test]
fn ways_divide_the_places_of_a_cache() {
    for ways in [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60] {
        assert!(check(60, ways).is_ok(), "{ways}");
    }
    for (all, ways, told) in [
        (60, 7, "7-way: the cache has places for 60 extents, which 7 does not divide; choose 6-way or 10-way"),
        (60, 61, "choose 60-way, or another size"),
        (4096, 3, "choose 2-way or 4-way"),
    ] {
        let error = check(all, ways).map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains(told)), "{error:?}");
    }
}

#[test]
fn data_is_replaced_before_metadata_and_metadata_by_metadata_only_if_a_set_has_nothing_else() {
    for mut index in [Index::Flat(Flat::new(2, 3, true)), Index::Linked(Linked::new(2, 3, true))] {
        for (key, level) in [(0, Level::First), (2, Level::Second), (4, Level::Second)] {
            assert_eq!(index.victim(0), None, "there is a free place");
            assert_eq!(index.insert(0, key, level).1, None);
        }
        assert!(index.refresh(0, 2).is_some());
        assert_eq!(index.victim(0), Some((4, Level::Second)), "the oldest data, though metadata is older");
        assert_eq!(index.insert(0, 6, Level::First).1, Some(4));
        assert_eq!(index.insert(0, 8, Level::First).1, Some(2));
        assert_eq!(index.victim(0), Some((0, Level::First)), "there is no data left");
        assert!(index.forget(0, 6));
        assert_eq!((index.victim(0), index.victim(1)), (None, None));
    }
}
