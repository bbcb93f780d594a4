//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, Algorithm 1): a small queue that
//! most objects pass through once, a main queue with second chances, and the names of objects evicted from the small
//! queue.

use super::nodes::{List, Nodes};
use super::{BATCH, Policy};

/// The maximum count of uses.
const USES_MAX: u8 = 3;
/// An object that was used at least this often moves from the small queue to the main queue.
const USES_TO_MOVE: u8 = 2;

/// The queue of an object or its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum In {
    Small,
    Main,
    Ghost,
}

/// An S3-FIFO cache: the small queue is a tenth of it, and at most as many names are kept as the main queue has
/// objects.
#[derive(Debug, Clone)]
pub struct S3Fifo {
    nodes: Nodes,
    lists: [List; 3],
    state: Vec<(In, u8)>,
    capacity: u32,
    small_max: u32,
}

impl S3Fifo {
    /// A cache of `capacity` objects, at least 1.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        let capacity = capacity.clamp(1, u32::MAX / 4);
        let nodes = Nodes::new(2 * capacity + 1);
        let state = vec![(In::Small, 0); 2 * capacity as usize + 1];
        Self { nodes, lists: [List::default(); 3], state, capacity, small_max: (capacity / 10).max(1) }
    }

    const fn size(&self, list: In) -> u32 {
        self.lists[list as usize].len()
    }

    fn put(&mut self, node: u32, list: In) {
        self.state[node as usize] = (list, 0);
        self.nodes.push(&mut self.lists[list as usize], node);
    }

    fn pop(&mut self, list: In) -> Option<u32> {
        self.nodes.pop_oldest(&mut self.lists[list as usize])
    }

    fn evict(&mut self) {
        if self.size(In::Small) >= self.small_max || self.size(In::Main) == 0 {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        while let Some(node) = self.pop(In::Small) {
            if self.state[node as usize].1 >= USES_TO_MOVE {
                self.put(node, In::Main);
                if self.size(In::Main) > self.capacity - self.small_max.min(self.capacity - 1) {
                    return self.evict_main();
                }
                continue;
            }
            if self.size(In::Ghost) >= (self.capacity - self.small_max).max(1)
                && let Some(oldest) = self.pop(In::Ghost)
            {
                self.nodes.drop_node(oldest);
            }
            return self.put(node, In::Ghost);
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(node) = self.pop(In::Main) {
            let uses = self.state[node as usize].1;
            if uses == 0 {
                return self.nodes.drop_node(node);
            }
            self.put(node, In::Main);
            self.state[node as usize].1 = uses - 1;
        }
    }
}

impl Policy for S3Fifo {
    fn access(&mut self, name: u64) -> bool {
        let found = self.nodes.find(name);
        if let Some(node) = found {
            let (place, uses) = &mut self.state[node as usize];
            if *place != In::Ghost {
                *uses = (*uses + 1).min(USES_MAX);
                return true;
            }
            // The name is removed first, so that making room does not drop its node.
            self.nodes.unlink(&mut self.lists[In::Ghost as usize], node);
        }
        while self.len() >= u64::from(self.capacity) {
            self.evict();
        }
        match found {
            Some(node) => self.put(node, In::Main),
            None => {
                let node = self.nodes.add(name);
                self.put(node, In::Small);
            }
        }
        false
    }

    fn has(&self, name: u64) -> bool {
        self.nodes.find(name).is_some_and(|node| self.state[node as usize].0 != In::Ghost)
    }

    fn access_batch(&mut self, names: &[u64; BATCH]) -> u64 {
        self.nodes.warm(names);
        names.iter().map(|name| u64::from(self.access(*name))).sum()
    }

    fn len(&self) -> u64 {
        u64::from(self.size(In::Small)) + u64::from(self.size(In::Main))
    }

    fn ram_bytes(&self) -> usize {
        self.nodes.ram_bytes() + self.state.len() * size_of::<(In, u8)>()
    }
}
