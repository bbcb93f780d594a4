//! Nodes with names, linked into lists by their numbers.

use super::table::Table;

/// The number for "no node".
pub const NONE: u32 = u32::MAX;

/// A name with its neighbours in a list; 16 bytes.
#[derive(Debug, Clone, Copy)]
struct Node {
    name: u64,
    newer: u32,
    older: u32,
}

/// A list of nodes, from the newest to the oldest.
#[derive(Debug, Clone, Copy)]
pub struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }
}

impl List {
    /// The number of nodes in the list.
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The newest node.
    pub const fn newest(&self) -> u32 {
        self.newest
    }

    /// The oldest node.
    pub const fn oldest(&self) -> u32 {
        self.oldest
    }
}

/// Nodes with names, each in at most one list.
#[derive(Debug, Clone)]
pub struct Nodes {
    table: Table,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl Nodes {
    /// Room for `capacity` nodes; it grows when needed.
    pub fn new(capacity: u32) -> Self {
        Self { table: Table::new(capacity), nodes: Vec::with_capacity(capacity as usize), free: Vec::new() }
    }

    /// The node with this name.
    #[inline]
    pub fn find(&self, name: u64) -> Option<u32> {
        self.table.find(name, |node| self.nodes[node as usize].name == name)
    }

    /// The name of a node.
    #[inline]
    pub fn name(&self, node: u32) -> u64 {
        self.nodes[node as usize].name
    }

    /// Adds a node with a new name; it is in no list.
    #[inline]
    pub fn add(&mut self, name: u64) -> u32 {
        let fresh = Node { name, newer: NONE, older: NONE };
        let node = match self.free.pop() {
            Some(node) => {
                self.nodes[node as usize] = fresh;
                node
            }
            None => {
                self.nodes.push(fresh);
                self.table.reserve(self.nodes.len() as u32);
                (self.nodes.len() - 1) as u32
            }
        };
        self.table.insert(name, node);
        node
    }

    /// Gives a node that is in no list another, new name.
    #[inline]
    pub fn rename(&mut self, node: u32, name: u64) {
        let old = std::mem::replace(&mut self.nodes[node as usize].name, name);
        self.table.remove(old, node);
        self.table.insert(name, node);
    }

    /// Removes a node that is in no list.
    pub fn drop_node(&mut self, node: u32) {
        self.table.remove(self.name(node), node);
        self.free.push(node);
    }

    /// Adds a node that is in no list as the newest of `list`.
    #[inline]
    pub fn push(&mut self, list: &mut List, node: u32) {
        let newest = list.newest;
        let own = &mut self.nodes[node as usize];
        (own.newer, own.older) = (NONE, newest);
        match self.nodes.get_mut(newest as usize) {
            Some(next) => next.newer = node,
            None => list.oldest = node,
        }
        list.newest = node;
        list.len += 1;
    }

    /// Moves a node to the oldest end of its list.
    pub fn demote(&mut self, list: &mut List, node: u32) {
        if list.oldest == node {
            return;
        }
        self.unlink(list, node);
        let oldest = list.oldest;
        let own = &mut self.nodes[node as usize];
        (own.newer, own.older) = (oldest, NONE);
        match self.nodes.get_mut(oldest as usize) {
            Some(last) => last.older = node,
            None => list.newest = node,
        }
        list.oldest = node;
        list.len += 1;
    }

    /// Removes a node from its list.
    #[inline]
    pub fn unlink(&mut self, list: &mut List, node: u32) {
        let Node { newer, older, .. } = self.nodes[node as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(next) => next.older = older,
            None => list.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(next) => next.newer = newer,
            None => list.oldest = newer,
        }
        list.len -= 1;
    }

    /// Removes the oldest node of a list.
    #[inline]
    pub fn pop_oldest(&mut self, list: &mut List) -> Option<u32> {
        let node = list.oldest;
        if node == NONE {
            return None;
        }
        self.unlink(list, node);
        Some(node)
    }

    /// Moves a node to the newest end of its list.
    #[inline]
    pub fn refresh(&mut self, list: &mut List, node: u32) {
        if list.newest != node {
            self.unlink(list, node);
            self.push(list, node);
        }
    }

    /// Reads the memory that a look-up of each of `names`, and relinking it, will access. Reads for different names
    /// overlap, while those for one name depend on each other, so the later look-ups take a fraction of the time.
    #[inline]
    pub fn warm<const N: usize>(&self, names: &[u64; N]) {
        let mut guesses = [NONE; N];
        for (guess, name) in guesses.iter_mut().zip(names) {
            *guess = self.table.guess(*name).unwrap_or(NONE);
        }
        let mut links = [(NONE, NONE); N];
        for (link, guess) in links.iter_mut().zip(guesses) {
            if let Some(node) = self.nodes.get(guess as usize) {
                *link = (node.newer, node.older);
            }
        }
        let mut sum = 0;
        for (newer, older) in links {
            sum ^= self.nodes.get(newer as usize).map_or(0, |node| node.older);
            sum ^= self.nodes.get(older as usize).map_or(0, |node| node.newer);
        }
        std::hint::black_box(sum);
    }

    /// RAM in bytes.
    pub fn ram_bytes(&self) -> usize {
        self.table.ram_bytes() + self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * size_of::<u32>()
    }
}
