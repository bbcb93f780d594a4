//! Extents in sets of places, chosen by the extent's offset: direct-mapped and N-way caches, for any N that divides the
//! number of places. Within a set, replacement is LRU; with two-level selection, data is replaced before metadata, and
//! new data must have been accessed more often than the data that it replaces.

mod flat;
mod linked;
#[cfg(test)]
mod tests;

use super::door::{Door, Level};
use super::{Flash, Hit, Model, Totals};
use crate::Error;
use crate::settings::Settings;
use crate::workload::Piece;
use flat::Flat;
use linked::Linked;
use nitro_cache::Stats;
use nitro_model::Nanos;
use nitro_units::ExtentKey;

/// The extents of each set, and their places on the SSD.
enum Index {
    Flat(Flat),
    Linked(Linked),
}

impl Index {
    fn new(sets: u64, ways: u32, has_levels: bool) -> Self {
        match ways <= Flat::WAYS_MAX {
            true => Self::Flat(Flat::new(sets, ways, has_levels)),
            false => Self::Linked(Linked::new(sets, ways, has_levels)),
        }
    }

    /// The key that a new key of a set would replace, and its level; `None` if the set has a free place.
    fn victim(&self, set: u64) -> Option<(u64, Level)> {
        match self {
            Self::Flat(flat) => flat.victim(set),
            Self::Linked(linked) => linked.victim(set),
        }
    }

    /// The place of a key, which becomes the most recently used of its set; `None` if it is absent.
    fn refresh(&mut self, set: u64, key: u64) -> Option<u64> {
        match self {
            Self::Flat(flat) => flat.refresh(set, key),
            Self::Linked(linked) => linked.refresh(set, key),
        }
    }

    /// Inserts a key into its set; returns its place, and the key that was there before, which may be the same.
    fn insert(&mut self, set: u64, key: u64, level: Level) -> (u64, Option<u64>) {
        match self {
            Self::Flat(flat) => flat.insert(set, key, level),
            Self::Linked(linked) => linked.insert(set, key, level),
        }
    }

    /// Removes a key from its set, which then has a free place; returns whether it was present.
    fn forget(&mut self, set: u64, key: u64) -> bool {
        match self {
            Self::Flat(flat) => flat.forget(set, key),
            Self::Linked(linked) => linked.forget(set, key),
        }
    }

    fn has(&self, set: u64, key: u64) -> bool {
        match self {
            Self::Flat(flat) => flat.has(set, key),
            Self::Linked(linked) => linked.has(key),
        }
    }

    fn ram_bytes(&self) -> usize {
        match self {
            Self::Flat(flat) => flat.ram_bytes(),
            Self::Linked(linked) => linked.ram_bytes(),
        }
    }
}

/// A cache of sets. Neighbouring extents are in neighbouring sets, as in Azor.
pub(crate) struct Sets {
    index: Index,
    door: Door,
    sets: u64,
    cached: u64,
    flash: Flash,
    stats: Stats,
    extent_bytes: u32,
    usable_bytes: u64,
}

/// The nearest divisors of `all` below and above a number that is not a divisor; at most `all`.
fn nearest_divisors(all: u64, ways: u64) -> (u64, u64) {
    let pairs = (1..=all.isqrt()).filter(|n| all.is_multiple_of(*n)).flat_map(|n| [n, all / n]);
    let (below, above): (Vec<u64>, Vec<u64>) = pairs.partition(|n| *n < ways);
    (below.into_iter().max().unwrap_or(1), above.into_iter().min().unwrap_or(all))
}

/// Checks that the number of ways divides the number of places `all`.
///
/// # Errors
/// It does not.
pub(crate) fn check(all: u64, ways: u32) -> Result<(), Error> {
    if all > 0 && all.is_multiple_of(ways.into()) {
        return Ok(());
    }
    let (below, above) = nearest_divisors(all.max(1), ways.into());
    let nearest = if below == above { format!("{below}-way") } else { format!("{below}-way or {above}-way") };
    Err(Error::setting(format!(
        "{ways}-way: the cache has places for {all} extents, which {ways} does not divide; choose {nearest}, or another size"
    )))
}

impl Sets {
    pub(crate) fn new(settings: &Settings, ways: u32) -> Result<Self, Error> {
        let (flash, usable_bytes) = Flash::new(settings)?;
        let places = usable_bytes / u64::from(settings.extent_bytes);
        let (sets, door) = (places / u64::from(ways), Door::new(settings, places));
        Ok(Self {
            index: Index::new(sets, ways, door.has_levels()),
            door,
            sets,
            cached: 0,
            flash,
            stats: Stats::default(),
            extent_bytes: settings.extent_bytes,
            usable_bytes,
        })
    }

    fn set(&self, key: ExtentKey) -> u64 {
        // Objects start at sets that are far from each other.
        let number = key.index().0.wrapping_add(u64::from(key.object().0).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16);
        number % self.sets
    }

    fn at(&self, place: u64) -> u64 {
        place * u64::from(self.extent_bytes)
    }

    /// Whether an extent is admitted; one that is cached is.
    fn admits(&mut self, set: u64, piece: &Piece) -> bool {
        if !self.door.has_levels() || self.index.has(set, piece.key.raw()) {
            return true;
        }
        match self.index.victim(set) {
            None => self.door.admits(piece, None),
            Some((key, level)) => {
                self.door.admits(piece, Some((level, &mut std::iter::once(ExtentKey::from_raw(key)))))
            }
        }
    }
}

impl Model for Sets {
    fn set_now(&mut self, now: Nanos) {
        self.flash.now = now;
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        self.door.looked_up(piece);
        let Some(place) = self.index.refresh(self.set(piece.key), piece.key.raw()) else { return Ok(None) };
        let done = self.flash.read(self.at(place), self.extent_bytes.into())?;
        Ok(Some(Hit { done, compressed: false, staged: false }))
    }

    fn has(&self, key: ExtentKey) -> bool {
        self.index.has(self.set(key), key.raw())
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        let (key, set, level) = (piece.key.raw(), self.set(piece.key), self.door.level(piece));
        if !self.admits(set, piece) {
            self.stats.rejections += 1;
            return Ok(false);
        }
        let (place, old) = self.index.insert(set, key, level);
        self.stats.weus_evicted += u64::from(old.is_some_and(|old| old != key));
        self.cached += u64::from(old.is_none());
        let bytes = u64::from(self.extent_bytes);
        self.stats.insertions += 1;
        self.stats.inserted_bytes += bytes;
        self.stats.unique_bytes += bytes;
        self.stats.stored_bytes += bytes;
        self.flash.write(self.at(place), bytes).map(|_| false)
    }

    /// The freed place is the next to be used.
    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.door.looked_up(piece);
        let was_there = self.index.forget(self.set(piece.key), piece.key.raw());
        self.cached -= u64::from(was_there);
        self.stats.invalidations += u64::from(was_there);
        Ok(was_there)
    }

    fn totals(&self) -> Totals {
        Totals { cache: Stats { cached_extents: self.cached, ..self.stats }, flash: self.flash.counters() }
    }

    fn ram_bytes(&self) -> u64 {
        self.index.ram_bytes() as u64 + self.door.ram_bytes()
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
