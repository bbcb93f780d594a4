//! Sets with many ways: one hash table over all keys, and a list in LRU order for each set and level.

use crate::model::door::Level;
use crate::policies::nodes::{List, Nodes};

/// Sets with any number of ways. The number of a key's node is its place on the SSD.
pub(super) struct Linked {
    nodes: Nodes,
    sets: Vec<List>,
    /// The lists of the first level; empty without levels.
    first: Vec<List>,
    /// Whether each node is of the first level; empty without levels.
    is_first: Vec<bool>,
    ways: u32,
}

impl Linked {
    /// `sets` × `ways` must be at most 2³² - 2.
    pub(super) fn new(sets: u64, ways: u32, has_levels: bool) -> Self {
        let places = u32::try_from(sets * u64::from(ways)).unwrap_or(u32::MAX - 1);
        let lists = vec![List::default(); sets as usize];
        let (first, is_first) = match has_levels {
            true => (lists.clone(), vec![false; places as usize]),
            false => (Vec::new(), Vec::new()),
        };
        Self { nodes: Nodes::new(places), sets: lists, first, is_first, ways }
    }

    /// The level of a node.
    fn level(&self, node: u32) -> Level {
        let is_first = self.is_first.get(node as usize).is_some_and(|is_first| *is_first);
        if is_first { Level::First } else { Level::Second }
    }

    /// The list of a set for a level.
    fn list(&mut self, set: u64, level: Level) -> (&mut Nodes, &mut List) {
        let lists = if level == Level::First { &mut self.first } else { &mut self.sets };
        (&mut self.nodes, &mut lists[set as usize])
    }

    /// The node that the next new key replaces: the oldest of the second level, or else of the first. `None`: the set
    /// has a free place.
    fn next(&self, set: u64) -> Option<u32> {
        let (second, first) = (&self.sets[set as usize], self.first.get(set as usize));
        let len = second.len() + first.map_or(0, List::len);
        let oldest = if second.len() > 0 { Some(second.oldest()) } else { first.map(List::oldest) };
        oldest.filter(|_| len >= self.ways)
    }

    pub(super) fn victim(&self, set: u64) -> Option<(u64, Level)> {
        self.next(set).map(|node| (self.nodes.name(node), self.level(node)))
    }

    pub(super) fn refresh(&mut self, set: u64, key: u64) -> Option<u64> {
        let node = self.nodes.find(key)?;
        let (nodes, list) = self.list(set, self.level(node));
        nodes.refresh(list, node);
        Some(node.into())
    }

    pub(super) fn insert(&mut self, set: u64, key: u64, level: Level) -> (u64, Option<u64>) {
        let known = self.nodes.find(key);
        let (node, old) = match known.or_else(|| self.next(set)) {
            None => (self.nodes.add(key), None),
            Some(node) => {
                let (nodes, list) = self.list(set, self.level(node));
                nodes.unlink(list, node);
                let old = nodes.name(node);
                if known.is_none() {
                    nodes.rename(node, key);
                }
                (node, Some(old))
            }
        };
        if let Some(is_first) = self.is_first.get_mut(node as usize) {
            *is_first = level == Level::First;
        }
        let (nodes, list) = self.list(set, level);
        nodes.push(list, node);
        (node.into(), old)
    }

    pub(super) fn forget(&mut self, set: u64, key: u64) -> bool {
        let Some(node) = self.nodes.find(key) else { return false };
        let (nodes, list) = self.list(set, self.level(node));
        nodes.unlink(list, node);
        nodes.drop_node(node);
        true
    }

    pub(super) fn has(&self, key: u64) -> bool {
        self.nodes.find(key).is_some()
    }

    pub(super) fn ram_bytes(&self) -> usize {
        let lists = self.sets.capacity() + self.first.capacity();
        self.nodes.ram_bytes() + lists * size_of::<List>() + self.is_first.capacity()
    }
}
