//! The judges of F1 to F5, written from the claims' sentences.

use crate::report::{Band, Holds};

/// The paper's figures for disks of one speed (Tables 3 and 4): without a cache, with LRU, with DSS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Published {
    pub(super) rpm: u32,
    pub(super) iops: [f64; 3],
    /// The speed of the application with DSS, in percent of that without a cache.
    pub(super) speed: f64,
    /// Millionths of a dollar for each MB and I/O per second.
    pub(super) dollars: [f64; 3],
}

pub(super) const PUBLISHED: [Published; 2] = [
    Published { rpm: 7200, iops: [162.0, 161.0, 468.0], speed: 217.0, dollars: [0.88, 1.43, 0.49] },
    Published { rpm: 15000, iops: [231.0, 228.0, 556.0], speed: 176.0, dollars: [5.47, 6.81, 2.80] },
];

/// The range of DSS over LRU in the workloads on both kinds of disks.
pub(super) const OVER_LRU: Band = Band::new(1.5, 6.8);

/// The figures of one kind of disks: without a cache, with LRU, with classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    pub(super) iops: [f64; 3],
    pub(super) speed: f64,
    pub(super) dollars: [f64; 3],
}

/// F1, F2: all IOPS, the ratio to LRU and the speed are the paper's; in direction: LRU is about as fast as no cache, classes
/// have more IOPS than both, and the application is faster.
pub(super) fn table3(paper: &Published, found: &Found) -> Holds {
    let near = |a: [f64; 3], b: [f64; 3]| a.into_iter().zip(b).all(|(paper, here)| Band::at(paper).has(here));
    let [none, lru, dss] = found.iops;
    let ratio = Band::at(paper.iops[2] / paper.iops[1]).has(dss / lru);
    let is_so = near(paper.iops, found.iops) && ratio && Band::at(paper.speed).has(found.speed);
    let lru_is_useless = Band::at(paper.iops[1] / paper.iops[0]).has(lru / none);
    Holds::of(is_so, lru_is_useless && dss > none && dss > lru && found.speed > 100.0)
}

/// F3: the lowest and the highest ratio of IOPS to LRU over all workloads and disks are the paper's, and the slow disks with
/// classes beat the fast ones without a cache and with LRU, in IOPS and in time. In direction: classes beat LRU in each
/// workload, and so do the slow disks the fast ones.
pub(super) fn by_workload(over_lru: &[f64], slow_beats_fast: bool) -> Holds {
    if over_lru.is_empty() {
        return Holds::NotJudged;
    }
    let low = over_lru.iter().copied().fold(f64::INFINITY, f64::min);
    let high = over_lru.iter().copied().fold(0.0, f64::max);
    let is_range = Band::at(OVER_LRU.low).has(low) && Band::at(OVER_LRU.high).has(high);
    Holds::of(slow_beats_fast && is_range, slow_beats_fast && low > 1.0)
}

/// F4: all costs are the paper's, and so are the savings over LRU; in direction: on both kinds of disks, classes cost less
/// than no cache, and LRU costs more.
pub(super) fn table4(pairs: &[(Published, Found)]) -> Holds {
    if pairs.len() < PUBLISHED.len() {
        return Holds::NotJudged;
    }
    let near = |(paper, found): &(Published, Found)| {
        let costs = paper.dollars.iter().zip(found.dollars).all(|(paper, here)| Band::at(*paper).has(here));
        let saving = |of: &[f64; 3]| of[2] / of[1] - 1.0;
        costs && Band::at(saving(&paper.dollars)).has(saving(&found.dollars))
    };
    let direction = |(_, found): &(Published, Found)| {
        let [none, lru, dss] = found.dollars;
        dss < none && none < lru
    };
    Holds::of(pairs.iter().all(near), pairs.iter().all(direction))
}

/// What the cache did, in extents, over all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Policy {
    /// Written extents of metadata and of files up to 1 MiB that went around the cache.
    pub(super) small_around: u64,
    /// Those of other classes while more than 15 % of the cache was clean.
    pub(super) large_around_while_clean: u64,
    /// Those of other classes while at most 15 % was.
    pub(super) large_around: u64,
    /// Those of other classes that entered then.
    pub(super) large_taken_while_dirty: u64,
    /// Written extents that entered while more than 15 % was clean.
    pub(super) taken_while_clean: u64,
    /// Extents that entered while only reads were made, and misses of these reads.
    pub(super) entered_by_reads: u64,
    pub(super) read_misses: u64,
    /// Dirty extents that were written back.
    pub(super) destaged: u64,
    /// Extents that evictions dropped.
    pub(super) evicted: u64,
    /// Those that were dropped although extents of a larger class could have been.
    pub(super) evicted_early: u64,
}

impl Policy {
    /// The share of evictions that were not of the largest class.
    pub(super) fn early(&self) -> f64 {
        if self.evicted == 0 { 0.0 } else { self.evicted_early as f64 / self.evicted as f64 }
    }
}

