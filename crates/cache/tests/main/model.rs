//! A naive cache, driven by the same random operations: every WEU a list, every index a map, every order a vector.

use nitro_cache::eviction::EvictionKind;
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, IndexKind, Location, Settings};
use nitro_units::{ExtentIndex, ExtentKey, Fingerprint, ObjectId, WeuId};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

const WEUS: u64 = 8;
const WEU_BYTES: u32 = 512 << 10;

/// An extent of a unit, how it is stored, and its content.
type Content = (ExtentKey, Stored, u16);

#[derive(Default)]
struct Model {
    /// Filling -> contents, for every filling ever made.
    fillings: HashMap<(WeuId, u32), Vec<Content>>,
    live: HashMap<WeuId, u32>,
    files: BTreeMap<ExtentKey, (WeuId, u32, u16)>,
    fingerprints: BTreeMap<u16, (WeuId, u32, u16)>,
    /// Least recently used first.
    lru: Vec<WeuId>,
}

impl Model {
    fn is_live(&self, (weu, generation, _): (WeuId, u32, u16)) -> bool {
        self.live.get(&weu) == Some(&generation)
    }

    fn touch(&mut self, weu: WeuId) {
        if let Some(at) = self.lru.iter().position(|w| *w == weu) {
            let weu = self.lru.remove(at);
            self.lru.push(weu);
        }
    }

    fn lookup(&mut self, key: ExtentKey) -> Option<(WeuId, u32, u16)> {
        let found = self.files.get(&key).copied().filter(|l| self.is_live(*l));
        if let Some((weu, ..)) = found {
            self.touch(weu);
        }
        found
    }
}

fn key(n: u16) -> ExtentKey {
    ExtentKey::new(ObjectId(n % 3), ExtentIndex(u64::from(n / 3)))
}

fn fingerprint(content: u16) -> Fingerprint {
    let mut state = u64::from(content) + 1;
    Fingerprint(std::array::from_fn(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    }))
}

/// Extents that did not shrink are stored as they are; their content stands for its checksum.
fn stored_as(payload_bytes: u32, content: u16) -> Stored {
    match payload_bytes {
        0 => Stored::Zero,
        1..=7679 => Stored::Packed(payload_bytes),
        _ => Stored::Raw { bytes: 8192, crc: u32::from(content) << 7 },
    }
}

fn plain(location: Location) -> (WeuId, u32, u16) {
    (location.weu, location.generation.0, location.entry)
}

struct Pair {
    manager: CacheManager,
    model: Model,
    open: WeuId,
}

impl Pair {
    fn new(dedup: bool, index: IndexKind) -> Self {
        let settings = Settings {
            weu_bytes: WEU_BYTES,
            dedup,
            index,
            seed: 7,
            eviction: EvictionKind::Lru,
            ..Settings::new(WEUS * u64::from(WEU_BYTES))
        };
        let mut manager = CacheManager::new(settings).unwrap();
        let (open, generation) = manager.open_weu().unwrap();
        let mut model = Model::default();
        model.live.insert(open, generation.0);
        Self { manager, model, open }
    }

    fn insert(&mut self, key: ExtentKey, content: u16, stored: u32) {
        let print = fingerprint(content);
        let dedup = self.manager.settings().dedup;
        let known = self.model.fingerprints.get(&content).copied().filter(|l| dedup && self.model.is_live(*l));
        self.learn(content);
        let found = self.manager.insert_duplicate(key, &print).map(plain);
        assert_eq!(found, known, "duplicate look-up");
        if let Some(location) = known {
            self.model.touch(location.0);
            self.model.files.insert(key, location);
            return;
        }
        let stored = stored_as(stored, content);
        loop {
            match self.manager.append(self.open, key, dedup.then_some(&print), stored) {
                Append::At(location) => {
                    let location = plain(location);
                    let filling = self.model.fillings.entry((location.0, location.1)).or_default();
                    assert_eq!(filling.len(), usize::from(location.2));
                    filling.push((key, stored, content));
                    self.model.files.insert(key, location);
                    self.model.fingerprints.insert(content, location);
                    return;
                }
                Append::Full => self.next_weu(),
            }
        }
    }

