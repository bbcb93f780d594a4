//! Extents in places of fixed size on the SSD, replaced individually in LRU order: the caches that Nitro is compared
//! with (§6.1). With two-level selection (Azor), data is replaced before metadata, and new data must have been accessed
//! more often than the data that it replaces.

use super::door::{Door, Level};
use super::{Flash, Hit, Model, Totals};
use crate::Error;
use crate::policies::nodes::{List, NONE, Nodes};
use crate::settings::{Settings, Variant};
use crate::workload::Piece;
use nitro_cache::Stats;
use nitro_cache::admission::WritePolicy;
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

    /// The keys of a place.
    fn keys(&self, place: u32) -> impl Iterator<Item = ExtentKey> {
        let mut node = self.first[place as usize];
        std::iter::from_fn(move || {
            let holder = self.holders.get(node as usize)?;
            let key = self.keys.name(node);
            node = holder.next;
            Some(ExtentKey::from_raw(key))
        })
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
    /// The places of the second level, which has all of them without two-level selection.
    used: List,
    /// The places of the first level.
    first: List,
    /// Whether each place is of the first level; empty without levels.
    is_first: Vec<bool>,
    door: Door,
    holders: Holders,
    flash: Flash,
    stats: Stats,
    dedup: bool,
    /// Whether places without keys are the next to be evicted; otherwise they keep their content for its next version.
    frees: bool,
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
        let door = Door::new(settings, places.into());
        Ok(Self {
            contents: Nodes::new(places),
            used: List::default(),
            first: List::default(),
            is_first: vec![false; if door.has_levels() { places as usize } else { 0 }],
            door,
            holders: Holders::new(places),
            flash,
            stats: Stats::default(),
            dedup: settings.dedup,
            frees: settings.dedup || settings.write_policy == WritePolicy::Invalidate,
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

    /// The level of a place.
    fn level(&self, place: u32) -> Level {
        let is_first = self.is_first.get(place as usize).is_some_and(|is_first| *is_first);
        if is_first { Level::First } else { Level::Second }
    }

    /// The list of a level.
    fn list(&mut self, level: Level) -> (&mut Nodes, &mut List) {
        (&mut self.contents, if level == Level::First { &mut self.first } else { &mut self.used })
    }

    fn unlink(&mut self, place: u32) {
        let (contents, list) = self.list(self.level(place));
        contents.unlink(list, place);
    }

    fn push(&mut self, place: u32, level: Level) {
        if let Some(is_first) = self.is_first.get_mut(place as usize) {
            *is_first = level == Level::First;
        }
        let (contents, list) = self.list(level);
        contents.push(list, place);
    }

    /// The place that the next new content takes: the oldest of the second level, or else of the first. `None`: there is
    /// a free one.
    fn victim(&self) -> Option<u32> {
        let is_full = self.used.len() + self.first.len() >= self.places;
        let oldest = if self.used.len() > 0 { self.used.oldest() } else { self.first.oldest() };
        is_full.then_some(oldest)
    }

    /// Whether new content is admitted.
    fn admits(&mut self, piece: &Piece) -> bool {
        if !self.door.has_levels() {
            return true;
        }
        match self.victim() {
            None => self.door.admits(piece, None),
            Some(place) => {
                let level = self.level(place);
                self.door.admits(piece, Some((level, &mut self.holders.keys(place))))
            }
        }
    }

    fn hit(&mut self, place: u32) -> Result<Option<Hit>, Error> {
        let (contents, list) = self.list(self.level(place));
        contents.refresh(list, place);
        let done = self.flash.read(self.at(place), self.extent_bytes.into())?;
        Ok(Some(Hit { done, compressed: false, staged: false }))
    }

    /// Takes a place for new content.
    fn place(&mut self, content: u64) -> Result<u32, Error> {
        let Some(place) = self.victim() else { return Ok(self.contents.add(content)) };
        self.unlink(place);
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
        if self.frees && self.holders.first[place as usize] == NONE {
            let (contents, list) = self.list(self.level(place));
            contents.demote(list, place);
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
        self.door.looked_up(piece);
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
        let (content, level) = (self.content(piece), self.door.level(piece));
        let known = self.contents.find(content);
        if known.is_none() && !self.admits(piece) {
            self.stats.rejections += 1;
            return Ok(false);
        }
        self.stats.insertions += 1;
        self.stats.inserted_bytes += u64::from(self.extent_bytes);
        if let Some(place) = known {
            self.unlink(place);
            self.push(place, level);
            self.point(piece.key.raw(), place);
            if self.dedup {
                self.stats.duplicates += 1;
                return Ok(true);
            }
            return self.write(place).map(|()| false);
        }
        let place = self.place(content)?;
        self.push(place, level);
        self.point(piece.key.raw(), place);
        self.write(place).map(|()| false)
    }

    /// Without deduplication, the extent keeps its place, which is overwritten.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.door.looked_up(piece);
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
        (self.contents.ram_bytes() + holders + self.is_first.capacity()) as u64 + self.door.ram_bytes()
    }

    fn ssd_busy(&self) -> Nanos {
        self.flash.busy()
    }

    fn page_bytes(&self) -> u32 {
        self.flash.page_bytes()
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}
