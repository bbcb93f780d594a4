//! Each policy, compared with a naive one that uses plain vectors, oldest first.

use super::*;
use proptest::prelude::*;
use std::collections::{HashSet, VecDeque};

/// A naive cache; `access` returns whether the object was cached, and inserts it.
trait Naive {
    fn access(&mut self, name: u64) -> bool;
}

/// LRU with `refresh`, else FIFO.
struct Queue {
    objects: VecDeque<u64>,
    capacity: usize,
    refresh: bool,
}

impl Naive for Queue {
    fn access(&mut self, name: u64) -> bool {
        let found = self.objects.iter().position(|n| *n == name);
        if let Some(at) = found {
            if self.refresh {
                self.objects.remove(at);
                self.objects.push_back(name);
            }
            return true;
        }
        if self.objects.len() == self.capacity {
            self.objects.pop_front();
        }
        self.objects.push_back(name);
        false
    }
}

/// MRU: the most recently used object is at the back.
struct NaiveMru {
    objects: Vec<u64>,
    capacity: usize,
}

impl Naive for NaiveMru {
    fn access(&mut self, name: u64) -> bool {
        let before = self.objects.len();
        self.objects.retain(|known| *known != name);
        let hit = self.objects.len() < before;
        if self.objects.len() == self.capacity {
            self.objects.pop();
        }
        self.objects.push(name);
        hit
    }
}

/// Table 1 of the DSS paper: both segments in order from least to most recently used.
#[derive(Default)]
struct NaiveSlru {
    probation: VecDeque<u64>,
    protected: VecDeque<u64>,
    capacity: usize,
}

impl Naive for NaiveSlru {
    fn access(&mut self, name: u64) -> bool {
        if take(&mut self.probation, name) || take(&mut self.protected, name) {
            self.protected.push_back(name);
            while self.protected.len() * 100 > self.capacity * slru::PROTECTED_PERCENT as usize {
                self.probation.extend(self.protected.pop_front());
            }
            return true;
        }
        if self.probation.len() + self.protected.len() == self.capacity {
            self.probation.pop_front();
        }
        self.probation.push_back(name);
        false
    }
}

struct NaiveClock {
    objects: VecDeque<(u64, bool)>,
    capacity: usize,
}

impl Naive for NaiveClock {
    fn access(&mut self, name: u64) -> bool {
        if let Some(object) = self.objects.iter_mut().find(|o| o.0 == name) {
            object.1 = true;
            return true;
        }
        while self.objects.len() == self.capacity {
            if let Some((name, true)) = self.objects.pop_front() {
                self.objects.push_back((name, false));
            }
        }
        self.objects.push_back((name, false));
        false
    }
}

/// Figure 4 of the paper, step by step.
#[derive(Default)]
struct NaiveArc {
    t1: VecDeque<u64>,
    t2: VecDeque<u64>,
    b1: VecDeque<u64>,
    b2: VecDeque<u64>,
    p: f64,
    c: usize,
}

fn take(list: &mut VecDeque<u64>, name: u64) -> bool {
    let at = list.iter().position(|n| *n == name);
    at.map(|at| list.remove(at)).is_some()
}

impl NaiveArc {
    fn replace(&mut self, in_b2: bool) {
        if !self.t1.is_empty() && (self.t1.len() as f64 > self.p || in_b2 && self.t1.len() as f64 == self.p) {
            let lru = self.t1.pop_front().unwrap();
            self.b1.push_back(lru);
        } else if let Some(lru) = self.t2.pop_front() {
            self.b2.push_back(lru);
        }
    }
}

impl Naive for NaiveArc {
    fn access(&mut self, x: u64) -> bool {
        let (b1, b2) = (self.b1.len(), self.b2.len());
        if take(&mut self.t1, x) || take(&mut self.t2, x) {
            self.t2.push_back(x);
            return true;
        }
        if self.b1.contains(&x) {
            let delta = if b1 >= b2 { 1.0 } else { b2 as f64 / b1 as f64 };
            self.p = f64::min(self.p + delta, self.c as f64);
            self.replace(false);
            take(&mut self.b1, x);
            self.t2.push_back(x);
            return false;
        }
        if self.b2.contains(&x) {
            let delta = if b2 >= b1 { 1.0 } else { b1 as f64 / b2 as f64 };
            self.p = f64::max(self.p - delta, 0.0);
            self.replace(true);
            take(&mut self.b2, x);
            self.t2.push_back(x);
            return false;
        }
        let l1 = self.t1.len() + self.b1.len();
        let all = l1 + self.t2.len() + self.b2.len();
        if l1 == self.c {
            if self.t1.len() < self.c {
                self.b1.pop_front();
                self.replace(false);
            } else {
                self.t1.pop_front();
            }
        } else if all >= self.c {
            if all == 2 * self.c {
                self.b2.pop_front();
            }
            self.replace(false);
        }
        self.t1.push_back(x);
        false
    }
}

#[derive(Default)]
struct NaiveS3 {
    small: VecDeque<(u64, u8)>,
    main: VecDeque<(u64, u8)>,
    ghost: VecDeque<u64>,
    capacity: usize,
    small_max: usize,
}

impl NaiveS3 {
    fn evict_main(&mut self) {
        while let Some((name, uses)) = self.main.pop_front() {
            if uses == 0 {
                return;
            }
            self.main.push_back((name, uses - 1));
        }
    }

