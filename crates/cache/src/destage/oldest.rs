//! Destages by the time at which extents became dirty.

use super::{Destage, DirtyExtents};
use nitro_units::ExtentIndex;
use std::collections::BTreeSet;

/// The queue is cleaned up when it has more entries than twice the dirty extents plus this number.
const STALE_MAX: usize = 1024;
/// RAM of an entry, with the slack of the tree.
const ENTRY_BYTES: usize = 48;

/// Returns the extents in the order in which they became dirty.
#[derive(Debug, Default)]
pub struct Oldest {
    /// Each extent with the second since which it is dirty. An entry is void if its extent is clean now, or is dirty
    /// since another second.
    queue: BTreeSet<(u32, ExtentIndex)>,
    /// The entries that this pass has returned.
    given: BTreeSet<(u32, ExtentIndex)>,
}

impl Oldest {
    pub(super) const fn ram_bytes_max(dirty: u64) -> u64 {
        (2 * dirty + STALE_MAX as u64) * ENTRY_BYTES as u64
    }

    /// Removes void entries, if there are many.
    fn tidy(&mut self, dirty: DirtyExtents<'_>) {
        if self.queue.len() + self.given.len() > 2 * dirty.len() + STALE_MAX {
            let is_valid = |(since, index): &(u32, ExtentIndex)| dirty.since(*index) == Some(*since);
            self.queue.retain(is_valid);
            self.given.retain(is_valid);
        }
    }
}

impl Destage for Oldest {
    fn dirtied(&mut self, index: ExtentIndex, since: u32) {
        self.queue.insert((since, index));
    }

    fn next(&mut self, dirty: DirtyExtents<'_>, before: u32, count: usize) -> Vec<ExtentIndex> {
        self.tidy(dirty);
        let mut chosen = Vec::new();
        while chosen.len() < count
            && let Some(entry) = self.queue.first().copied().filter(|(since, _)| *since <= before)
        {
            self.queue.remove(&entry);
            if dirty.since(entry.1) == Some(entry.0) {
                chosen.push(entry.1);
                self.given.insert(entry);
            }
        }
        if chosen.is_empty() {
            self.queue.append(&mut self.given);
        }
        chosen
    }

    fn ram_bytes(&self) -> usize {
        (self.queue.len() + self.given.len()) * ENTRY_BYTES
    }
}
