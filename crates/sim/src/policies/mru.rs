//! Most recently used: the object that was used last is evicted first ("Solid-State Drive Caching with Differentiated
//! Storage Services", Intel IT 2012, Table 1). It suits cycles over more objects than the cache holds.

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// An MRU cache.
#[derive(Debug, Clone)]
pub struct Mru {
    nodes: Nodes,
    list: List,
    capacity: u32,
}

impl Mru {
    /// A cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        Self { nodes: Nodes::new(capacity), list: List::default(), capacity }
    }
}

impl Policy for Mru {
    fn access(&mut self, name: u64) -> bool {
        if let Some(node) = self.nodes.find(name) {
            self.nodes.refresh(&mut self.list, node);
            return true;
        }
        if self.list.len() < self.capacity {
            let node = self.nodes.add(name);
            self.nodes.push(&mut self.list, node);
        } else {
            // The new object takes the node of the newest, which is at the newest end of the list already.
            self.nodes.rename(self.list.newest(), name);
        }
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
        self.list.len().into()
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes()
    }
}
