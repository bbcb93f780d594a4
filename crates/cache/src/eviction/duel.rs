//! Decides which of two orders suits the requests: recency or frequency. Both are simulated on a sample of the extents,
//! at the scale of the sample (miniature simulation: Waldspurger et al., "Cache Modeling and Optimization using
//! Miniature Simulations", USENIX ATC'17), and the one with more hits is used for the cache.

use crate::file_index::mix;
use crate::lru_map::LruMap;
use nitro_units::ExtentKey;
use std::collections::{HashMap, VecDeque};

/// Maximum number of sampled extents.
const SAMPLED_MAX: u64 = 2048;
/// RAM in bytes for each sampled extent: two maps, a queue and a ghost.
const SAMPLED_BYTES: u64 = 160;
/// Percentage of the hits of frequency that the hits of recency must exceed for recency to be chosen: while frequency
/// is used, and while recency is used.
const RECENCY_PERCENT: (u64, u64) = (101, 99);
/// The fraction of the sample's extents that are new and whose uses are not counted yet: they represent extents that
/// wait in RAM, or in a unit that is being filled.
const UNRIPE_PART: u64 = 25;
/// Maximum count of uses.
const USES_MAX: u8 = 3;
/// A decision requires at least one hit for this many extents in the sample.
const COMPARED_PART: u64 = 8;
/// The factor for older hits at each decision.
const FADING: (u64, u64) = (15, 16);

/// Two simulated orders, and the one that was better recently.
#[derive(Debug)]
pub(super) struct Duel {
    /// An extent is sampled if these bits of its hash are 0.
    mask: u64,
    seed: u64,
    lru: SampledLru,
    s3: SampledS3,
    hits: (u64, u64),
    seen: u64,
    /// Number of sampled look-ups between two decisions: the number of extents in the sample.
    window: u64,
    recency: bool,
}

impl Duel {
    /// A sample for a cache of `extents` extents.
    pub(super) fn new(extents: u64, seed: u64) -> Self {
        let shift = extents.max(1).div_ceil(SAMPLED_MAX).next_power_of_two().ilog2();
        let sampled = (extents >> shift).max(16);
        Self {
            mask: (1 << shift) - 1,
            seed: mix(seed ^ 0xD0E1),
            lru: SampledLru::new(sampled),
            s3: SampledS3::new(sampled as usize),
            hits: (0, 0),
            seen: 0,
            window: sampled,
            recency: false,
        }
    }

    /// Whether recency is the better order.
    pub(super) const fn is_recency(&self) -> bool {
        self.recency
    }

    /// Notes that an extent was looked up for a read or a write.
    #[inline]
    pub(super) fn looked_up(&mut self, key: ExtentKey, read: bool) {
        let hash = mix(key.raw() ^ self.seed);
        if hash & self.mask == 0 {
            self.sampled(key, read);
        }
    }

    fn sampled(&mut self, key: ExtentKey, read: bool) {
        let hits = (self.lru.looked_up(key), self.s3.looked_up(key));
        // Hits count only once the sample is full.
        if read && self.lru.is_full() {
            self.hits = (self.hits.0 + u64::from(hits.0), self.hits.1 + u64::from(hits.1));
        }
        self.seen += 1;
        if self.seen < self.window {
            return;
        }
        self.seen = 0;
        let (recent, often) = self.hits;
        if (recent + often) * COMPARED_PART < self.window {
            return;
        }
        let percent = if self.recency { RECENCY_PERCENT.1 } else { RECENCY_PERCENT.0 };
        self.recency = recent * 100 > often * percent;
        self.hits = (recent * FADING.0 / FADING.1, often * FADING.0 / FADING.1);
    }

    pub(super) fn ram_bytes(&self) -> usize {
        (self.window * SAMPLED_BYTES) as usize
    }

    /// Upper bound of [`ram_bytes`](Self::ram_bytes).
    pub(super) const fn ram_bytes_max() -> u64 {
        2 * SAMPLED_MAX * SAMPLED_BYTES
    }
}

/// The uses of an extent since its insertion.
#[derive(Debug, Clone, Copy)]
struct Uses {
    count: u8,
    /// Number of extents inserted before it.
    came: u64,
}

impl Uses {
    const fn new(came: u64) -> Self {
        Self { count: 0, came }
    }

    /// Counts a use, unless the extent is new; `came`: the number of extents inserted so far.
    fn raise(&mut self, came: u64, unripe: u64) {
        if came - self.came >= unripe {
            self.count = (self.count + 1).min(USES_MAX);
        }
    }
}

/// LRU in which extents that were used since their insertion, or since they were kept, are kept again: it models units
/// in LRU order with copying forward.
struct SampledLru {
    known: LruMap<ExtentKey, Uses>,
    came: u64,
    unripe: u64,
}

impl std::fmt::Debug for SampledLru {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SampledLru").finish_non_exhaustive()
    }
}

impl SampledLru {
    fn new(extents: u64) -> Self {
        // One more than it holds, so that the map never evicts by itself.
        Self { known: LruMap::new(extents + 1), came: 0, unripe: extents / UNRIPE_PART }
    }

