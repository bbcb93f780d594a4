//! ARC: adaptive replacement (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003,
//! Figure 4).

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// The four lists of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum In {
    /// Cached; seen once recently.
    T1,
    /// Cached; seen at least twice recently.
    T2,
    /// Not cached; seen once recently.
    B1,
    /// Not cached; seen at least twice recently.
    B2,
}

/// An ARC cache.
#[derive(Debug, Clone)]
pub struct Arc {
    nodes: Nodes,
    lists: [List; 4],
    place: Vec<In>,
    /// The target size of T1: the paper's p, a real number, because it is adapted by quotients of list sizes.
    target: f64,
    capacity: u32,
}

impl Arc {
    /// A cache of `capacity` objects, at least 1, with the names of as many more.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.clamp(1, u32::MAX / 4);
        let nodes = Nodes::new(2 * capacity + 1);
        let place = vec![In::T1; 2 * capacity as usize + 1];
        Self { nodes, lists: [List::default(); 4], place, target: 0.0, capacity }
    }

    const fn size(&self, list: In) -> u32 {
        self.lists[list as usize].len()
    }

    fn put(&mut self, node: u32, list: In) {
        self.place[node as usize] = list;
        self.nodes.push(&mut self.lists[list as usize], node);
    }

    fn shift(&mut self, node: u32, to: In) {
        let from = self.place[node as usize];
        self.nodes.unlink(&mut self.lists[from as usize], node);
        self.put(node, to);
    }

    fn forget_oldest(&mut self, list: In) {
        if let Some(node) = self.nodes.pop_oldest(&mut self.lists[list as usize]) {
            self.nodes.drop_node(node);
        }
    }

    /// The paper's REPLACE: evicts an object and keeps its name.
    fn replace(&mut self, asked_in_b2: bool) {
        let t1 = f64::from(self.size(In::T1));
        // "|T1| = p" as in the paper; after a fractional step they are seldom equal.
        #[expect(clippy::float_cmp, reason = "the paper compares a real number")]
        if t1 > 0.0 && (t1 > self.target || asked_in_b2 && t1 == self.target) {
            self.shift(self.lists[In::T1 as usize].oldest(), In::B1);
        } else if self.size(In::T2) > 0 {
            self.shift(self.lists[In::T2 as usize].oldest(), In::B2);
        }
    }

    /// Case IV of the paper: the object is in none of the lists.
    fn admit(&mut self, name: u64) {
        let (l1, l2) = (self.size(In::T1) + self.size(In::B1), self.size(In::T2) + self.size(In::B2));
        if l1 == self.capacity {
            if self.size(In::T1) < self.capacity {
                self.forget_oldest(In::B1);
                self.replace(false);
            } else {
                self.forget_oldest(In::T1);
            }
        } else if l1 + l2 >= self.capacity {
            if l1 + l2 == 2 * self.capacity {
                self.forget_oldest(In::B2);
            }
            self.replace(false);
        }
        let node = self.nodes.add(name);
        self.put(node, In::T1);
    }
}

impl Policy for Arc {
    fn access(&mut self, name: u64) -> bool {
        let Some(node) = self.nodes.find(name) else {
            self.admit(name);
            return false;
        };
        let (b1, b2) = (f64::from(self.size(In::B1)), f64::from(self.size(In::B2)));
        match self.place[node as usize] {
            In::T1 | In::T2 => {
                self.shift(node, In::T2);
                true
            }
            In::B1 => {
                self.target = (self.target + (b2 / b1).max(1.0)).min(f64::from(self.capacity));
                self.replace(false);
                self.shift(node, In::T2);
                false
            }
            In::B2 => {
                self.target = (self.target - (b1 / b2).max(1.0)).max(0.0);
                self.replace(true);
                self.shift(node, In::T2);
                false
            }
        }
    }

    fn has(&self, name: u64) -> bool {
        self.nodes.find(name).is_some_and(|node| matches!(self.place[node as usize], In::T1 | In::T2))
    }

    fn access_batch(&mut self, names: &[u64; BATCH]) -> u64 {
        self.nodes.warm(names);
        names.iter().map(|name| u64::from(self.access(*name))).sum()
    }

    fn len(&self) -> u64 {
        u64::from(self.size(In::T1)) + u64::from(self.size(In::T2))
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes() + self.place.len()
    }
}
