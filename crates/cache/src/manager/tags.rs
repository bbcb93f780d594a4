//! The lean fingerprint index: what its tags find is a *candidate*, a unit. Whoever looks for a content searches the table of
//! that unit for the whole fingerprint, and [confirms](CacheManager::confirm) what it finds; from then on the whole
//! fingerprint is known, until others were used more recently. All other calls believe whole fingerprints only.

use super::CacheManager;
use crate::fingerprint_index::Target;
use crate::tag_index::{CANDIDATES_MAX, Tagged};
use crate::weu::Location;
use nitro_units::{Fingerprint, Generation, WeuId};

/// A unit whose table may name a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The unit.
    pub weu: WeuId,
    /// Its filling.
    pub generation: Generation,
    /// The unit is in RAM, and so is its table.
    pub in_ram: bool,
}

impl CacheManager {
    /// The units that may have content with this fingerprint, the newest first, if the fingerprint is not known whole: always
    /// empty unless the index is [lean](crate::IndexKind::Lean). Changes nothing.
    #[must_use]
    pub fn candidates(&self, fingerprint: &Fingerprint) -> Vec<Candidate> {
        let Some(tags) = self.tags.as_ref().filter(|_| !self.has_fingerprint(fingerprint)) else { return Vec::new() };
        let candidate = |target: Tagged| {
            let (weu, generation) = (target.weu, self.weus.generation(target.weu));
            let is_one = target.may_be_of(generation) && self.weus.is_current(weu, generation);
            is_one.then(|| Candidate { weu, generation, in_ram: self.weus.is_in_ram(weu) })
        };
        tags.find(fingerprint).filter_map(candidate).take(CANDIDATES_MAX).collect()
    }

    /// Notes that an entry of a candidate has content with this fingerprint: the table of the unit says so. It is known whole
    /// from now on. Returns where the content is; `None`: the unit has another filling by now.
    pub fn confirm(&mut self, fingerprint: &Fingerprint, of: Candidate, entry: u16) -> Option<Location> {
        let location = self.location(of.weu, of.generation, entry)?;
        if self.tags.is_some() {
            self.note_fingerprint(fingerprint, Target::new(of.weu, entry, of.generation));
        }
        Some(location)
    }

    /// Notes the tag of a fingerprint, in a lean index.
    pub(crate) fn tag(&mut self, fingerprint: &Fingerprint, weu: WeuId, generation: Generation) {
        let Some(tags) = self.tags.as_mut() else { return };
        let weus = &self.weus;
        tags.insert(fingerprint, Tagged::new(weu, generation), |old| {
            let generation = weus.generation(old.weu);
            !old.may_be_of(generation) || !weus.is_current(old.weu, generation)
        });
    }

    /// Notes that the content of a fingerprint was copied.
    pub(crate) fn retag(&mut self, fingerprint: &Fingerprint, from: &Location, to: &Location) {
        if let Some(tags) = self.tags.as_mut() {
            let tagged = |at: &Location| Tagged::new(at.weu, at.generation);
            tags.replace(fingerprint, tagged(from), tagged(to));
        }
    }

    pub(crate) fn sweep_tags(&mut self, shard: usize) {
        let weus = &self.weus;
        if let Some(tags) = self.tags.as_mut() {
            let removed = tags.retain_shard(shard, |target| {
                let generation = weus.generation(target.weu);
                target.may_be_of(generation) && weus.is_current(target.weu, generation)
            });
            self.stats.fingerprints_cleaned += removed as u64;
        }
    }
}
