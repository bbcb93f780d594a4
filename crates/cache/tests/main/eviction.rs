//! What a policy of eviction is told, and how units are emptied.

use nitro_cache::admission::{All, Lane};
use nitro_cache::eviction::{EVICT_STEP_ENTRIES, Eviction, Fifo, Units, Victim};
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Settings};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const KEYS: u64 = 600;

/// Notes what it is told, and evicts the oldest unit.
#[derive(Debug)]
struct Spy {
    order: Fifo,
    /// Extents that refer to each unit, as last told.
    live: Arc<Mutex<Vec<u32>>>,
}

impl Eviction for Spy {
    fn opened(&mut self, weu: WeuId, lane: Lane) {
        self.order.opened(weu, lane);
        self.live.lock().unwrap()[weu.0 as usize] = 0;
    }
    fn sealed(&mut self, weu: WeuId) {
        self.order.sealed(weu);
    }
    fn touched(&mut self, weu: WeuId) {
        self.order.touched(weu);
    }
    fn live_changed(&mut self, weu: WeuId, extents: u32, _entries: u32) {
        self.live.lock().unwrap()[weu.0 as usize] = extents;
    }
    fn enter(&mut self, weu: WeuId) {
        self.order.enter(weu);
    }
    fn restored(&mut self, weu: WeuId) {
        self.order.restored(weu);
    }
    fn leave(&mut self, weu: WeuId) {
        self.order.leave(weu);
    }
    fn emptied(&mut self, weu: WeuId) {
        self.order.emptied(weu);
        self.live.lock().unwrap()[weu.0 as usize] = 0;
    }
    fn victim(&mut self, units: &dyn Units) -> Option<Victim> {
        self.order.victim(units)
    }
    fn grow(&mut self, count: u32) {
        self.order.grow(count);
    }
    fn ram_bytes(&self) -> usize {
        self.order.ram_bytes()
    }
}

struct World {
    manager: CacheManager,
    live: Arc<Mutex<Vec<u32>>>,
    open: Option<WeuId>,
    /// Being emptied.
    going: Option<WeuId>,
    /// Of everything that was ever stored.
    classes: HashMap<(WeuId, Generation, u16), ClassId>,
}

/// A third of all contents are not classified.
fn class(content: u32) -> ClassId {
    ClassId::new((content % 3 * 15) as u8).unwrap()
}

fn fingerprint(content: u32) -> Fingerprint {
    let mut fingerprint = [7; 20];
    fingerprint[..4].copy_from_slice(&content.to_le_bytes());
    Fingerprint(fingerprint)
}

fn key(number: u64) -> ExtentKey {
    ExtentKey::new(ObjectId(1), ExtentIndex(number))
}

impl World {
    fn new() -> Self {
        let weus = 12;
        let settings = Settings { weu_bytes: 512 << 10, ..Settings::new(weus * (512 << 10)) };
        let live = Arc::new(Mutex::new(vec![0; weus as usize]));
        let order = Spy { order: Fifo::new(weus as u32), live: Arc::clone(&live) };
        Self {
            manager: CacheManager::with_policies(settings, Box::new(All), Box::new(order)).unwrap(),
            live,
            open: None,
            going: None,
            classes: HashMap::new(),
        }
    }

    fn insert(&mut self, number: u64, content: u32) {
        let fingerprint = fingerprint(content);
        if self.manager.insert_duplicate(key(number), &fingerprint).is_some() {
            return;
        }
        loop {
            if self.open.is_none() {
                self.finish();
                while self.manager.wants_eviction() && self.manager.evict().is_some() {}
                self.open = self.manager.open_weu().map(|(weu, _)| weu);
            }
            let weu = self.open.unwrap();
            match self.manager.append(weu, key(number), Some(&fingerprint), Stored::Packed(2000)) {
                Append::At(location) => {
                    self.classes.insert((location.weu, location.generation, location.entry), class(content));
                    return self.manager.classify(&location, class(content));
                }
                Append::Full => {
                    self.manager.seal(weu);
                    self.manager.stored(weu);
                    self.open = None;
                }
            }
        }
    }

