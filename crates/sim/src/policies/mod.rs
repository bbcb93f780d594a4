//! Replacement policies over objects of one size: yardsticks for the cache, as fast as they can be made.
//!
//! Every miss is admitted, whatever the policy; a policy only chooses what has to go. Objects are named by 64 bits.

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

/// Names that are looked at together, so that reads of memory overlap.
pub const BATCH: usize = 32;

/// A cache of a fixed number of objects of one size.
pub trait Policy {
    /// Asks for an object, which is in the cache afterwards; returns whether it was there.
    fn access(&mut self, name: u64) -> bool;

    /// Asks for objects in turn; returns how many were there.
    fn access_batch(&mut self, names: &[u64; BATCH]) -> u64 {
        names.iter().map(|name| u64::from(self.access(*name))).sum()
    }

    /// Objects in the cache.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// RAM in bytes.
    fn ram_bytes(&self) -> usize;
}

/// The policies that need not know the future.
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
    /// First in, first out, with a second chance for what was used meanwhile.
    Clock,
    /// Adaptive replacement (Megiddo and Modha, FAST 2003).
    Arc,
    /// Three queues (Yang et al., SOSP 2023).
    S3Fifo,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Lru, Self::Slru, Self::Mru, Self::Fifo, Self::Clock, Self::Arc, Self::S3Fifo];

    /// An empty cache for `capacity` objects, at least 1.
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

/// What a policy, or [`belady`], made of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Misses {
    /// Requests.
    pub requests: u64,
    /// Requests for what was not there.
    pub misses: u64,
}

impl Misses {
    /// Misses among requests, 0 to 1; 0 when there were none.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }
}

/// Feeds a policy with names one by one, in batches.
pub struct Feed<'a> {
    policy: &'a mut dyn Policy,
    batch: [u64; BATCH],
    held: usize,
    counts: Misses,
}

impl<'a> Feed<'a> {
    /// Begins to feed `policy`.
    pub fn new(policy: &'a mut dyn Policy) -> Self {
        Self { policy, batch: [0; BATCH], held: 0, counts: Misses::default() }
    }

    /// Asks for an object.
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

    /// Asks for what is held back, and tells what became of all.
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
