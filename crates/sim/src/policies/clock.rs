//! CLOCK: FIFO with a second chance.

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// A CLOCK cache. An object that was used since the hand passed it is skipped once.
#[derive(Debug, Clone)]
pub struct Clock {
    nodes: Nodes,
    /// The oldest end is the next that the hand visits.
    list: List,
    used: Vec<bool>,
    capacity: u32,
}

impl Clock {
    /// A cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.max(1);
        let used = vec![false; capacity as usize];
        Self { nodes: Nodes::new(capacity), list: List::default(), used, capacity }
    }

    fn victim(&mut self) -> u32 {
        loop {
            let node = self.list.oldest();
            self.nodes.unlink(&mut self.list, node);
            if !std::mem::take(&mut self.used[node as usize]) {
                return node;
            }
            self.nodes.push(&mut self.list, node);
        }
    }
}

impl Policy for Clock {
    fn access(&mut self, name: u64) -> bool {
        if let Some(node) = self.nodes.find(name) {
            self.used[node as usize] = true;
            return true;
        }
        let node = if self.list.len() < self.capacity {
            self.nodes.add(name)
        } else {
            let node = self.victim();
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
        self.nodes.ram_bytes() + self.used.len()
    }
}