    fn finish(&mut self) {
        if let Some(weu) = self.going.take() {
            while self.manager.evict_step(weu) {}
        }
    }

    fn step(&mut self) {
        match self.going {
            None => self.going = self.manager.begin_eviction(false).map(|evicted| evicted.weu),
            Some(weu) if !self.manager.evict_step(weu) => self.going = None,
            Some(_) => {}
        }
    }

    fn check(&self) {
        let mut referring = vec![0; self.live.lock().unwrap().len()];
        let mut by_class = [0; ClassId::COUNT];
        for location in (0..KEYS).filter_map(|number| self.manager.peek(key(number))) {
            assert_ne!(Some(location.weu), self.going);
            referring[location.weu.0 as usize] += 1;
            by_class[self.classes[&(location.weu, location.generation, location.entry)].index()] += 1;
        }
        let mut told = self.live.lock().unwrap().clone();
        if let Some(going) = self.going {
            told[going.0 as usize] = 0;
        }
        assert_eq!(told, referring);
        assert_eq!(self.manager.cached_by_class(), by_class);
    }
}

proptest! {
    #[test]
    fn a_policy_is_told_how_many_extents_refer_to_each_unit(
        operations in prop::collection::vec((0u8..10, 0..KEYS, any::<u8>()), 1..2500),
    ) {
        let mut world = World::new();
        for (number, (operation, at, content)) in operations.into_iter().enumerate() {
            match operation {
                0 => drop(world.manager.invalidate(key(at))),
                1 => drop(world.manager.lookup(key(at))),
                2 => world.step(),
                3 => drop(world.manager.clean_step()),
                // Few contents: many duplicates, of units that go before what refers to them.
                4 => world.insert(at, u32::from(content % 40)),
                _ => world.insert(at, content.into()),
            }
            if number % 50 == 0 {
                world.check();
            }
        }
        world.check();
    }
}

#[test]
fn a_stale_duplicate_that_goes_is_not_counted_off_the_unit_that_was_refilled() {
    let mut world = World::new();
    for number in 0..3 {
        world.insert(number, number as u32);
        world.insert(10 + number, number as u32);
    }
    // Until the first slot has its second filling.
    for content in 0..4000 {
        world.insert(100 + u64::from(content) % 500, 1000 + content);
    }
    assert_eq!(world.manager.stats().dup_entries, 3, "what refers to the first filling is still there");
    world.check();
    assert_eq!((world.manager.lookup(key(10)), world.manager.invalidate(key(11))), (None, None));
    world.check();
    while world.manager.clean_step() {}
    assert_eq!(world.manager.stats().dup_entries, 0);
    world.check();
}

#[test]
fn a_unit_is_emptied_in_bounded_steps_while_extents_are_looked_up() {
    let mut world = World::new();
    for number in 0..KEYS {
        // All differ, so that each has an entry.
        let fingerprint = fingerprint(number as u32);
        let weu = *world.open.get_or_insert_with(|| world.manager.open_weu().unwrap().0);
        if world.manager.append(weu, key(number), Some(&fingerprint), Stored::Packed(2000)) == Append::Full {
            world.manager.seal(weu);
            world.manager.stored(weu);
            world.open = None;
        }
    }
    let before = world.manager.stats();
    let evicted = world.manager.begin_eviction(false).unwrap();
    assert!(world.manager.peek(key(0)).is_none(), "nothing of it is found from the beginning");
    let mut steps = 0;
    loop {
        let cached = world.manager.stats().cached_extents;
        let is_more = world.manager.evict_step(evicted.weu);
        assert!(cached - world.manager.stats().cached_extents <= EVICT_STEP_ENTRIES as u64);
        assert!(world.manager.lookup(key(0)).is_none() && world.manager.lookup(key(KEYS - 1)).is_some());
        if !is_more {
            break;
        }
        steps += 1;
    }
    let after = world.manager.stats();
    let gone = before.cached_extents - after.cached_extents;
    assert_eq!((steps, after.weus_free), (gone.div_ceil(EVICT_STEP_ENTRIES as u64), before.weus_free + 1));
    assert_eq!(after.extents_evicted - before.extents_evicted, gone);
}
