//! Belady's optimum ("A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2),
//! 1966): evicts the object whose next request is last. It knows the future, and no policy that admits every miss has
//! fewer misses.

use super::Misses;
use hashbrown::HashMap;
use std::collections::BinaryHeap;

/// The next use of an object that is not requested again.
const NEVER: u32 = u32::MAX;

/// The misses of the optimum with `capacity` objects, at least 1, over requests for `names`. It takes 17 bytes for each
/// request and some 40 for each object. Requests beyond 2³² - 2 are ignored.
#[must_use]
pub fn belady(names: &[u64], capacity: u32) -> Misses {
    let hits = belady_hits(names, capacity);
    Misses { requests: hits.len() as u64, misses: hits.iter().filter(|hit| !**hit).count() as u64 }
}

/// For each request: whether its object is cached.
pub(crate) fn belady_hits(names: &[u64], capacity: u32) -> Vec<bool> {
    let names = &names[..names.len().min(NEVER as usize - 1)];
    let next = next_uses(names);
    let capacity = capacity.max(1) as usize;
    // The next request for each cached object; entries of the heap that differ are stale.
    let mut cached: HashMap<u64, u32> = HashMap::with_capacity(capacity.min(names.len()) + 1);
    let mut by_next: BinaryHeap<(u32, u64)> = BinaryHeap::new();
    let mut hits = Vec::with_capacity(names.len());
    for (name, next) in names.iter().zip(next) {
        let hit = cached.insert(*name, next).is_some();
        while cached.len() > capacity {
            let Some((use_at, victim)) = by_next.pop() else { break };
            if cached.get(&victim) == Some(&use_at) && victim != *name {
                cached.remove(&victim);
            }
        }
        by_next.push((next, *name));
        hits.push(hit);
    }
    hits
}

/// For each request: the number of the next request for the same object.
fn next_uses(names: &[u64]) -> Vec<u32> {
    let mut next = vec![NEVER; names.len()];
    let mut seen: HashMap<u64, u32> = HashMap::new();
    for (number, name) in names.iter().enumerate().rev() {
        if let Some(later) = seen.insert(*name, number as u32) {
            next[number] = later;
        }
    }
    next
}
