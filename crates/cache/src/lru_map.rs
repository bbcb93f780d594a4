//! A map with a byte budget and exact least-recently-used replacement, used for the RAM cache and for samples of
//! policies.

use std::collections::HashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;

struct Node<K, V> {
    key: K,
    value: V,
    bytes: u64,
    newer: u32,
    older: u32,
}

/// The map. Values have a weight in bytes; the total stays within the budget.
pub struct LruMap<K, V> {
    index: HashMap<K, u32>,
    nodes: Vec<Option<Node<K, V>>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    bytes: u64,
    bytes_max: u64,
}

impl<K: Hash + Eq + Copy, V> LruMap<K, V> {
    /// The budget in bytes.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// An empty map with a budget in bytes; 0 keeps nothing.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let (index, nodes, free) = (HashMap::new(), Vec::new(), Vec::new());
        Self { index, nodes, free, newest: NONE, oldest: NONE, bytes: 0, bytes_max }
    }

    /// The value of a key, which becomes the most recently used.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let at = *self.index.get(key)?;
        if self.newest != at {
            self.unlink(at);
            self.link_newest(at);
        }
        self.nodes[at as usize].as_mut().map(|n| &mut n.value)
    }

    /// The value of a key, without using it.
    #[must_use]
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.nodes[*self.index.get(key)? as usize].as_ref().map(|n| &n.value)
    }

    /// Inserts or replaces a value, then evicts the least recently used ones until the total is within the budget. A
    /// value larger than the budget is not kept.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) {
        self.remove(&key);
        if bytes > self.bytes_max {
            return;
        }
        let node = Some(Node { key, value, bytes, newer: NONE, older: NONE });
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.index.insert(key, at);
        self.link_newest(at);
        self.bytes += bytes;
        while self.bytes > self.bytes_max {
            if self.pop_oldest().is_none() {
                return;
            }
        }
    }

    /// Removes the least recently used value.
    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        let key = self.nodes.get(self.oldest as usize)?.as_ref()?.key;
        self.remove(&key).map(|value| (key, value))
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.index.remove(key)?;
        self.unlink(at);
        let node = self.nodes[at as usize].take()?;
        self.free.push(at);
        self.bytes -= node.bytes;
        Some(node.value)
    }

    /// Removes the keys for which `is_gone` returns true; returns their values.
    pub fn remove_all(&mut self, is_gone: impl Fn(&K) -> bool) -> Vec<V> {
        let gone: Vec<K> = self.index.keys().filter(|key| is_gone(key)).copied().collect();
        gone.iter().filter_map(|key| self.remove(key)).collect()
    }

    /// Weight of all values in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the map is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node<K, V>> {
        self.nodes.get_mut(at as usize)?.as_mut()
    }

    fn link_newest(&mut self, at: u32) {
        let newest = self.newest;
        if let Some(node) = self.node_mut(at) {
            (node.newer, node.older) = (NONE, newest);
        }
        match self.node_mut(newest) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some((newer, older)) = self.node_mut(at).map(|n| (n.newer, n.older)) else { return };
        match self.node_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.node_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_what_a_naive_list_keeps(operations in prop::collection::vec((0u8..4, 0u8..20, 1u64..30), 0..400)) {
            let mut map = LruMap::new(100);
            let mut model: Vec<(u8, u64)> = Vec::new();
            for (operation, key, bytes) in operations {
                match operation {
                    0 | 1 => {
                        map.insert(key, bytes, bytes);
                        model.retain(|e| e.0 != key);
                        model.push((key, bytes));
                        while model.iter().map(|e| e.1).sum::<u64>() > 100 {
                            model.remove(0);
                        }
                    }
                    2 => {
                        let found = model.iter().position(|e| e.0 == key).map(|at| model.remove(at));
                        prop_assert_eq!(map.get(&key).copied(), found.map(|e| e.1));
                        model.extend(found);
                    }
                    _ => {
                        let found = model.iter().position(|e| e.0 == key).map(|at| model.remove(at).1);
                        prop_assert_eq!(map.remove(&key), found);
                    }
                }
                prop_assert_eq!((map.len(), map.bytes()), (model.len(), model.iter().map(|e| e.1).sum()));
                prop_assert!(model.iter().all(|e| map.peek(&e.0) == Some(&e.1)));
            }
        }
    }
}
