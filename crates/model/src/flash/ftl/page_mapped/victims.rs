//! The choice of the block that garbage collection reclaims.

use crate::BlockId;
use crate::flash::lists::Lists;
use serde::Serialize;

/// The rule by which a block is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The block with the fewest valid pages; among equals, the one unchanged for longest.
    Greedy,
    /// The block with the highest (1 - u) / 2u × age: u is the valid share of the block, and age counts the host's
    /// writes since a page of the block last became invalid (Kawaguchi, Nishioka and Motoda, "A flash-memory based file
    /// system", 1995).
    CostBenefit,
}

/// Full blocks, in one list for each number of valid pages. A block moves to the back of its new list when that number
/// changes, so the front of a list is the block unchanged for longest: among blocks with as many valid pages, the one
/// with the highest benefit.
#[derive(Debug)]
pub(super) struct Victims {
    policy: VictimPolicy,
    by_valid: Lists,
    block_pages: u32,
    /// No block has fewer valid pages than this.
    fewest: u32,
    /// The host's writes at the last change of each block; only kept for [`VictimPolicy::CostBenefit`].
    changed: Vec<u64>,
}

impl Victims {
    pub(super) fn new(policy: VictimPolicy, blocks: u32, block_pages: u32) -> Self {
        let changed = if policy == VictimPolicy::CostBenefit { vec![0; blocks as usize] } else { Vec::new() };
        Self { policy, by_valid: Lists::new(blocks, block_pages + 1), block_pages, fewest: 0, changed }
    }

    /// Adds a full block.
    pub(super) fn add(&mut self, block: BlockId, valid: u32, now: u64) {
        self.by_valid.push_back(valid, block.0);
        self.fewest = self.fewest.min(valid);
        if let Some(changed) = self.changed.get_mut(block.index()) {
            *changed = now;
        }
    }

    /// A page of a block became invalid: moves the block to the list of its new number of valid pages.
    pub(super) fn note(&mut self, block: BlockId, valid: u32, now: u64) {
        if self.by_valid.contains(block.0) {
            self.add(block, valid, now);
        }
    }

    /// Chooses a block and removes it.
    pub(super) fn take(&mut self, now: u64) -> Option<BlockId> {
        let fewest = (self.fewest..=self.block_pages).find(|valid| self.by_valid.front(*valid).is_some())?;
        self.fewest = fewest;
        let block = match self.policy {
            VictimPolicy::Greedy => self.by_valid.front(fewest)?,
            VictimPolicy::CostBenefit if fewest == 0 => self.by_valid.front(0)?,
            VictimPolicy::CostBenefit => {
                (fewest..=self.block_pages)
                    .filter_map(|valid| {
                        self.by_valid.front(valid).map(|block| (self.benefit(block, valid, now), block))
                    })
                    .max_by(|a, b| a.0.total_cmp(&b.0))?
                    .1
            }
        };
        self.by_valid.remove(block);
        Some(BlockId(block))
    }

    /// The benefit of reclaiming a block; 0 for a block without garbage, at any age.
    fn benefit(&self, block: u32, valid: u32, now: u64) -> f64 {
        let used = f64::from(valid) / f64::from(self.block_pages);
        let age = (now - self.changed[block as usize] + 1) as f64;
        (1.0 - used) / (2.0 * used) * age
    }
}