    fn evict_small(&mut self) {
        while let Some((name, uses)) = self.small.pop_front() {
            if uses > 1 {
                self.main.push_back((name, 0));
                if self.main.len() > self.capacity - self.small_max.min(self.capacity - 1) {
                    return self.evict_main();
                }
            } else {
                if self.ghost.len() >= (self.capacity - self.small_max).max(1) {
                    self.ghost.pop_front();
                }
                return self.ghost.push_back(name);
            }
        }
        self.evict_main();
    }
}

impl Naive for NaiveS3 {
    fn access(&mut self, name: u64) -> bool {
        if let Some(object) = self.small.iter_mut().chain(&mut self.main).find(|o| o.0 == name) {
            object.1 = (object.1 + 1).min(3);
            return true;
        }
        let known = take(&mut self.ghost, name);
        while self.small.len() + self.main.len() >= self.capacity {
            if self.small.len() >= self.small_max || self.main.is_empty() {
                self.evict_small();
            } else {
                self.evict_main();
            }
        }
        if known { &mut self.main } else { &mut self.small }.push_back((name, 0));
        false
    }
}

fn naive(kind: PolicyKind, capacity: usize) -> Box<dyn Naive> {
    let queue = |refresh| Box::new(Queue { objects: VecDeque::new(), capacity, refresh });
    match kind {
        PolicyKind::Lru => queue(true),
        PolicyKind::Slru => Box::new(NaiveSlru { capacity, ..NaiveSlru::default() }),
        PolicyKind::Mru => Box::new(NaiveMru { objects: Vec::new(), capacity }),
        PolicyKind::Fifo => queue(false),
        PolicyKind::Clock => Box::new(NaiveClock { objects: VecDeque::new(), capacity }),
        PolicyKind::Arc => Box::new(NaiveArc { c: capacity, ..NaiveArc::default() }),
        PolicyKind::S3Fifo => Box::new(NaiveS3 { capacity, small_max: (capacity / 10).max(1), ..NaiveS3::default() }),
    }
}

/// Requests in which some names are frequent.
fn names() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![0u64..8, 0u64..40, 0u64..200], 0..700)
}

proptest! {
    #[test]
    fn each_policy_does_what_its_naive_model_does(names in names(), capacity in 1u32..60) {
        for kind in PolicyKind::ALL {
            let (mut fast, mut slow) = (kind.build(capacity), naive(kind, capacity as usize));
            for (at, name) in names.iter().enumerate() {
                prop_assert_eq!(fast.access(*name), slow.access(*name), "{:?}, request {}", kind, at);
                prop_assert!(fast.len() <= capacity.into());
            }
        }
    }

    #[test]
    fn batches_change_nothing(names in names(), capacity in 1u32..60) {
        for kind in PolicyKind::ALL {
            let (mut one, mut other) = (kind.build(capacity), kind.build(capacity));
            let hits = names.iter().filter(|name| one.access(**name)).count();
            let mut feed = Feed::new(&mut *other);
            names.iter().for_each(|name| feed.push(*name));
            let counts = feed.finish();
            prop_assert_eq!((counts.requests, counts.requests - counts.misses), (names.len() as u64, hits as u64));
        }
    }

    #[test]
    fn beladys_optimum_is_the_best_there_is(names in prop::collection::vec(0u64..6, 0..14), capacity in 1u32..4) {
        prop_assert_eq!(belady(&names, capacity).misses, fewest(&names, capacity as usize));
    }

    #[test]
    fn no_policy_beats_the_optimum(names in names(), capacity in 1u32..60) {
        let best = belady(&names, capacity).misses;
        for kind in PolicyKind::ALL {
            let mut policy = kind.build(capacity);
            let misses = names.iter().filter(|name| !policy.access(**name)).count() as u64;
            prop_assert!(misses >= best, "{kind:?}: {misses} < {best}");
        }
    }
}

#[test]
fn segments_keep_a_working_set_from_a_scan_and_mru_keeps_a_part_of_a_cycle() {
    let hits = |kind: PolicyKind, names: &mut dyn Iterator<Item = u64>| {
        let mut policy = kind.build(100);
        names.filter(|name| policy.access(*name)).count()
    };
    // 50 names twice, a scan of 1000, and the 50 again.
    let scanned = || (0..50).chain(0..50).chain(1000..2000).chain(0..50);
    assert_eq!([PolicyKind::Lru, PolicyKind::Slru].map(|kind| hits(kind, &mut scanned())), [50, 100]);
    // 10 cycles of 101 names: LRU evicts each name just before its next request; MRU misses one name in each cycle.
    let cycles = || (0..10).flat_map(|_| 0..101);
    let [lru, mru] = [PolicyKind::Lru, PolicyKind::Mru].map(|kind| hits(kind, &mut cycles()));
    assert_eq!((lru, mru), (0, 900));
}

/// Tries every choice of victims.
fn fewest(names: &[u64], capacity: usize) -> u64 {
    let mut states: Vec<(Vec<u64>, u64)> = vec![(Vec::new(), 0)];
    for name in names {
        let mut next: Vec<(Vec<u64>, u64)> = Vec::new();
        for (cached, misses) in states {
            if cached.contains(name) {
                next.push((cached, misses));
            } else if cached.len() < capacity {
                next.push(([&cached[..], &[*name]].concat(), misses + 1));
            } else {
                for victim in 0..cached.len() {
                    let mut cached = cached.clone();
                    cached[victim] = *name;
                    next.push((cached, misses + 1));
                }
            }
        }
        next.iter_mut().for_each(|state| state.0.sort_unstable());
        next.sort_unstable();
        let mut seen = HashSet::new();
        next.retain(|state| seen.insert(state.0.clone()));
        states = next;
    }
    states.into_iter().map(|state| state.1).min().unwrap_or(0)
}