    fn capacity(&self) -> u64 {
        self.known.bytes_max() - 1
    }

    fn is_full(&self) -> bool {
        self.known.bytes() == self.capacity()
    }

    fn looked_up(&mut self, key: ExtentKey) -> bool {
        if let Some(uses) = self.known.get(&key) {
            uses.raise(self.came, self.unripe);
            return true;
        }
        while self.is_full()
            && let Some((old, uses)) = self.known.pop_oldest()
            && uses.count > 0
        {
            self.known.insert(old, Uses::new(self.came), 1);
        }
        self.came += 1;
        self.known.insert(key, Uses::new(self.came), 1);
        false
    }
}

/// The position of an extent in S3-FIFO's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Small,
    Main,
    /// Not cached any more; the number distinguishes its entry in the ghost from older ones.
    Ghost(u64),
}

/// S3-FIFO (Yang et al., SOSP'23, Algorithm 1): a tenth of the extents is on probation, and the ghost is as large as
/// the main queue. An extent is promoted after one use, because early uses of new extents are not counted.
#[derive(Debug)]
struct SampledS3 {
    known: HashMap<ExtentKey, (In, Uses)>,
    small: VecDeque<ExtentKey>,
    main: VecDeque<ExtentKey>,
    ghost: VecDeque<(ExtentKey, u64)>,
    capacity: usize,
    small_max: usize,
    ghosts: u64,
    came: u64,
    unripe: u64,
}

impl SampledS3 {
    fn new(capacity: usize) -> Self {
        Self {
            known: HashMap::new(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghost: VecDeque::new(),
            capacity,
            small_max: (capacity / 10).max(1),
            ghosts: 0,
            came: 0,
            unripe: capacity as u64 / UNRIPE_PART,
        }
    }

    fn looked_up(&mut self, key: ExtentKey) -> bool {
        let known = self.known.get_mut(&key);
        if let Some((In::Small | In::Main, uses)) = known {
            uses.raise(self.came, self.unripe);
            return true;
        }
        let was_dropped = known.is_some();
        self.known.remove(&key);
        while self.small.len() + self.main.len() >= self.capacity {
            self.evict();
        }
        let place = if was_dropped { In::Main } else { In::Small };
        self.came += 1;
        self.known.insert(key, (place, Uses::new(self.came)));
        if was_dropped {
            self.main.push_back(key)
        } else {
            self.small.push_back(key)
        }
        false
    }

    fn evict(&mut self) {
        if self.small.len() < self.small_max && !self.main.is_empty() {
            return self.evict_main();
        }
        while let Some(key) = self.small.pop_front() {
            let Some(known) = self.known.get_mut(&key) else { continue };
            if known.1.count == 0 {
                self.ghosts += 1;
                *known = (In::Ghost(self.ghosts), Uses::new(self.came));
                self.ghost.push_back((key, self.ghosts));
                return self.shrink_ghost();
            }
            *known = (In::Main, Uses::new(self.came));
            self.main.push_back(key);
            if self.main.len() > self.capacity - self.small_max {
                return self.evict_main();
            }
        }
    }

    fn evict_main(&mut self) {
        while let Some(key) = self.main.pop_front() {
            match self.known.get_mut(&key) {
                Some((_, uses)) if uses.count > 0 => {
                    uses.count -= 1;
                    self.main.push_back(key);
                }
                _ => {
                    self.known.remove(&key);
                    return;
                }
            }
        }
    }

    fn shrink_ghost(&mut self) {
        while self.ghost.len() > self.capacity - self.small_max {
            let Some((key, number)) = self.ghost.pop_front() else { return };
            if self.known.get(&key).is_some_and(|known| known.0 == In::Ghost(number)) {
                self.known.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_units::{ExtentIndex, ObjectId};

    fn key(number: u64) -> ExtentKey {
        ExtentKey::new(ObjectId(1), ExtentIndex(number))
    }

    #[test]
    fn a_hot_set_beside_a_scan_favours_frequency_and_a_moving_set_recency() {
        let mut duel = Duel::new(1000, 7);
        for n in 0..200_000u64 {
            // A set that just fits, used twice, with a scan in between.
            duel.looked_up(key(mix(n) % 700), true);
            duel.looked_up(key(1_000_000 + n), true);
        }
        assert!(!duel.is_recency());
        for n in 0..400_000u64 {
            // Each extent is used a few times within a short period, and then never again.
            duel.looked_up(key(2_000_000 + n / 4 + mix(n) % 900), true);
        }
        assert!(duel.is_recency());
    }

    #[test]
    fn the_sample_of_a_large_cache_is_small() {
        let mut duel = Duel::new(100 << 20, 7);
        for n in 0..1_000_000 {
            duel.looked_up(key(n), true);
        }
        assert!(duel.s3.known.len() < 100, "{}", duel.s3.known.len());
        assert!(duel.ram_bytes() as u64 <= Duel::ram_bytes_max());
    }
}
