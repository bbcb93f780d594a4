//! A model of what caches and origins know of each other over copies, kills, and copies that are put back: nothing is believed that
//! is not so, and nothing is doubted that is.

use super::{OURS, THEIRS, disk};
use crate::origins::{Uuid, VolumeMark};
use crate::serve::known_origin::{Finding, KnownOrigin};
use nitro_testkit::Rng;
use std::collections::HashSet;

/// An origin: its mark, and a number for its content.
#[derive(Clone, Default)]
struct Origin {
    mark: Option<VolumeMark>,
    content: u64,
}

/// A cache: what it knows of the origin, and the content that it has.
#[derive(Clone)]
struct Cache {
    uuid: Uuid,
    known: Option<KnownOrigin>,
    content: u64,
}

/// A cache that holds nothing of the origin, which is true of any.
const EMPTY: u64 = u64::MAX;
/// A step before which a serving may be killed: none is.
const TO_THE_END: u64 = 7;

struct Model {
    rng: Rng,
    origin: Origin,
    caches: [Cache; 3],
    /// What was copied while it was served, and in which serving.
    cache_copies: Vec<(usize, Cache, u64)>,
    origin_copies: Vec<(Origin, u64)>,
    /// Servings of which a copy was put back.
    put_back: HashSet<u64>,
    /// Servings that were killed after the origin had their mark.
    killed: HashSet<u64>,
    /// The cache whose serving was the last one, if nothing was put back since.
    last: Option<usize>,
    /// What happened, for the report of a failure.
    told: Vec<String>,
}

/// The token of the begin, or the end, of a serving.
fn token(serving: u64, is_end: bool) -> u64 {
    serving << 1 | u64::from(is_end)
}

impl Model {
    fn new(seed: u64) -> Self {
        let caches = [OURS, THEIRS, Uuid([3; 16])].map(|uuid| Cache { uuid, known: None, content: EMPTY });
        let (cache_copies, origin_copies) = (Vec::new(), Vec::new());
        let (put_back, killed) = (HashSet::new(), HashSet::new());
        let origin = Origin::default();
        Self {
            rng: Rng::new(seed),
            origin,
            caches,
            cache_copies,
            origin_copies,
            put_back,
            killed,
            last: None,
            told: Vec::new(),
        }
    }

    /// Puts back a copy of a cache, or of the origin.
    fn put_back(&mut self) {
        let newest = self.cache_copies.len().min(self.origin_copies.len()) as u64;
        if newest == 0 || !self.rng.one_in(3) {
            return;
        }
        let at = self.rng.below(newest) as usize;
        let of = if self.rng.one_in(2) {
            let (which, copy, of) = self.cache_copies[at].clone();
            self.caches[which] = copy;
            self.told.push(format!("cache {which} as in serving {of}"));
            of
        } else {
            let (copy, of) = self.origin_copies[at].clone();
            self.origin = copy;
            self.told.push(format!("origin as in serving {of}"));
            of
        };
        self.put_back.insert(of);
        self.last = None;
    }

    /// What is found must be so. A copy that was made while the origin was served, in a serving that was killed, has the token of
    /// what it was copied from: SEMANTICS names this.
    fn examine(&self, seed: u64, serving: u64, which: usize) {
        let (cache, mark) = (&self.caches[which], self.origin.mark.as_ref());
        let Some(known) = &cache.known else { return };
        let told = self.told.join("; ");
        let found = known.examine(&disk("a"), mark, cache.uuid);
        let of = mark.map_or(0, |mark| mark.token >> 1);
        let is_untold = self.killed.contains(&of) && self.put_back.contains(&of);
        match found {
            Finding::AsLeft => {
                assert!(
                    is_untold || [EMPTY, self.origin.content].contains(&cache.content),
                    "seed {seed}, serving {serving}: another state is believed after {told}"
                );
            }
            other => {
                assert!(
                    self.last != Some(which),
                    "seed {seed}, serving {serving}: {other:?}, though nothing changed: {told}"
                )
            }
        }
    }

    /// Serves the origin with a cache, up to a kill before step `kill`.
    fn serve(&mut self, serving: u64, which: usize, kill: u64) {
        self.told.push(format!("serving {serving} with cache {which} up to step {kill}"));
        let (origin, cache) = (&mut self.origin, &mut self.caches[which]);
        let (id, begin) = (disk("a"), Some(token(serving, false)));
        let next = KnownOrigin::next(cache.known.as_ref(), &id, origin.mark.as_ref(), cache.uuid, begin);
        let ended = next.clone().marked(true).ended(token(serving, true));
        let found = cache.known.as_ref().map(|known| known.examine(&id, origin.mark.as_ref(), cache.uuid));
        cache.content = match found {
            // What was believed wrongly, since it cannot be told, counts once.
            Some(Finding::AsLeft) if cache.content != EMPTY => origin.content,
            _ => EMPTY,
        };
        for step in 0..kill {
            match step {
                0 => cache.known = Some(next.clone()),
                1 => origin.mark = Some(next.mark(cache.uuid)),
                2 => {
                    cache.known = Some(next.clone().marked(true));
                    cache.content = origin.content;
                }
                3 => {
                    self.cache_copies.push((which, cache.clone(), serving));
                    self.origin_copies.push((origin.clone(), serving));
                    (origin.content, cache.content) = (serving, serving);
                }
                4 => cache.known = ended.clone(),
                5 => origin.mark = ended.as_ref().map(|ended| ended.mark(cache.uuid)),
                _ => cache.known = ended.clone().map(|ended| ended.marked(true)),
            }
        }
        if kill > 1 && kill < TO_THE_END {
            self.killed.insert(serving);
        }
        self.last = (kill > 1 || self.last == Some(which)).then_some(which);
    }
}

#[test]
fn copies_and_kills_leave_nothing_that_is_believed_wrongly() {
    for seed in 0..3000 {
        let mut model = Model::new(seed);
        for serving in 1..24 {
            model.put_back();
            let which = model.rng.below(3) as usize;
            let kill = if model.rng.one_in(2) { model.rng.below(TO_THE_END) } else { TO_THE_END };
            model.examine(seed, serving, which);
            model.serve(serving, which, kill);
        }
    }
}
