//! Remembers recently dropped extents by a tag of 24 bits each. Tags expire by their age, as in a queue: an extent in a
//! loop of requests that is longer than this age is never found, one in a shorter loop nearly always. If tags displaced
//! each other at random, some extents of both kinds of loops would be found, and the cached part of a loop would change
//! all the time.

use crate::file_index::mix;
use nitro_units::ExtentKey;

/// Number of tags in a set. An extent has two possible sets; if all tags of both are young, the oldest one is
/// displaced.
const WAYS: usize = 8;
/// Number of dropped extents that are remembered, for each 10 extents that the cache holds. There is room for all 10,
/// because overwritten ones are also remembered.
const REACH_TENTHS: u64 = 9;
/// Maximum number of steps in which a tag ages until it is forgotten.
const AGES: u64 = 16;

/// The heat that the extent gets if it is inserted again.
const HEAT_BITS: u32 = 0b11;
const MAIN_BIT: u32 = 0b100;
/// The time of its drop, in steps modulo four times [`AGES`]: a set is examined long before the time wraps around.
const TIME_SHIFT: u32 = 3;
const TIMES: u32 = 4 * AGES as u32;
/// The extent's hash, which is not 0: a tag of 0 means no tag.
const HASH_SHIFT: u32 = TIME_SHIFT + TIMES.ilog2();
const HASH_BITS: u32 = Tag::BITS - HASH_SHIFT;

/// The tag of an extent, packed into three bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Tag([u8; 3]);

impl Tag {
    const BITS: u32 = 24;

    fn new(bits: u32) -> Self {
        let [a, b, c, _] = bits.to_le_bytes();
        Self([a, b, c])
    }

    const fn bits(self) -> u32 {
        let Self([a, b, c]) = self;
        u32::from_le_bytes([a, b, c, 0])
    }

    const fn is_none(self) -> bool {
        self.bits() == 0
    }

    const fn hash(self) -> u32 {
        self.bits() >> HASH_SHIFT
    }

    /// Number of steps since it was set.
    const fn age(self, now: u32) -> u32 {
        (now + TIMES - (self.bits() >> TIME_SHIFT) % TIMES) % TIMES
    }
}

/// What an extent deserves that is inserted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deserved {
    /// A main unit.
    pub(super) is_main: bool,
    /// The heat that it had.
    pub(super) heat: u8,
}

/// The dropped extents. One of about 2000 extents that were not dropped is wrongly found.
#[derive(Debug)]
pub(super) struct Ghost {
    places: Box<[[Tag; WAYS]]>,
    seed: u64,
    /// Number of extents that are dropped in a step.
    step: u64,
    /// Number of steps after which a tag is forgotten.
    reach: u32,
    /// Number of extents dropped in this step so far.
    passed: u64,
    now: u32,
}

impl Ghost {
    /// A ghost for a cache of `extents`.
    pub(super) fn new(extents: u64, seed: u64) -> Self {
        let reach = (extents.min(1 << 32) * REACH_TENTHS / 10).max(1);
        let step = reach.div_ceil(AGES);
        let places = vec![[Tag::default(); WAYS]; Self::places(extents)].into();
        Self { places, seed, step, reach: reach.div_ceil(step) as u32, passed: 0, now: 0 }
    }

    const fn places(extents: u64) -> usize {
        let extents = if extents > 1 << 32 { 1 << 32 } else { extents };
        let places = extents.div_ceil(WAYS as u64) as usize;
        if places == 0 { 1 } else { places }
    }

    /// The maximum RAM in bytes for a cache of `extents` extents.
    pub(super) const fn ram_bytes_max(extents: u64) -> u64 {
        (Self::places(extents) * WAYS * size_of::<Tag>()) as u64
    }

    pub(super) fn ram_bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// Advances the age of all tags by one dropped extent.
    pub(super) fn pass(&mut self) {
        self.passed += 1;
        if self.passed == self.step {
            self.passed = 0;
            self.now = (self.now + 1) % TIMES;
        }
    }

