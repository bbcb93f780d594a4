//! Belady's optimum ("A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5(2), 1966): what is asked for
//! again last goes first. It knows the future, and no policy that admits every miss does better.

use super::Misses;
use hashbrown::HashMap;
use std::collections::BinaryHeap;

/// A request that is not repeated.
const NEVER: u32 = u32::MAX;

/// Misses of the optimum with room for `capacity` objects, at least 1, over requests for `names`; 16 bytes a request and
/// some 40 an object. Requests beyond 2³² - 2 are left out.
#[must_use]
pub fn belady(names: &[u64], capacity: u32) -> Misses {
    let names = &names[..names.len().min(NEVER as usize - 1)];
    let next = next_uses(names);
    let capacity = capacity.max(1) as usize;
    // The number of the next request for each cached object, by its last one: entries of older requests are stale.
    let mut cached: HashMap<u64, u32> = HashMap::with_capacity(capacity + 1);
    let mut by_next: BinaryHeap<(u32, u64)> = BinaryHeap::new();
    let mut misses = 0;
    for (name, next) in names.iter().zip(next) {
        if cached.insert(*name, next).is_none() {
            misses += 1;
            while cached.len() > capacity {
                let Some((use_at, victim)) = by_next.pop() else { break };
                if cached.get(&victim) == Some(&use_at) && victim != *name {
                    cached.remove(&victim);
                }
            }
        }
        by_next.push((next, *name));
    }
    Misses { requests: names.len() as u64, misses }
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
