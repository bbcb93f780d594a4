//! Miss-ratio curves of LRU in one pass, exact or sampled: SHARDS (Waldspurger et al., "Efficient MRC Construction with
//! SHARDS", FAST 2015). Objects are sampled by a hash of their names, all requests for a sampled object are followed,
//! and the reuse distances among them are scaled up.

mod what_if;

pub(crate) use what_if::Followed;
pub use what_if::WhatIf;

use serde::Serialize;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

/// Number of points of the curve for each doubling of the cache's size.
const PER_DOUBLING: u32 = 16;
/// The range of the hashes and of the threshold.
const STEPS: u64 = 1 << 32;

/// How objects are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// A share of the objects, above 0 and at most 1; with 1, the curve is exact.
    Rate(f64),
    /// At most this number of objects. The share falls as more objects occur, so memory is constant.
    Objects(usize),
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Objects that the cache has room for.
    pub objects: u64,
    /// Miss ratio, from 0 to 1.
    pub miss_ratio: f64,
}

/// The miss ratio of LRU by the size of the cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Sixteen points for each doubling of the size, up to a cache that holds all objects. Each is exact for its number
    /// of objects.
    pub points: Vec<Point>,
    /// Requests.
    pub requests: u64,
    /// Requests that were followed.
    pub sampled_requests: u64,
    /// Distinct objects, estimated from those sampled.
    pub objects: u64,
    /// The share of the objects that was followed in the end.
    pub rate: f64,
}

impl Curve {
    /// The miss ratio with room for `objects`, linearly interpolated between points; 1 without room.
    #[must_use]
    pub fn miss_ratio(&self, objects: u64) -> f64 {
        let at = self.points.partition_point(|point| point.objects < objects);
        let before = at.checked_sub(1).map_or(Point { objects: 0, miss_ratio: 1.0 }, |at| self.points[at]);
        let Some(after) = self.points.get(at) else { return before.miss_ratio };
        let share = (objects - before.objects) as f64 / (after.objects - before.objects).max(1) as f64;
        before.miss_ratio + (after.miss_ratio - before.miss_ratio) * share
    }
}

/// The number of the first point whose cache has a hit at this reuse distance.
fn bucket(distance: f64) -> usize {
    let needed = distance + 1.0;
    let about = (needed.log2() * f64::from(PER_DOUBLING)).floor().max(0.0) as usize;
    (about.saturating_sub(1)..).find(|at| size_of_bucket(*at) as f64 >= needed).unwrap_or(about)
}

/// The size of a cache, in objects, for a point. Several points may have the same small size; the curve has each size
/// once.
fn size_of_bucket(bucket: usize) -> u64 {
    (bucket as f64 / f64::from(PER_DOUBLING)).exp2().round() as u64
}

/// The rate is not above 0 and at most 1, or the number of objects is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadSampling;

impl fmt::Display for BadSampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sampling rate is above 0 and at most 1; at least one object is followed")
    }
}

impl std::error::Error for BadSampling {}

/// Maximum RAM in bytes for each followed object: its last use, its entry in the heap of hashes, and four uses in the
/// tree.
const FOLLOWED_BYTES: u64 = 96;

/// Computes a curve from requests.
#[derive(Debug, Clone)]
pub struct Shards {
    threshold: u64,
    objects_max: usize,
    /// Last use of each sampled object, in `uses`.
    last: HashMap<u64, u32>,
    /// The sampled objects by their hash, the largest first; used only if their number is bounded.
    by_hash: BinaryHeap<(u64, u64)>,
    uses: Uses,
    /// The weight of requests by the number of the first point at which they hit.
    hits: Vec<f64>,
    weight: f64,
    requests: f64,
    sampled: u64,
}

fn hash(name: u64) -> u64 {
    let x = (name ^ (name >> 30)).wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 31)) % STEPS
}

/// The threshold for a share of the objects.
fn steps(rate: f64) -> u64 {
    (rate * STEPS as f64).max(1.0) as u64
}

impl Shards {
    /// A curve without requests.
    ///
    /// # Errors
    /// [`BadSampling`]
    pub fn new(sampling: Sampling) -> Result<Self, BadSampling> {
        let (threshold, objects_max) = match sampling {
            Sampling::Rate(rate) if rate > 0.0 && rate <= 1.0 => (steps(rate), usize::MAX),
            Sampling::Objects(objects) if objects > 0 => (STEPS, objects),
            _ => return Err(BadSampling),
        };
        Ok(Self {
            threshold,
            objects_max,
            last: HashMap::new(),
            by_hash: BinaryHeap::new(),
            uses: Uses::default(),
            hits: Vec::new(),
            weight: 0.0,
            requests: 0.0,
            sampled: 0,
        })
    }

    /// The same, but no more than a share of the objects is followed. A share above 1 is no bound.
    #[must_use]
    pub fn at_most(mut self, rate: f64) -> Self {
        self.threshold = self.threshold.min(steps(rate));
        self
    }

    fn rate(&self) -> f64 {
        self.threshold as f64 / STEPS as f64
    }

    /// Counts a request for an object.
    #[inline]
    pub fn access(&mut self, name: u64) {
        self.requests += 1.0;
        let hash = hash(name);
        if hash < self.threshold {
            self.follow(name, hash, true);
        }
    }