/// The share of evictions out of order up to which the largest classes are evicted first, and up to which they are evicted
/// first in direction.
pub(super) const EARLY_MAX: f64 = 0.01;
const EARLY_MAX_IN_DIRECTION: f64 = 0.25;

/// F5: what enters, what is evicted first, and when data are written. The order of eviction may hold in direction; the
/// rules of allocation have no degrees. Not judged if one of the branches was never taken.
pub(super) fn policy(found: &Policy) -> Holds {
    let Policy { taken_while_clean, large_around, read_misses, evicted, destaged, .. } = *found;
    let breaks_rules = found.small_around + found.large_around_while_clean + found.large_taken_while_dirty > 0;
    if breaks_rules || found.entered_by_reads > 0 || found.early() > EARLY_MAX_IN_DIRECTION {
        return Holds::DoesNot;
    }
    if [taken_while_clean, large_around, read_misses, evicted, destaged].contains(&0) {
        return Holds::NotJudged;
    }
    Holds::of(found.early() <= EARLY_MAX, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn papers(of: usize) -> Found {
        let Published { iops, speed, dollars, .. } = PUBLISHED[of];
        Found { iops, speed, dollars }
    }

    #[test]
    fn table_3_is_judged_by_every_figure_and_by_its_order() {
        for (of, paper) in PUBLISHED.iter().enumerate() {
            let found = papers(of);
            let with = |iops, speed| table3(paper, &Found { iops, speed, ..found });
            assert_eq!(table3(paper, &found), Holds::Holds);
            assert_eq!(with(found.iops.map(|iops| iops * 3.0), found.speed), Holds::InDirection);
            assert_eq!(with(found.iops, 101.0), Holds::InDirection);
            // The application is not faster; LRU gains; classes gain nothing.
            assert_eq!(with(found.iops, 99.0), Holds::DoesNot);
            assert_eq!(with([100.0, 200.0, 500.0], found.speed), Holds::DoesNot);
            assert_eq!(with([100.0, 100.0, 90.0], found.speed), Holds::DoesNot);
        }
    }

    #[test]
    fn every_workload_counts_and_slow_disks_must_win() {
        assert_eq!(by_workload(&[1.5, 2.0, 6.8], true), Holds::Holds);
        assert_eq!(by_workload(&[1.05, 2.0, 6.8], true), Holds::InDirection);
        assert_eq!(by_workload(&[1.5, 40.0], true), Holds::InDirection);
        assert_eq!(by_workload(&[0.99, 6.8], true), Holds::DoesNot);
        assert_eq!(by_workload(&[1.5, 6.8], false), Holds::DoesNot);
        assert_eq!(by_workload(&[], true), Holds::NotJudged);
    }

    #[test]
    fn costs_are_judged_on_both_kinds_of_disks() {
        let pairs = [0, 1].map(|of| (PUBLISHED[of], papers(of)));
        assert_eq!(table4(&pairs), Holds::Holds);
        let mut cheaper = pairs;
        cheaper[0].1.dollars = [0.5, 0.8, 0.1];
        assert_eq!(table4(&cheaper), Holds::InDirection);
        // LRU is not dearer than no cache; classes do not save.
        cheaper[1].1.dollars = [5.47, 5.0, 2.80];
        assert_eq!(table4(&cheaper), Holds::DoesNot);
        cheaper[1].1.dollars = [5.47, 6.81, 5.5];
        assert_eq!(table4(&cheaper), Holds::DoesNot);
        assert_eq!(table4(&pairs[..1]), Holds::NotJudged);
    }

    #[test]
    fn the_policy_is_judged_by_what_the_cache_did() {
        let good = Policy {
            large_around: 10,
            taken_while_clean: 100,
            read_misses: 5,
            destaged: 50,
            evicted: 1000,
            evicted_early: 10,
            ..Policy::default()
        };
        assert_eq!(policy(&good), Holds::Holds);
        assert_eq!(policy(&Policy { evicted_early: 200, ..good }), Holds::InDirection);
        for bad in [
            Policy { small_around: 1, ..good },
            Policy { large_around_while_clean: 1, ..good },
            Policy { large_taken_while_dirty: 1, ..good },
            Policy { entered_by_reads: 1, ..good },
            Policy { evicted_early: 500, ..good },
        ] {
            assert_eq!(policy(&bad), Holds::DoesNot, "{bad:?}");
        }
        for untried in [
            Policy { large_around: 0, ..good },
            Policy { taken_while_clean: 0, ..good },
            Policy { read_misses: 0, ..good },
            Policy { evicted: 0, evicted_early: 0, ..good },
            Policy { destaged: 0, ..good },
        ] {
            assert_eq!(policy(&untried), Holds::NotJudged, "{untried:?}");
        }
    }
}
