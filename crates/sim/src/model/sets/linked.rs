//! Sets with many ways: one hash table over all keys, and a list in LRU order for each set.

use crate::policies::nodes::{List, Nodes};

/// Sets with any number of ways. The number of a key's node is its place on the SSD.
pub(super) struct Linked {
    nodes: Nodes,
    sets: Vec<List>,
    ways: u32,
}

impl Linked {
    /// `sets` × `ways` must be at most 2³² - 2.
    pub(super) fn new(sets: u64, ways: u32) -> Self {
        let places = u32::try_from(sets * u64::from(ways)).unwrap_or(u32::MAX - 1);
        Self { nodes: Nodes::new(places), sets: vec![List::default(); sets as usize], ways }
    }

    pub(super) fn refresh(&mut self, set: u64, key: u64) -> Option<u64> {
        let node = self.nodes.find(key)?;
        self.nodes.refresh(&mut self.sets[set as usize], node);
        Some(node.into())
    }

    pub(super) fn insert(&mut self, set: u64, key: u64) -> (u64, Option<u64>) {
        if let Some(place) = self.refresh(set, key) {
            return (place, Some(key));
        }
        let list = &mut self.sets[set as usize];
        let (node, old) = if list.len() < self.ways {
            (self.nodes.add(key), None)
        } else {
            let node = list.oldest();
            let old = self.nodes.name(node);
            self.nodes.unlink(list, node);
            self.nodes.rename(node, key);
            (node, Some(old))
        };
        self.nodes.push(list, node);
        (node.into(), old)
    }

    pub(super) fn forget(&mut self, set: u64, key: u64) -> bool {
        let Some(node) = self.nodes.find(key) else { return false };
        self.nodes.unlink(&mut self.sets[set as usize], node);
        self.nodes.drop_node(node);
        true
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.nodes.find(key).is_some()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes() + self.sets.capacity() * size_of::<List>()
    }
}