    /// Notes that an object was inserted without a request. This is a use that does not count as a request.
    #[inline]
    pub fn put(&mut self, name: u64) {
        let hash = hash(name);
        if hash < self.threshold {
            self.follow(name, hash, false);
        }
    }

    /// Halves the weight of everything seen so far.
    pub fn fade(&mut self) {
        self.hits.iter_mut().for_each(|hits| *hits /= 2.0);
        self.weight /= 2.0;
        self.requests /= 2.0;
    }

    /// The maximum RAM in bytes if `objects` objects are followed.
    #[must_use]
    pub const fn ram_bytes_max(objects: usize) -> u64 {
        // The minimum size of the tree and of the points of the curve.
        objects as u64 * FOLLOWED_BYTES + (32 << 10)
    }

    /// RAM in bytes.
    #[must_use]
    pub fn ram_bytes(&self) -> usize {
        self.last.capacity() * (size_of::<(u64, u32)>() + 1)
            + self.by_hash.capacity() * size_of::<(u64, u64)>()
            + self.uses.sums.capacity() * size_of::<u32>()
            + self.hits.capacity() * size_of::<f64>()
    }

    fn follow(&mut self, name: u64, hash: u64, counted: bool) {
        let rate = self.rate();
        if counted {
            self.sampled += 1;
            self.weight += 1.0 / rate;
        }
        if self.uses.is_full() {
            self.uses.compact(&mut self.last);
        }
        let now = self.uses.push();
        match self.last.insert(name, now) {
            Some(before) => {
                let distance = self.uses.take(before) as f64 / rate;
                let bucket = bucket(distance);
                if self.hits.len() <= bucket {
                    self.hits.resize(bucket + 1, 0.0);
                }
                if counted {
                    self.hits[bucket] += 1.0 / rate;
                }
            }
            None if self.objects_max < usize::MAX => {
                self.by_hash.push((hash, name));
                if self.last.len() > self.objects_max {
                    self.lower();
                }
            }
            None => {}
        }
    }

    /// Lowers the threshold until no more than `objects_max` objects are followed.
    fn lower(&mut self) {
        while self.last.len() > self.objects_max {
            let Some((largest, _)) = self.by_hash.peek() else { return };
            self.threshold = *largest;
            while self.by_hash.peek().is_some_and(|(hash, _)| *hash >= self.threshold) {
                let Some((_, name)) = self.by_hash.pop() else { return };
                if let Some(use_at) = self.last.remove(&name) {
                    self.uses.take(use_at);
                }
            }
        }
    }

    /// The curve so far.
    #[must_use]
    pub fn curve(&self) -> Curve {
        let requests = self.requests;
        // SHARDS-adj: the difference between the expected and the actual number of sampled requests is added to the
        // hits with the smallest distance.
        let mut hits = requests - self.weight;
        let mut points: Vec<Point> = Vec::new();
        for (at, weight) in self.hits.iter().enumerate() {
            hits += weight;
            let point = Point {
                objects: size_of_bucket(at),
                miss_ratio: if requests > 0.0 { (1.0 - hits / requests).clamp(0.0, 1.0) } else { 0.0 },
            };
            match points.last_mut() {
                Some(last) if last.objects == point.objects => *last = point,
                _ => points.push(point),
            }
        }
        Curve {
            points,
            requests: self.requests.round() as u64,
            sampled_requests: self.sampled,
            objects: (self.last.len() as f64 / self.rate()).round() as u64,
            rate: self.rate(),
        }
    }
}

/// A Fenwick tree over numbered uses, in which the last use of each object is marked. It counts the marks after a use.
#[derive(Debug, Clone)]
struct Uses {
    sums: Vec<u32>,
    next: u32,
    marked: u32,
}

impl Default for Uses {
    fn default() -> Self {
        Self { sums: vec![0; 1 << 12], next: 0, marked: 0 }
    }
}

impl Uses {
    fn is_full(&self) -> bool {
        self.next as usize + 1 >= self.sums.len()
    }

    /// Marks a new use; returns its number.
    fn push(&mut self) -> u32 {
        let at = self.next;
        self.next += 1;
        self.marked += 1;
        self.add(at, 1);
        at
    }

    fn add(&mut self, at: u32, by: i32) {
        let mut at = at as usize + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at].wrapping_add_signed(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Removes a mark; returns the number of marks after it, without the newest one.
    fn take(&mut self, at: u32) -> u32 {
        let (mut upto, mut rank) = (at as usize + 1, 0);
        while upto > 0 {
            rank += self.sums[upto];
            upto &= upto - 1;
        }
        let behind = self.marked - rank;
        self.add(at, -1);
        self.marked -= 1;
        behind.saturating_sub(1)
    }

    /// Renumbers the marked uses in their order, so that there is room for three times as many new ones.
    fn compact(&mut self, last: &mut HashMap<u64, u32>) {
        let mut order: Vec<_> = last.iter_mut().map(|(_, at)| at).collect();
        order.sort_unstable();
        self.sums.clear();
        self.sums.resize((order.len() * 4).max(1 << 12), 0);
        (self.next, self.marked) = (0, 0);
        for at in order {
            *at = self.push();
        }
    }
}
