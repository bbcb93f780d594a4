//! Replacement policies over objects of one size, for comparison with the cache, and optimised for speed.
//!
//! Every miss is admitted; a policy only chooses what is evicted. Names of objects have 64 bits.

mod arc;
mod belady;
mod clock;
mod fifo;
mod lru;
mod mru;
mod names;
pub(crate) mod nodes;
mod s3_fifo;
mod slru;
mod table;

pub use arc::Arc;
pub use belady::belady;
pub(crate) use belady::belady_hits;
pub use clock::Clock;
pub use fifo::Fifo;
pub use lru::Lru;
pub use mru::Mru;
pub use names::each_name;
pub use s3_fifo::S3Fifo;
pub use slru::Slru;

use serde::{Deserialize, Serialize};

/// The number of names that are processed together, so that reads of memory overlap.
pub const BATCH: usize = 32;

/// A cache of a fixed number of objects of one size.
pub trait Policy {
    /// Requests an object, which is cached afterwards; returns whether it was cached before.
    fn access(&mut self, name: u64) -> bool;

    /// Whether an object is cached. Changes nothing.
    fn has(&self, name: u64) -> bool;

    /// Requests objects in order; returns how many were cached.
    fn access_batch(&mut self, names: &[u64; BATCH]) -> u64 {
        names.iter().map(|name| u64::from(self.access(*name))).sum()
    }

    /// The number of cached objects.
    fn len(&self) -> u64;

    /// Whether no object is cached.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The RAM of the policy in bytes.
    fn ram_bytes(&self) -> usize;
}

/// The policies that do not need the future of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// Least recently used.
    Lru,
    /// Segmented LRU (Karedla, Love and Wherry, IEEE Computer 27(3), 1994), with four fifths of the cache protected.
    Slru,
    /// Most recently used.
    Mru,
    /// First in, first out.
    Fifo,
    /// First in, first out, with a second chance for objects that were used meanwhile.
    Clock,
    /// Adaptive replacement (Megiddo and Modha, FAST 2003).
    Arc,
    /// Three queues (Yang et al., SOSP 2023).
    S3Fifo,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [Self; 7] = [Self::Lru, Self::Slru, Self::Mru, Self::Fifo, Self::Clock, Self::Arc, Self::S3Fifo];

    /// An empty cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn build(self, capacity: u32) -> Box<dyn Policy + Send> {
        match self {
            Self::Lru => Box::new(Lru::new(capacity)),
            Self::Slru => Box::new(Slru::new(capacity)),
            Self::Mru => Box::new(Mru::new(capacity)),
            Self::Fifo => Box::new(Fifo::new(capacity)),
            Self::Clock => Box::new(Clock::new(capacity)),
            Self::Arc => Box::new(Arc::new(capacity)),
            Self::S3Fifo => Box::new(S3Fifo::new(capacity)),
        }
    }
}

/// The misses of a policy, or of [`belady`], over a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// The number of requests.
    pub requests: u64,
    /// The number of requests for objects that were not cached.
    pub misses: u64,
}

impl Misses {
    /// Misses over requests, 0 to 1; 0 without requests.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }
}

/// Passes names to a policy in batches.
pub struct Feed<'a> {
    policy: &'a mut dyn Policy,
    batch: [u64; BATCH],
    held: usize,
    counts: Misses,
}

impl<'a> Feed<'a> {
    /// A feed of `policy`.
    pub fn new(policy: &'a mut dyn Policy) -> Self {
        Self { policy, batch: [0; BATCH], held: 0, counts: Misses::default() }
    }

    /// Requests an object.
    #[inline]
    pub fn push(&mut self, name: u64) {
        self.batch[self.held] = name;
        self.held += 1;
        if self.held == BATCH {
            self.held = 0;
            self.counts.requests += BATCH as u64;
            self.counts.misses += BATCH as u64 - self.policy.access_batch(&self.batch);
        }
    }

    /// Requests the remaining objects; returns the misses of all requests.
    pub fn finish(mut self) -> Misses {
        for name in &self.batch[..self.held] {
            self.counts.requests += 1;
            self.counts.misses += u64::from(!self.policy.access(*name));
        }
        self.counts
    }
}

#[cfg(test)]
mod tests;
