//! Sets with few ways: the keys of a set are adjacent, most recently used first, and are searched linearly.

use crate::model::door::Level;

/// The value of an empty way. No key has all bits set, because objects are numbered from 0.
const NOTHING: u64 = u64::MAX;

/// Sets of at most [`WAYS_MAX`](Self::WAYS_MAX) ways: 8 bytes for each way, and 1 byte for its place if there are
/// several; with levels, 1 more for each way.
pub(super) struct Flat {
    /// The key in each way, set by set.
    keys: Vec<u64>,
    /// The place of each way in its set on the SSD; empty for direct-mapped caches, whose sets have one place.
    places: Vec<u8>,
    /// Whether the key in each way is of the first level; empty without levels.
    first: Vec<bool>,
    ways: usize,
}

impl Flat {
    /// The maximum number of ways: places are numbered with 8 bits.
    pub(super) const WAYS_MAX: u32 = 1 << 8;

    pub(super) fn new(sets: u64, ways: u32, has_levels: bool) -> Self {
        let (count, ways) = (sets as usize * ways as usize, ways as usize);
        let places = if ways == 1 { Vec::new() } else { (0..count).map(|at| (at % ways) as u8).collect() };
        Self { keys: vec![NOTHING; count], places, first: vec![false; if has_levels { count } else { 0 }], ways }
    }

    fn rank(&self, set: u64, key: u64) -> Option<usize> {
        let first = set as usize * self.ways;
        self.keys[first..first + self.ways].iter().position(|held| *held == key)
    }

    /// Moves the key at position `rank` of a set to the front; returns its place.
    fn lift(&mut self, set: u64, rank: usize) -> u64 {
        let first = set as usize * self.ways;
        self.keys[first..=first + rank].rotate_right(1);
        if !self.first.is_empty() {
            self.first[first..=first + rank].rotate_right(1);
        }
        if self.ways == 1 {
            return first as u64;
        }
        self.places[first..=first + rank].rotate_right(1);
        first as u64 + u64::from(self.places[first])
    }

    pub(super) fn refresh(&mut self, set: u64, key: u64) -> Option<u64> {
        self.rank(set, key).map(|rank| self.lift(set, rank))
    }

    /// The position of the way that the next new key takes: the oldest of the second level, or else of the first.
    fn next(&self, set: u64) -> usize {
        if self.first.is_empty() {
            return self.ways - 1;
        }
        let first = set as usize * self.ways;
        let levels = &self.first[first..first + self.ways];
        levels.iter().rposition(|is_first| !is_first).unwrap_or(self.ways - 1)
    }

    pub(super) fn victim(&self, set: u64) -> Option<(u64, Level)> {
        let way = set as usize * self.ways + self.next(set);
        let is_first = self.first.get(way).is_some_and(|is_first| *is_first);
        let level = if is_first { Level::First } else { Level::Second };
        Some((self.keys[way], level)).filter(|(key, _)| *key != NOTHING)
    }

    pub(super) fn insert(&mut self, set: u64, key: u64, level: Level) -> (u64, Option<u64>) {
        let rank = self.rank(set, key).unwrap_or_else(|| self.next(set));
        let place = self.lift(set, rank);
        if let Some(is_first) = self.first.get_mut(set as usize * self.ways) {
            *is_first = level == Level::First;
        }
        let old = std::mem::replace(&mut self.keys[set as usize * self.ways], key);
        (place, Some(old).filter(|old| *old != NOTHING))
    }

    pub(super) fn forget(&mut self, set: u64, key: u64) -> bool {
        let Some(rank) = self.rank(set, key) else { return false };
        let (first, end) = (set as usize * self.ways + rank, (set as usize + 1) * self.ways);
        self.keys[first..end].rotate_left(1);
        if self.ways > 1 {
            self.places[first..end].rotate_left(1);
        }
        if !self.first.is_empty() {
            self.first[first..end].rotate_left(1);
            self.first[end - 1] = false;
        }
        self.keys[end - 1] = NOTHING;
        true
    }

    pub(super) fn has(&self, set: u64, key: u64) -> bool {
        self.rank(set, key).is_some()
    }

    pub(super) const fn ram_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<u64>() + self.places.capacity() + self.first.capacity()
    }
}
