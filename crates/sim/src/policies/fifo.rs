//! First in, first out.

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// A FIFO cache.
#[derive(Debug, Clone)]
pub struct Fifo {
    nodes: Nodes,
    list: List,
    capacity: u32,
}

impl Fifo {
    /// A cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        Self { nodes: Nodes::new(capacity), list: List::default(), capacity }
    }
}

impl Policy for Fifo {
    fn access(&mut self, name: u64) -> bool {
        if self.nodes.find(name).is_some() {
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