    /// Remembers what an extent deserves.
    pub(super) fn put(&mut self, key: ExtentKey, Deserved { is_main, heat }: Deserved) {
        let (places, hash) = self.find(key);
        self.take_from(places, hash);
        let age = |place: usize, way: usize| {
            let tag = self.places[place][way];
            // An empty place counts as older than any tag.
            if tag.is_none() { TIMES } else { tag.age(self.now) }
        };
        let all = places.into_iter().flat_map(|place| (0..WAYS).map(move |way| (place, way)));
        let Some((place, way)) = all.max_by_key(|(place, way)| age(*place, *way)) else { return };
        let main = if is_main { MAIN_BIT } else { 0 };
        let tag = hash << HASH_SHIFT | self.now << TIME_SHIFT | main | u32::from(heat) & HEAT_BITS;
        self.places[place][way] = Tag::new(tag);
    }

    /// Removes the tag of a recently dropped extent and returns it.
    pub(super) fn take(&mut self, key: ExtentKey) -> Option<Deserved> {
        let (places, hash) = self.find(key);
        self.take_from(places, hash)
    }

    /// As [`take`](Self::take), with known sets and hash; removes expired tags there.
    fn take_from(&mut self, places: [usize; 2], hash: u32) -> Option<Deserved> {
        let (now, reach) = (self.now, self.reach);
        let mut found = None;
        for place in places {
            for tag in self.places[place].iter_mut().filter(|tag| !tag.is_none()) {
                let (is_old, is_it) = (tag.age(now) >= reach, tag.hash() == hash);
                if is_it && !is_old {
                    let (is_main, heat) = (tag.bits() & MAIN_BIT != 0, (tag.bits() & HEAT_BITS) as u8);
                    found = Some(Deserved { is_main, heat });
                }
                if is_it || is_old {
                    *tag = Tag::default();
                }
            }
        }
        found
    }

    /// The sets of an extent's tag, and its hash.
    fn find(&self, key: ExtentKey) -> ([usize; 2], u32) {
        let hash = mix(key.raw() ^ self.seed);
        let place = |hash: u64| ((u128::from(hash) * self.places.len() as u128) >> 64) as usize;
        ([place(hash), place(mix(hash))], (hash as u32 >> (u32::BITS - HASH_BITS)).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};

    fn key(number: u64) -> ExtentKey {
        ExtentKey::new(ObjectId(1), ExtentIndex(number))
    }

    fn deserved(is_main: bool, heat: u8) -> Deserved {
        Deserved { is_main, heat }
    }

    fn found_in_a_circle(ghost: &mut Ghost, len: u64) -> u64 {
        (0..10 * len).filter(|number| take_and_drop(ghost, number % len)).count() as u64
    }

    fn take_and_drop(ghost: &mut Ghost, number: u64) -> bool {
        let found = ghost.take(key(number)).is_some();
        ghost.pass();
        ghost.put(key(number), deserved(false, 0));
        found
    }

    #[test]
    fn a_short_circle_is_found_and_a_long_one_is_not() {
        for extents in [1000, 100_000] {
            let short = found_in_a_circle(&mut Ghost::new(extents, 1), extents * 8 / 10);
            assert!(short * 100 > 9 * extents * 8 / 10 * 90, "{short} of {}", 9 * extents * 8 / 10);
            let long = found_in_a_circle(&mut Ghost::new(extents, 1), extents);
            assert!(long * 100 < extents, "{long} of {}", 9 * extents);
        }
    }

    #[test]
    fn what_was_dropped_keeps_what_it_deserves_and_is_given_once() {
        let mut ghost = Ghost::new(1000, 1);
        ghost.put(key(1), deserved(true, 3));
        ghost.put(key(2), deserved(false, 1));
        ghost.put(key(2), deserved(false, 2));
        assert_eq!((ghost.take(key(1)), ghost.take(key(1))), (Some(deserved(true, 3)), None));
        assert_eq!((ghost.take(key(2)), ghost.take(key(3))), (Some(deserved(false, 2)), None));
    }

    #[test]
    fn time_goes_round_without_bringing_anything_back() {
        let mut ghost = Ghost::new(500, 1);
        let found = (0..100_000).filter(|number| take_and_drop(&mut ghost, *number)).count();
        assert!(found < 100, "{found} of extents that never came before");
        assert!(ghost.ram_bytes() as u64 <= Ghost::ram_bytes_max(500));
    }

    #[test]
    fn the_smallest_cache_has_one() {
        let mut ghost = Ghost::new(0, 1);
        ghost.put(key(1), deserved(true, 0));
        assert_eq!((ghost.take(key(1)), ghost.take(key(2))), (Some(deserved(true, 0)), None));
    }
}
