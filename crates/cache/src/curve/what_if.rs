//! Estimates the hits of a cache of another size at run time.

use super::{Sampling, Shards};
use nitro_units::ExtentKey;

/// Maximum number of sampled extents.
const FOLLOWED: usize = 4096;
/// The weight of observations is halved after this number of reads for each extent in the cache.
const FADE_EXTENTS: u64 = 16;
const FADE_MIN: u64 = 1 << 20;
/// Sizes, in halves of the cache's size.
const HALVES: [u64; 4] = [1, 2, 4, 8];

/// The points of the whole curve, in quarters of a doubling of the cache's size: from a quarter of it to eight times as much.
const QUARTERS: std::ops::RangeInclusive<i32> = -8..=12;

/// The estimated hits of an LRU cache with a multiple of this cache's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WhatIf {
    /// Its size as a multiple of this cache's size.
    pub size: f64,
    /// The share of extents read that it would have hit, from 0 to 1.
    pub hit_ratio: f64,
}

/// The sampled extents of a cache.
#[derive(Debug)]
pub(crate) struct Followed {
    shards: Shards,
    until_fading: u64,
    fade_every: u64,
}

impl Followed {
    /// A sample for a cache of `extents` extents: as many as are followed if half of its size is used. With a higher
    /// rate, reads of a small part of it would be followed at each hit.
    pub(crate) fn new(extents: u64) -> Option<Self> {
        let fade_every = (extents * FADE_EXTENTS).max(FADE_MIN);
        let smallest = (extents * HALVES[0] / 2).max(1);
        let shards = Shards::new(Sampling::Objects(FOLLOWED)).ok()?.at_most(FOLLOWED as f64 / smallest as f64);
        Some(Self { shards, until_fading: fade_every, fade_every })
    }

    /// Notes that an extent is read, or its new content is inserted.
    #[inline]
    pub(crate) fn looked_up(&mut self, key: ExtentKey, read: bool) {
        if !read {
            return self.shards.put(key.raw());
        }
        self.shards.access(key.raw());
        self.until_fading -= 1;
        if self.until_fading == 0 {
            self.until_fading = self.fade_every;
            self.shards.fade();
        }
    }

    /// The estimates, if this cache has room for `extents`; empty before the first read.
    pub(crate) fn what_if(&self, extents: u64) -> Vec<WhatIf> {
        let curve = self.shards.curve();
        let at = |halves| WhatIf { size: halves as f64 / 2.0, hit_ratio: 1.0 - curve.miss_ratio(extents * halves / 2) };
        if curve.requests == 0 { Vec::new() } else { HALVES.map(at).to_vec() }
    }

    /// The estimates for more sizes, in ascending order; empty before the first read.
    pub(crate) fn hit_curve(&self, extents: u64) -> Vec<WhatIf> {
        let curve = self.shards.curve();
        let at = |quarter: i32| {
            let size = (f64::from(quarter) / 4.0).exp2();
            WhatIf { size, hit_ratio: 1.0 - curve.miss_ratio((extents as f64 * size).round() as u64) }
        };
        if curve.requests == 0 { Vec::new() } else { QUARTERS.map(at).collect() }
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.shards.ram_bytes()
    }

    pub(crate) const fn ram_bytes_max() -> u64 {
        Shards::ram_bytes_max(FOLLOWED)
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
    fn a_circle_is_hit_from_the_size_on_that_holds_it_and_what_was_long_ago_is_forgotten() {
        let mut followed = Followed::new(1000).unwrap();
        for number in 0..200_000 {
            followed.looked_up(key(number % 1500), true);
        }
        let hits: Vec<_> = followed.what_if(1000).iter().map(|point| (point.size, point.hit_ratio > 0.98)).collect();
        assert_eq!(hits, [(0.5, false), (1.0, false), (2.0, true), (4.0, true)], "{:?}", followed.what_if(1000));
        // 1500 extents: more than 1.41 times as many as 1000, and less than 1.68 times.
        let enough = followed.hit_curve(1000).into_iter().find(|point| point.hit_ratio > 0.98).map(|point| point.size);
        assert!(enough.is_some_and(|size| (1.6..1.7).contains(&size)), "{enough:?}");
        for number in 0..20 * FADE_MIN {
            followed.looked_up(key(2000 + number % 400), true);
        }
        assert!(followed.what_if(1000)[0].hit_ratio > 0.98);
        (0..1_000_000).for_each(|number| followed.looked_up(key(number), true));
        assert!(followed.ram_bytes() as u64 <= Followed::ram_bytes_max(), "{}", followed.ram_bytes());
    }

    #[test]
    fn a_large_cache_follows_few_reads_of_a_small_part_of_it() {
        let extents = 1 << 17;
        let mut followed = Followed::new(extents).unwrap();
        (0..200_000).for_each(|number| followed.looked_up(key(number % 4096), true));
        let curve = followed.shards.curve();
        assert!(curve.sampled_requests < curve.requests / 8, "{} of {}", curve.sampled_requests, curve.requests);
        assert!(
            followed.what_if(extents).iter().all(|point| point.hit_ratio > 0.95),
            "{:?}",
            followed.what_if(extents)
        );
        // Twice as many as it has room for, in a circle.
        (0..4 << 20).for_each(|number| followed.looked_up(key((1 << 30) | (number % (2 << 17))), true));
        let [half, whole, .., four] = followed.what_if(extents)[..] else { panic!("four sizes") };
        assert!(half.hit_ratio < 0.2 && whole.hit_ratio < 0.2 && four.hit_ratio > 0.8, "{half:?} {whole:?} {four:?}");
    }

    #[test]
    fn what_is_written_is_there_to_be_read_but_is_no_request() {
        let mut followed = Followed::new(1000).unwrap();
        assert_eq!((followed.what_if(1000), followed.hit_curve(1000)), (vec![], vec![]), "nothing was read");
        for number in 0..500 {
            followed.looked_up(key(number), false);
        }
        (0..500).for_each(|number| followed.looked_up(key(number), true));
        assert!(followed.what_if(1000)[1].hit_ratio > 0.99);
    }
}
