//! The lean fingerprint index: what its tags find is a *candidate*. Whoever looks for a content reads the fingerprint in the
//! table of the candidate's unit, and [confirms](CacheManager::confirm) it; from then on the whole fingerprint is known,
//! until others were used more recently. All other calls believe whole fingerprints only.

use super::CacheManager;
use crate::fingerprint_index::Target;
use crate::tag_index::{CANDIDATES_MAX, Tagged};
use crate::weu::Location;
use nitro_units::{Fingerprint, Generation, WeuId};

impl CacheManager {
    /// Where content with this fingerprint may be, the newest first, if the fingerprint is not known whole: always empty
    /// unless the index is [lean](crate::IndexKind::Lean). Changes nothing.
    #[must_use]
    pub fn candidates(&self, fingerprint: &Fingerprint) -> Vec<Location> {
        let Some(tags) = self.tags.as_ref().filter(|_| !self.has_fingerprint(fingerprint)) else { return Vec::new() };
        let location = |target: Tagged| {
            let generation = self.weus.generation(target.weu);
            self.location(target.weu, generation, target.entry).filter(|_| target.may_be_of(generation))
        };
        tags.find(fingerprint).filter_map(location).take(CANDIDATES_MAX).collect()
    }

    /// Notes that the content at a location has this fingerprint: the table of its unit says so, or the bytes themselves.
    /// It is known whole from now on, if the unit still has the filling.
    pub fn confirm(&mut self, fingerprint: &Fingerprint, location: &Location) {
        let Location { weu, generation, entry, .. } = *location;
        if self.tags.is_some() && self.location(weu, generation, entry).is_some() {
            self.note_fingerprint(fingerprint, Target::new(weu, entry, generation));
        }
    }

    /// Notes the tag of a fingerprint, in a lean index.
    pub(crate) fn tag(&mut self, fingerprint: &Fingerprint, weu: WeuId, entry: u16, generation: Generation) {
        let Some(tags) = self.tags.as_mut() else { return };
        let weus = &self.weus;
        tags.insert(fingerprint, Tagged::new(weu, entry, generation), |old| {
            let generation = weus.generation(old.weu);
            !old.may_be_of(generation) || !weus.is_current(old.weu, generation)
        });
    }

    /// Notes that the content of a fingerprint was copied.
    pub(crate) fn retag(&mut self, fingerprint: &Fingerprint, from: &Location, to: &Location) {
        if let Some(tags) = self.tags.as_mut() {
            let tagged = |at: &Location| Tagged::new(at.weu, at.entry, at.generation);
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
