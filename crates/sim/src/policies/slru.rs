//! Segmented LRU: a missed object is on probation, and becomes protected when it is hit. An object that the protected
//! segment has no room for returns to the newest end of probation ("Solid-State Drive Caching with Differentiated
//! Storage Services", Intel IT 2012, Table 1; Karedla, Love and Wherry, "Caching strategies to improve disk system
//! performance", IEEE Computer 27(3), 1994).

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// The maximum percentage of the cache that is protected. The sources do not define it; four fifths are usual.
pub(super) const PROTECTED_PERCENT: u64 = 80;

/// A segmented LRU cache.
#[derive(Debug, Clone)]
pub struct Slru {
    nodes: Nodes,
    probation: List,
    protected: List,
    /// For each node: whether it is in the protected segment.
    is_protected: Vec<bool>,
    capacity: u32,
    protected_max: u32,
}

impl Slru {
    /// A cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        Self {
            nodes: Nodes::new(capacity),
            probation: List::default(),
            protected: List::default(),
            is_protected: vec![false; capacity as usize],
            capacity,
            // Less than the cache, so that a full cache has a victim in probation.
            protected_max: (u64::from(capacity) * PROTECTED_PERCENT / 100) as u32,
        }
    }

    fn protect(&mut self, node: u32) {
        if self.is_protected[node as usize] {
            return self.nodes.refresh(&mut self.protected, node);
        }
        self.nodes.unlink(&mut self.probation, node);
        self.nodes.push(&mut self.protected, node);
        self.is_protected[node as usize] = true;
        if self.protected.len() > self.protected_max
            && let Some(oldest) = self.nodes.pop_oldest(&mut self.protected)
        {
            self.nodes.push(&mut self.probation, oldest);
            self.is_protected[oldest as usize] = false;
        }
    }
}

impl Policy for Slru {
    fn access(&mut self, name: u64) -> bool {
        if let Some(node) = self.nodes.find(name) {
            self.protect(node);
            return true;
        }
        let node = if self.len() < u64::from(self.capacity) {
            self.nodes.add(name)
        } else {
            let node = self.probation.oldest();
            self.nodes.unlink(&mut self.probation, node);
            self.nodes.rename(node, name);
            node
        };
        self.nodes.push(&mut self.probation, node);
        false
    }

    fn has(&self, name: u64) -> bool {
        self.nodes.find(name).is_some()
    }

    fn access_batch(&mut self, names: &[u64; BATCH]) -> u64 {
        self.nodes.warm(names);
        names.iter().map(|name| u64::from(self.access(*name))).sum()
    }

    fn len(&self) -> u64 {
        u64::from(self.probation.len()) + u64::from(self.protected.len())
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes() + self.is_protected.capacity()
    }
}
