//! Copying forward: what survives the eviction of its unit, with which keys, and that nothing stale does.

use nitro_cache::admission::{Lane, Provenance};
use nitro_cache::forward::Survivor;
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Location, Settings};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, ObjectId, WeuId};
use proptest::prelude::*;
use std::collections::HashMap;

const WEU_BYTES: u32 = 512 << 10;
const WEUS: u64 = 16;
const STORED: Stored = Stored::Packed(7000);

fn key(number: u64) -> ExtentKey {
    ExtentKey::new(ObjectId(1), ExtentIndex(number))
}

fn fingerprint(content: u64) -> Fingerprint {
    let mut bytes = [7; 20];
    for (number, chunk) in bytes.chunks_mut(4).enumerate() {
        let part = (content + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(number as u32 * 13) as u32;
        chunk.copy_from_slice(&part.to_be_bytes());
    }
    Fingerprint(bytes)
}

/// A cache, and what its units hold by entry: as the server, it reads a unit before it is evicted.
struct World {
    manager: CacheManager,
    open: [Option<WeuId>; 2],
    contents: HashMap<WeuId, Vec<u64>>,
    forwarded: u64,
}

impl World {
    fn new() -> Self {
        let settings = Settings { weu_bytes: WEU_BYTES, ..Settings::new(WEUS * u64::from(WEU_BYTES)) };
        let manager = CacheManager::new(settings).unwrap();
        Self { manager, open: [None; 2], contents: HashMap::new(), forwarded: 0 }
    }

    fn content_at(&self, location: &Location) -> u64 {
        self.contents[&location.weu][usize::from(location.entry)]
    }

    fn note(&mut self, location: &Location, content: u64) {
        let unit = self.contents.entry(location.weu).or_default();
        unit.truncate(location.entry.into());
        unit.push(content);
    }

    fn seal(&mut self, lane: Lane) {
        if let Some(weu) = self.open[lane.index()].take() {
            self.manager.seal(weu);
            self.manager.stored(weu);
        }
    }

    /// Evicts one unit; `meddle` is called before each extent is copied.
    fn evict(&mut self, meddle: &mut dyn FnMut(&mut CacheManager, &Survivor)) -> bool {
        let Some(leaving) = self.manager.begin_leaving() else { return false };
        let (mut survivors, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            next = self.manager.survivors(&leaving, from, &mut survivors);
        }
        self.manager.choose_survivors(&mut survivors);
        'all: for survivor in &survivors {
            meddle(&mut self.manager, survivor);
            let (lane, content) = (leaving.lane_of(survivor), self.content_at(&survivor.location));
            loop {
                if self.open[lane.index()].is_none() {
                    self.open[lane.index()] = self.manager.open_weu_in(lane).map(|(weu, _)| weu);
                }
                let Some(weu) = self.open[lane.index()] else { break 'all };
                match self.manager.forward(&leaving, survivor, weu, Some(&fingerprint(content)), STORED) {
                    Some(Append::At(location)) => self.note(&location, content),
                    Some(Append::Full) => {
                        self.seal(lane);
                        continue;
                    }
                    None => {}
                }
                break;
            }
        }
        self.forwarded = self.manager.stats().forwarded;
        assert!(self.manager.begin_eviction_of_rest(&leaving, false).is_some());
        while self.manager.evict_step(leaving.weu) {}
        true
    }

    fn insert(&mut self, key: ExtentKey, content: u64) {
        let fingerprint = fingerprint(content);
        if self.manager.insert_duplicate(key, &fingerprint).is_some() {
            return;
        }
        let Some(admitted) = self.manager.admit(key, Provenance::read(ClassId::UNCLASSIFIED)) else { return };
        let lane = admitted.lane;
        loop {
            if self.open[lane.index()].is_none() {
                while self.manager.wants_eviction() && self.evict(&mut |_, _| {}) {}
                while self.manager.clean_step() {}
            }
            if self.open[lane.index()].is_none() {
                self.open[lane.index()] = self.manager.open_weu_in(lane).map(|(weu, _)| weu);
            }
            let Some(weu) = self.open[lane.index()] else { return };
            match self.manager.append(weu, key, Some(&fingerprint), STORED) {
                Append::At(location) => {
                    self.manager.heat(&location, admitted);
                    self.note(&location, content);
                    return;
                }
                Append::Full => self.seal(lane),
            }
        }
    }

    /// Reads an extent whose content is `content`; says whether it was cached.
    fn read(&mut self, key: ExtentKey, content: u64) -> bool {
        let found = self.manager.lookup(key);
        if let Some(location) = found {
            assert_eq!(self.content_at(&location), content, "{key:?} has another content");
            return true;
        }
        self.insert(key, content);
        false
    }

    /// Fills the cache with content that nobody asks for again.
    fn churn(&mut self, from: u64, count: u64) {
        for number in from..from + count {
            self.read(key(number), number);
        }
    }
}

#[test]
fn what_was_used_again_outlives_its_unit_with_all_its_keys() {
    const HOT: u64 = 150;
    let mut world = World::new();
    let (mut hits, rounds) = (0, 60);
    for round in 0..rounds {
        // Each content is used now and then, by two keys, and by far more others come than the cache has room for.
        for n in 0..HOT {
            let first = world.read(key(n), n);
            let again = world.read(key(1000 + n), n);
            hits += u64::from(first && again);
            world.churn(10_000 + (round * HOT + n) * 4, 4);
        }
    }
    let (evicted, forwarded) = (world.manager.stats().weus_evicted, world.forwarded);
    assert!(evicted > 10 * WEUS && forwarded > HOT / 2, "{evicted} units evicted, {forwarded} extents copied forward");
    assert!(hits >= (rounds - 1) * HOT, "{hits} of {} uses found content and both keys", rounds * HOT);
    assert!(world.manager.stats().dup_entries >= HOT);
}

#[test]
fn what_is_overwritten_while_its_unit_is_read_is_not_copied() {
    let mut world = World::new();
    world.churn(0, 600);
    for _ in 0..3 {
        for number in 0..400 {
            let _ = world.manager.lookup(key(number));
        }
    }
    let mut overwritten = Vec::new();
    while overwritten.is_empty() {
        assert!(world.evict(&mut |manager, survivor| {
            if survivor.location.entry % 2 == 0 {
                assert!(manager.invalidate(survivor.key).is_some());
                overwritten.push(survivor.key);
            }
        }));
    }
    assert!(world.forwarded > 0, "others were copied");
    for key in overwritten {
        assert_eq!(world.manager.peek(key), None, "{key:?} came back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However reads, writes, duplicates and evictions interleave, an extent is found with its newest content or not at all.
    #[test]
    fn nothing_stale_is_copied_forward(
        seed in any::<u64>(),
        contents in 1u64..3000,
        write_one_in in 2u64..20,
    ) {
        let mut world = World::new();
        let mut newest: HashMap<u64, u64> = HashMap::new();
        let (mut state, mut hits) = (seed | 1, 0u64);
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..20_000 {
            // A hot tenth, and a long tail.
            let number = if random(2) == 0 { random(200) } else { random(4000) };
            if random(write_one_in) == 0 {
                let content = random(contents);
                newest.insert(number, content);
                world.manager.invalidate(key(number));
                world.insert(key(number), content);
            } else {
                let content = newest.get(&number).copied().unwrap_or(100_000 + number);
                hits += u64::from(world.read(key(number), content));
            }
        }
        prop_assert!(hits > 500 && world.manager.stats().weus_evicted > 20, "{hits}");
    }
}
