//! Extents in places of fixed size on the SSD, replaced individually in LRU order: the caches that Nitro is compared
//! with (§6.1).

use super::{Flash, Hit, Model, Totals};
use crate::Error;
use crate::policies::nodes::{List, NONE, Nodes};
use crate::settings::{Settings, Variant};
use crate::workload::Piece;
use nitro_cache::Stats;
use nitro_model::Nanos;
use nitro_units::ExtentKey;

/// The share of places that is kept free if evictions are trimmed: 7 %, the usual reserve of SSDs.
const FREE_PERCENT: u32 = 7;

/// A key's neighbours among the keys with the same content, and their place.
#[derive(Debug, Clone, Copy)]
struct Holder {
    place: u32,
    next: u32,
    previous: u32,
}

/// The keys of each place: with deduplication, a place may have several.
struct Holders {
    keys: Nodes,
    /// By the number of the key's node.
    holders: Vec<Holder>,
    /// The first holder of each place.
    first: Vec<u32>,
    len: u64,
}

impl Holders {
    fn new(places: u32) -> Self {
        Self { keys: Nodes::new(places), holders: Vec::new(), first: vec![NONE; places as usize], len: 0 }
    }

    fn place(&self, key: u64) -> Option<u32> {
        self.keys.find(key).map(|node| self.holders[node as usize].place)
    }

    fn add(&mut self, key: u64, place: u32) {
        let node = self.keys.add(key);
        let next = std::mem::replace(&mut self.first[place as usize], node);
        if let Some(next) = self.holders.get_mut(next as usize) {
            next.previous = node;
        }
        let holder = Holder { place, next, previous: NONE };
        match self.holders.get_mut(node as usize) {
            Some(old) => *old = holder,
            None => self.holders.push(holder),
        }
        self.len += 1;
    }

    fn remove(&mut self, node: u32) {
        let Holder { place, next, previous } = self.holders[node as usize];
        match self.holders.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.first[place as usize] = next,
        }
        if let Some(next) = self.holders.get_mut(next as usize) {
            next.previous = previous;
        }
        self.keys.drop_node(node);
        self.len -= 1;
    }

    fn clear(&mut self, place: u32) {
        while self.first[place as usize] != NONE {
            self.remove(self.first[place as usize]);
        }
    }
}

/// A cache of places. A place is a node whose name is its content: a fingerprint or, without deduplication, a key.
pub(crate) struct Places {
    contents: Nodes,
    used: List,
    holders: Holders,
    flash: Flash,
    stats: Stats,
    dedup: bool,
    /// Whether the SSD is told which places are free.
    tells: bool,
    /// The number of places that may be in use.
    places: u32,
    extent_bytes: u32,
    usable_bytes: u64,
}

impl Places {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let (flash, usable_bytes) = Flash::new(settings)?;
        let tells = matches!(settings.variant, Variant::ExtentLruMod | Variant::ExtentLruTrim);
        let all = u32::try_from(usable_bytes / u64::from(settings.extent_bytes)).unwrap_or(u32::MAX - 1);
        let places = if tells { all - (u64::from(all) * u64::from(FREE_PERCENT) / 100) as u32 } else { all };
        let places = places.max(1);
        Ok(Self {
            contents: Nodes::new(places),
            used: List::default(),
            holders: Holders::new(places),
            flash,
            stats: Stats::default(),
            dedup: settings.dedup,
            tells,
            places,
            extent_bytes: settings.extent_bytes,
            usable_bytes,
        })
    }

    fn at(&self, place: u32) -> u64 {
        u64::from(place) * u64::from(self.extent_bytes)
    }

    /// The name of the place for a piece's content.
    fn content(&self, piece: &Piece) -> u64 {
        if !self.dedup {
            return piece.key.raw();
        }
        let (words, _) = piece.fingerprint.0.as_chunks::<8>();
        u64::from_le_bytes(words[0]) ^ u64::from_le_bytes(words[1]).rotate_left(32)
    }

    fn hit(&mut self, place: u32) -> Result<Option<Hit>, Error> {
        self.contents.refresh(&mut self.used, place);
        let done = self.flash.read(self.at(place), self.extent_bytes.into())?;
        Ok(Some(Hit { done, compressed: false, staged: false }))
    }

    /// Takes a place for new content.
    fn place(&mut self, content: u64) -> Result<u32, Error> {
        if self.used.len() < self.places {
            return Ok(self.contents.add(content));
        }
        let place = self.used.oldest();
        self.contents.unlink(&mut self.used, place);
        self.holders.clear(place);
        self.stats.weus_evicted += 1;
        if self.tells {
            self.flash.trim(self.at(place), self.extent_bytes.into())?;
        }
        self.contents.rename(place, content);
        Ok(place)
    }

    fn point(&mut self, key: u64, place: u32) {
        match self.holders.keys.find(key) {
            Some(node) if self.holders.holders[node as usize].place == place => {}
            Some(node) => {
                self.release(node);
                self.holders.add(key, place);
            }
            None => self.holders.add(key, place),
        }
    }

    /// Removes a key from its place. A content without keys is the next to be evicted, unless it is inserted again
    /// before.
    fn release(&mut self, node: u32) {
        let place = self.holders.holders[node as usize].place;
        self.holders.remove(node);
        if self.dedup && self.holders.first[place as usize] == NONE {
            self.contents.demote(&mut self.used, place);
        }
    }

    fn write(&mut self, place: u32) -> Result<(), Error> {
        self.stats.unique_bytes += u64::from(self.extent_bytes);
        self.stats.stored_bytes += u64::from(self.extent_bytes);
        self.flash.write(self.at(place), self.extent_bytes.into()).map(drop)
    }
}

impl Model for Places {
    fn set_now(&mut self, now: Nanos) {
        self.flash.now = now;
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        match self.holders.place(piece.key.raw()) {
            Some(place) => self.hit(place),
            None => Ok(None),
        }
    }

    fn read_by_content(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        match self.contents.find(self.content(piece)).filter(|_| self.dedup) {
            Some(place) => self.hit(place),
            None => Ok(None),
        }
    }

    fn has(&self, key: ExtentKey) -> bool {
        self.holders.place(key.raw()).is_some()
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        let content = self.content(piece);
        self.stats.insertions += 1;
        self.stats.inserted_bytes += u64::from(self.extent_bytes);
        if let Some(place) = self.contents.find(content) {
            self.contents.refresh(&mut self.used, place);
            self.point(piece.key.raw(), place);
            if self.dedup {
                self.stats.duplicates += 1;
                return Ok(true);
            }
            return self.write(place).map(|()| false);
        }
        let place = self.place(content)?;
        self.contents.push(&mut self.used, place);
        self.point(piece.key.raw(), place);
        self.write(place).map(|()| false)
    }

    /// Without deduplication, the extent keeps its place, which is overwritten.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        let found = self.holders.keys.find(piece.key.raw());
        if let Some(node) = found {
            self.release(node);
            self.stats.invalidations += 1;
        }
        Ok(found.is_some())
    }

    fn totals(&self) -> Totals {
        let cache = Stats { cached_extents: self.holders.len, ..self.stats };
        Totals { cache, flash: self.flash.counters() }
    }

    fn ram_bytes(&self) -> u64 {
        let holders = self.holders.keys.ram_bytes()
            + self.holders.holders.capacity() * size_of::<Holder>()
            + self.holders.first.capacity() * size_of::<u32>();
        (self.contents.ram_bytes() + holders) as u64
    }

    fn page_bytes(&self) -> u32 {
        self.flash.page_bytes()
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}
