//! Belady's optimum ("A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966): what is asked for
//! again last goes first. It knows the future, and no policy that admits every miss does better.

use super::Misses;
use hashbrown::HashMap;
use std::collections::BinaryHeap;

/// A request that is not repeated.
const NEVER: u32 = u32::MAX;

/// Misses of the optimum with room for `capacity` objects, at least 1, over requests for `names`; 17 bytes a request and
/// some 40 an object. Requests beyond 2³² - 2 are left out.
#[must_use]
pub fn belady(names: &[u64], capacity: u32) -> Misses {
    let hits = belady_hits(names, capacity);
    Misses { requests: hits.len() as u64, misses: hits.iter().filter(|hit| !**hit).count() as u64 }
}

/// For each request whether its object is there.
pub(crate) fn belady_hits(names: &[u64], capacity: u32) -> Vec<bool> {
    let names = &names[..names.len().min(NEVER as usize - 1)];
    let next = next_uses(names);
    let capacity = capacity.max(1) as usize;
    // When each cached object is asked for next: entries of the heap that say otherwise are stale.
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

/// For each request the number of the next one for the same object.
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
