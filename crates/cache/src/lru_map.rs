//! A map with a byte budget and exact least-recently-used replacement, used for the RAM cache and for samples of
//! policies. Its values may be in several ranks: the lowest rank is evicted first.

use std::collections::HashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;
/// The number of ranks.
pub(crate) const RANKS: usize = 4;

struct Node<K, V> {
    key: K,
    value: V,
    bytes: u64,
    newer: u32,
    older: u32,
    rank: u8,
}

/// The map. Values have a weight in bytes; the total stays within the budget.
pub struct LruMap<K, V> {
    index: HashMap<K, u32>,
    nodes: Vec<Option<Node<K, V>>>,
    free: Vec<u32>,
    /// Of each rank.
    newest: [u32; RANKS],
    oldest: [u32; RANKS],
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
        Self { index, nodes, free, newest: [NONE; RANKS], oldest: [NONE; RANKS], bytes: 0, bytes_max }
    }

    /// The value of a key, which becomes the most recently used of its rank.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let at = *self.index.get(key)?;
        if !self.newest.contains(&at) {
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

    /// As [`insert_ranked`](Self::insert_ranked), with the lowest rank.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) {
        self.insert_ranked(key, value, bytes, 0);
    }

    /// Inserts or replaces a value, then evicts the least recently used ones of the lowest rank until the total is within
    /// the budget; this may be the new value. A value larger than the budget is not kept. Ranks above 3 count as 3.
    pub fn insert_ranked(&mut self, key: K, value: V, bytes: u64, rank: usize) {
        self.remove(&key);
        if bytes > self.bytes_max {
            return;
        }
        let node = Some(Node { key, value, bytes, newer: NONE, older: NONE, rank: rank.min(RANKS - 1) as u8 });
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

    /// Removes the least recently used value of the lowest rank.
    pub fn pop_oldest(&mut self) -> Option<(K, V)> {
        let oldest = self.oldest.into_iter().find(|at| *at != NONE)?;
        let key = self.nodes.get(oldest as usize)?.as_ref()?.key;
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

    fn rank(&self, at: u32) -> Option<usize> {
        Some(usize::from(self.nodes.get(at as usize)?.as_ref()?.rank))
    }

    fn node_mut(&mut self, at: u32) -> Option<&mut Node<K, V>> {
        self.nodes.get_mut(at as usize)?.as_mut()
    }

    fn link_newest(&mut self, at: u32) {
        let Some(rank) = self.rank(at) else { return };
        let newest = self.newest[rank];
        if let Some(node) = self.node_mut(at) {
            (node.newer, node.older) = (NONE, newest);
        }
        match self.node_mut(newest) {
            Some(node) => node.newer = at,
            None => self.oldest[rank] = at,
        }
        self.newest[rank] = at;
    }

    fn unlink(&mut self, at: u32) {
        let Some(rank) = self.rank(at) else { return };
        let Some((newer, older)) = self.node_mut(at).map(|n| (n.newer, n.older)) else { return };
        match self.node_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest[rank] = older,
        }
        match self.node_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest[rank] = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keeps_what_a_naive_list_keeps(operations in prop::collection::vec((0u8..4, 0u8..20, 1u64..30, 0usize..3), 0..400)) {
            let mut map = LruMap::new(100);
            let mut model: Vec<(u8, u64, usize)> = Vec::new();
            for (operation, key, bytes, rank) in operations {
                match operation {
                    0 | 1 => {
                        map.insert_ranked(key, bytes, bytes, rank);
                        model.retain(|e| e.0 != key);
                        model.push((key, bytes, rank));
                        while model.iter().map(|e| e.1).sum::<u64>() > 100 {
                            let lowest = model.iter().map(|e| e.2).min();
                            model.remove(model.iter().position(|e| Some(e.2) == lowest).unwrap());
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
