//! A cache that copies forward as the server does, and knows what is where.

use nitro_cache::admission::{Provenance, Shelf};
use nitro_cache::forward::Survivor;
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Location, Settings};
use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, ObjectId, WeuId};
use std::collections::HashMap;

pub const WEU_BYTES: u32 = 512 << 10;
pub const WEUS: u64 = 16;
pub const STORED: Stored = Stored::Packed(7000);

pub fn key(number: u64) -> ExtentKey {
    ExtentKey::new(ObjectId(1), ExtentIndex(number))
}

pub fn fingerprint(content: u64) -> Fingerprint {
    let mut bytes = [7; 20];
    for (number, chunk) in bytes.chunks_mut(4).enumerate() {
        let part = (content + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(number as u32 * 13) as u32;
        chunk.copy_from_slice(&part.to_be_bytes());
    }
    Fingerprint(bytes)
}

/// A cache, and what its units hold by entry: as the server, it reads a unit before it is evicted.
pub struct World {
    pub manager: CacheManager,
    open: [Option<WeuId>; Shelf::COUNT],
    contents: HashMap<WeuId, Vec<u64>>,
    pub forwarded: u64,
}

impl World {
    pub fn new() -> Self {
        Self::with(Settings { weu_bytes: WEU_BYTES, ..Settings::new(WEUS * u64::from(WEU_BYTES)) })
    }

    pub fn with(settings: Settings) -> Self {
        let manager = CacheManager::new(settings).unwrap();
        Self { manager, open: [None; Shelf::COUNT], contents: HashMap::new(), forwarded: 0 }
    }

    fn content_at(&self, location: &Location) -> u64 {
        self.contents[&location.weu][usize::from(location.entry)]
    }

    fn note(&mut self, location: &Location, content: u64) {
        let unit = self.contents.entry(location.weu).or_default();
        unit.truncate(location.entry.into());
        unit.push(content);
    }

    fn seal(&mut self, shelf: Shelf) {
        if let Some(weu) = self.open[shelf.index()].take() {
            self.manager.seal(weu);
            self.manager.stored(weu);
        }
    }

    /// Evicts one unit; `meddle` is called before each extent is copied.
    pub fn evict(&mut self, meddle: &mut dyn FnMut(&mut CacheManager, &Survivor)) -> bool {
        let Some(leaving) = self.manager.begin_leaving() else { return false };
        let (mut survivors, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            next = self.manager.survivors(&leaving, from, &mut survivors);
        }
        self.manager.choose_survivors(&leaving, &mut survivors);
        'all: for survivor in &survivors {
            meddle(&mut self.manager, survivor);
            let (shelf, content) = (leaving.shelf_of(survivor), self.content_at(&survivor.location));
            loop {
                if self.open[shelf.index()].is_none() {
                    self.open[shelf.index()] = self.manager.open_weu_in(shelf).map(|(weu, _)| weu);
                }
                let Some(weu) = self.open[shelf.index()] else { break 'all };
                match self.manager.forward(&leaving, survivor, weu, Some(&fingerprint(content)), STORED) {
                    Some(Append::At(location)) => self.note(&location, content),
                    Some(Append::Full) => {
                        self.seal(shelf);
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

    pub fn insert(&mut self, key: ExtentKey, content: u64) {
        self.insert_as(Provenance::read(ClassId::UNCLASSIFIED), key, content);
    }

    pub fn insert_as(&mut self, from: Provenance, key: ExtentKey, content: u64) {
        let fingerprint = fingerprint(content);
        if self.manager.insert_duplicate(key, &fingerprint).is_some() {
            return;
        }
        let Some(admitted) = self.manager.admit(key, from) else { return };
        let shelf = admitted.shelf();
        loop {
            if self.open[shelf.index()].is_none() {
                while self.manager.wants_eviction() && self.evict(&mut |_, _| {}) {}
                while self.manager.clean_step() {}
            }
            if self.open[shelf.index()].is_none() {
                self.open[shelf.index()] = self.manager.open_weu_in(shelf).map(|(weu, _)| weu);
            }
            let Some(weu) = self.open[shelf.index()] else { return };
            match self.manager.append(weu, key, Some(&fingerprint), STORED) {
                Append::At(location) => {
                    self.manager.classify(&location, from.class);
                    self.manager.heat(&location, admitted);
                    self.note(&location, content);
                    return;
                }
                Append::Full => self.seal(shelf),
            }
        }
    }

    /// Reads an extent whose content is `content`; says whether it was cached.
    pub fn read(&mut self, key: ExtentKey, content: u64) -> bool {
        self.read_as(ClassId::UNCLASSIFIED, key, content)
    }

    pub fn read_as(&mut self, class: ClassId, key: ExtentKey, content: u64) -> bool {
        let found = self.manager.lookup(key);
        if let Some(location) = found {
            assert_eq!(self.content_at(&location), content, "{key:?} has another content");
            return true;
        }
        self.insert_as(Provenance::read(class), key, content);
        false
    }

    /// Fills the cache with content that nobody asks for again.
    pub fn churn(&mut self, from: u64, count: u64) {
        for number in from..from + count {
            self.read(key(number), number);
        }
    }
}