    /// Has a lean index know a content, as whoever reads the tables of units.
    fn learn(&mut self, content: u16) {
        let print = fingerprint(content);
        for candidate in self.manager.candidates(&print) {
            let (weu, generation) = (candidate.weu, candidate.generation.0);
            assert_eq!(self.model.live.get(&weu), Some(&generation), "a candidate that is gone");
            let entry = self.model.fillings[&(weu, generation)].iter().position(|(_, _, of)| *of == content);
            if let Some(entry) = entry {
                let found = self.manager.confirm(&print, candidate, entry as u16);
                assert_eq!(found.map(plain), Some((weu, generation, entry as u16)));
                return;
            }
        }
    }

    fn next_weu(&mut self) {
        self.manager.seal(self.open);
        self.manager.stored(self.open);
        self.model.lru.push(self.open);
        while self.manager.wants_eviction() {
            self.evict();
        }
        let (open, generation) = self.manager.open_weu().unwrap();
        assert_ne!(self.model.live.insert(open, generation.0), Some(generation.0));
        self.open = open;
    }

    fn evict(&mut self) {
        let victim = self.manager.evict().map(|e| e.weu);
        assert_eq!(victim, (!self.model.lru.is_empty()).then(|| self.model.lru.remove(0)));
        if let Some(weu) = victim {
            self.model.live.remove(&weu);
        }
    }

    fn check(&mut self, key: ExtentKey) {
        let expected = self.model.files.get(&key).copied().filter(|l| self.model.is_live(*l));
        let found = self.manager.peek(key);
        assert_eq!(found.map(plain), expected, "{key:?}");
        if let Some(location) = found {
            let filling = &self.model.fillings[&(location.weu, location.generation.0)];
            let crc = match filling[usize::from(location.entry)].1 {
                Stored::Raw { crc, .. } => Some(crc),
                Stored::Zero | Stored::Packed(_) => None,
            };
            assert_eq!(location.raw_crc, crc, "{key:?}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u16, u16, u32),
    Lookup(u16),
    Invalidate(u16),
    Evict,
    Clean,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        // Many contents, large ones, so that WEUs fill and are evicted; a few that come again and again.
        12 => (0u16..2000, prop_oneof![0u16..40, 0u16..3000], prop_oneof![1 => Just(0u32), 9 => 4096u32..8192])
            .prop_map(|(k, c, s)| Step::Insert(k, c, s)),
        8 => (0u16..2000).prop_map(Step::Lookup),
        2 => (0u16..2000).prop_map(Step::Invalidate),
        1 => Just(Step::Evict),
        2 => Just(Step::Clean),
    ];
    prop::collection::vec(step, 1..6000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn agrees_with_the_naive_cache(dedup in any::<bool>(), is_lean in any::<bool>(), steps in steps()) {
        let mut pair = Pair::new(dedup, if is_lean { IndexKind::Lean } else { IndexKind::Exact });
        for step in steps {
            match step {
                Step::Insert(k, content, stored) => pair.insert(key(k), content, stored),
                Step::Lookup(k) => {
                    let expected = pair.model.lookup(key(k));
                    prop_assert_eq!(pair.manager.lookup(key(k)).map(plain), expected);
                }
                Step::Invalidate(k) => {
                    pair.manager.invalidate(key(k));
                    pair.model.files.remove(&key(k));
                }
                Step::Evict => pair.evict(),
                Step::Clean => { pair.manager.clean_step(); }
            }
        }
        (0..2000).for_each(|k| pair.check(key(k)));
        while pair.manager.clean_step() {}
        (0..2000).for_each(|k| pair.check(key(k)));
        let live = pair.model.files.values().filter(|l| pair.model.is_live(**l)).count();
        prop_assert!(pair.manager.stats().cached_extents as usize >= live);
    }
}

#[test]
fn a_generation_lap_never_revives_a_stale_fingerprint() {
    let mut pair = Pair::new(true, IndexKind::Exact);
    pair.insert(key(0), 0, 8000);
    let old = pair.model.fingerprints[&0];
    // Neither the cleaner nor a look-up comes by until the slot's generation looks like the old one again.
    let lap = (old.0, old.1 + 4096);
    for round in 0..5000u32 * WEUS as u32 {
        pair.next_weu();
        pair.insert(key(1), 1 + (round % 100) as u16, 8000);
        if pair.model.live.get(&lap.0) == Some(&lap.1) {
            assert!(pair.manager.is_current(lap.0, nitro_units::Generation(lap.1)));
            assert_eq!(pair.manager.lookup_fingerprint(&fingerprint(0)), None, "another lap's entry was revived");
        }
    }
    assert!(pair.model.live.values().all(|g| *g > old.1 + 4096), "every slot went through a lap");
}
