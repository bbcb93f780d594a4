//! The SSD that chooses what a cache evicts.

use crate::support::{geometry, run};
use nitro_model::{CoDesigned, CoDesignedSettings, Ftl};

/// Four WEUs of two blocks of four pages, and the block for rewriting.
fn ssd() -> CoDesigned {
    CoDesigned::new(geometry(4, 9), CoDesignedSettings { weu_blocks: 2 }).unwrap()
}

#[test]
fn the_weu_used_least_recently_is_the_victim() {
    let mut ssd = ssd();
    assert_eq!(ssd.victim(), None);
    [2, 0, 1, 3].into_iter().for_each(|weu| ssd.write(run(weu * 8, 8), &mut ()));
    assert_eq!(ssd.victim(), Some(run(16, 8)));
    ssd.read(run(18, 1));
    assert_eq!(ssd.victim(), Some(run(0, 8)));
    ssd.trim(run(0, 7), &mut ());
    assert_eq!(ssd.victim(), Some(run(0, 8)), "a page is left");
    ssd.trim(run(7, 1), &mut ());
    assert_eq!(ssd.victim(), Some(run(8, 8)));
}

/// A full SSD whose victim is overwritten again and again: each WEU costs its two erasures and no copy, though nothing is
/// reserved.
#[test]
fn eviction_copies_nothing() {
    let mut ssd = ssd();
    (0..4).for_each(|weu| ssd.write(run(weu * 8, 8), &mut ()));
    for _ in 0..90 {
        let victim = ssd.victim().unwrap();
        ssd.write(victim, &mut ());
    }
    let counters = ssd.flash().counters();
    assert_eq!((counters.erasures, counters.copies), (180, 0));
    assert_eq!(ssd.flash().wear().least, 20, "erasures are spread over all nine blocks");
    assert_eq!(ssd.flash().wear().most, 20);
}

/// A WEU may be filled in pieces.
#[test]
fn appending_copies_nothing() {
    let mut ssd = ssd();
    (0..8).for_each(|page| ssd.write(run(page, 1), &mut ()));
    assert_eq!((ssd.flash().counters().erasures, ssd.flash().counters().copies), (0, 0));
    ssd.write(run(1, 2), &mut ());
    assert_eq!((ssd.flash().counters().erasures, ssd.flash().counters().copies), (1, 2), "pages 0 and 3 are copied");
}
