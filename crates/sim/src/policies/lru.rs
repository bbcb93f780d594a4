//! Least recently used.

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// An LRU cache; it takes 28 to 40 bytes for each object.
#[derive(Debug, Clone)]
pub struct Lru {
    nodes: Nodes,
    list: List,
    capacity: u32,
}

impl Lru {
    /// A cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        Self { nodes: Nodes::new(capacity), list: List::default(), capacity }
    }

    #[inline]
    fn ask(&mut self, name: u64) -> bool {
        if let Some(node) = self.nodes.find(name) {
            self.nodes.refresh(&mut self.list, node);
            return true;
        }
        let node = if self.list.len() < self.capacity {
            self.nodes.add(name)
        } else {
            let node = self.list.oldest();
            self.nodes.unlink(&mut self.list, node);
            self.nodes.rename(node, name);
            node
        };
        self.nodes.push(&mut self.list, node);
        false
    }
}

impl Policy for Lru {
    fn access(&mut self, name: u64) -> bool {
        self.ask(name)
    }

    fn has(&self, name: u64) -> bool {
        self.nodes.find(name).is_some()
    }

    fn access_batch(&mut self, names: &[u64; BATCH]) -> u64 {
        self.nodes.warm(names);

        names.iter().map(|name| u64::from(self.ask(*name))).sum()
    }

    fn len(&self) -> u64 {
        self.list.len().into()
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes()
    }
}
