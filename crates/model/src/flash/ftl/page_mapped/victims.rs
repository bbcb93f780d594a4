//! Which block garbage collection reclaims.

use crate::BlockId;
use crate::flash::lists::Lists;
use serde::Serialize;

/// The rule by which a block is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The block with the fewest valid pages; of several, the one unchanged for longest.
    Greedy,
    /// The highest (1 - u) / 2u × age, where u is the valid share and age the writes since a page of the block became
    /// invalid (Kawaguchi, Nishioka and Motoda, "A flash-memory based file system", 1995).
    CostBenefit,
}

/// Full blocks in a list for each number of valid pages. A block goes to the back of its list when that number changes, so
/// the front of a list is the one unchanged for longest: of those with as many valid pages, the one of most benefit.
#[derive(Debug)]
pub(super) struct Victims {
    policy: VictimPolicy,
    by_valid: Lists,
    block_pages: u32,
    /// No block has fewer valid pages.
    fewest: u32,
    /// Writes of the host when a block last changed; only kept for cost-benefit.
    changed: Vec<u64>,
}

impl Victims {
    pub(super) fn new(policy: VictimPolicy, blocks: u32, block_pages: u32) -> Self {
        let changed = if policy == VictimPolicy::CostBenefit { vec![0; blocks as usize] } else { Vec::new() };
        Self { policy, by_valid: Lists::new(blocks, block_pages + 1), block_pages, fewest: 0, changed }
    }

    /// A block is full.
    pub(super) fn add(&mut self, block: BlockId, valid: u32, now: u64) {
        self.by_valid.push_back(valid, block.0);
        self.fewest = self.fewest.min(valid);
        if let Some(changed) = self.changed.get_mut(block.index()) {
            *changed = now;
        }
    }

    /// A page of a block became invalid.
    pub(super) fn note(&mut self, block: BlockId, valid: u32, now: u64) {
        if self.by_valid.contains(block.0) {
            self.add(block, valid, now);
        }
    }

    /// Chooses a block, which is no candidate any more.
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

    /// A full block without garbage is of none, however old.
    fn benefit(&self, block: u32, valid: u32, now: u64) -> f64 {
        let used = f64::from(valid) / f64::from(self.block_pages);
        let age = (now - self.changed[block as usize] + 1) as f64;
        (1.0 - used) / (2.0 * used) * age
    }
}
