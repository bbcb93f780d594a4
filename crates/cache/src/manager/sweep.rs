//! The background cleaner: removes dup entries and fingerprints whose WEU has been evicted or refilled (paper §3,
//! "Cleaning the file index"), in bounded steps.
//!
//! Each eviction adds a share of a pass to the cleaner's work, so that a pass ends within an eighth of a turnover of
//! the cache, or with a lean index a sixteenth: stale entries take at most about that share of the indexes.

use super::{CacheManager, target_is_current};
use crate::fingerprint_index::{FingerprintIndex, GENERATION_LAP};
use crate::gone::Gone;
use crate::settings::IndexKind;
use crate::tag_index::TagIndex;

/// Number of dups examined in one step.
const DUPS_PER_STEP: u32 = 512;

/// The progress of the cleaner.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Number of steps that are due.
    debt: u64,
    /// The next step of the pass: first the shards of the fingerprint indexes, then the dups.
    at: u64,
    /// Number of passes begun, which is the number of the pass in progress.
    pass: u64,
    evictions_per_pass: u64,
}

impl Sweep {
    pub(crate) fn new(weus: u32, index: IndexKind) -> Self {
        let passes = match index {
            IndexKind::Exact => 8,
            IndexKind::Lean => 16,
        };
        Self { debt: 0, at: 0, pass: 1, evictions_per_pass: u64::from(weus / passes).max(1) }
    }

    /// The number of the pass in progress.
    pub(crate) const fn pass(&self) -> u64 {
        self.pass
    }

    pub(crate) fn owe(&mut self, units: u64) {
        self.debt = (self.debt + units.div_ceil(self.evictions_per_pass)).min(2 * units);
    }
}

impl CacheManager {
    /// Steps of a whole pass.
    pub(crate) fn sweep_units(&self) -> u64 {
        let (whole, tags) = self.fingerprint_shards();
        whole + tags + u64::from(self.dups.capacity().div_ceil(DUPS_PER_STEP))
    }

    /// Executes one bounded step of cleaning, if any is due; returns whether more are.
    pub fn clean_step(&mut self) -> bool {
        if self.sweep.debt == 0 {
            return false;
        }
        self.sweep.debt -= 1;
        self.sweep_step();
        self.sweep.debt > 0
    }

    fn sweep_step(&mut self) {
        let (whole, tags) = self.fingerprint_shards();
        let at = self.sweep.at;
        if at < whole {
            self.sweep_fingerprints(at as usize);
        } else if at < whole + tags {
            self.sweep_tags((at - whole) as usize);
        } else {
            self.sweep_dups((at - whole - tags) as u32 * DUPS_PER_STEP);
        }
        self.sweep.at += 1;
        if self.sweep.at >= self.sweep_units() {
            (self.sweep.at, self.sweep.pass) = (0, self.sweep.pass + 1);
            self.forwardings.clean(self.sweep.pass);
        }
    }

    /// The number of shards of whole fingerprints, and of tags.
    fn fingerprint_shards(&self) -> (u64, u64) {
        let whole = self.fingerprints.as_ref().map_or(0, FingerprintIndex::shard_count);
        (whole as u64, self.tags.as_ref().map_or(0, TagIndex::shard_count) as u64)
    }

    fn sweep_fingerprints(&mut self, shard: usize) {
        let weus = &self.weus;
        if let Some(index) = self.fingerprints.as_mut() {
            let (_, removed) = index.retain_shard(shard, |target| target_is_current(weus, target));
            self.stats.fingerprints_cleaned += removed as u64;
        }
    }

    fn sweep_dups(&mut self, first: u32) {
        for number in first..(first + DUPS_PER_STEP).min(self.dups.capacity()) {
            let Some(dup) = self.dups.get(number) else { continue };
            if !self.repair(number) {
                self.drop_stale(dup.key, number);
                self.note_gone(dup.key, Gone::Evicted);
                self.stats.dups_cleaned += 1;
            }
        }
    }

    /// Fingerprint slots have generations modulo [`GENERATION_LAP`]. Before a slot's generation begins half a lap, a
    /// whole pass must have been run since it began the last one. This is nearly always the case; if not, the pass is
    /// run here.
    pub(crate) fn finish_lap(&mut self) {
        let Some((weu, next, lap_sweep)) = self.weus.next_free() else { return };
        if next.0 % (GENERATION_LAP / 2) != 0 {
            return;
        }
        while self.sweep.pass < lap_sweep + 2 {
            self.sweep_step();
        }
        let pass = self.sweep.pass;
        self.weus.set_lap_sweep(weu, pass);
    }
}
