//! Eviction with copying forward; see [`forward`](crate::forward).

use super::{Append, CacheManager, Evicted};
use crate::eviction::{Cooling, EVICT_STEP_ENTRIES, Keep};
use crate::file_index::{Dup, Reference};
use crate::fingerprint_index::Target;
use crate::forward::{Leaving, Survivor};
use crate::shelf::{Lane, Shelf};
use crate::weu::{Location, SlotState, Stored};
use nitro_units::{ExtentKey, Fingerprint, WeuId};

/// Maximum number of copies through which a dup is followed; the cleaner repairs dups much earlier.
const HOPS_MAX: usize = 8;

impl CacheManager {
    /// Chooses the unit to evict next. It is served as before until
    /// [`begin_eviction_of_rest`](Self::begin_eviction_of_rest), which has to follow.
    pub fn begin_leaving(&mut self) -> Option<Leaving> {
        let victim = self.weus.victim(&self.rules)?;
        let weu = victim.weu;
        self.weus.leave(weu);
        let has_lanes = self.settings.lanes(self.weus.len()) > 1;
        let Shelf { lane, band } = self.weus.shelf(weu);
        let shelf = Shelf { lane: if has_lanes { lane } else { Lane::Main }, band };
        let keep = if self.thrift.forward_percent == 0 { Keep::NOTHING } else { victim.keep };
        let has_bands = self.rules.bands() > 1 && self.thrift.forward_percent > 0;
        let has_pinned = self.weus.kept(weu) > 0;
        Some(Leaving { weu, generation: self.weus.generation(weu), keep, shelf, has_bands, has_pinned })
    }

    /// Adds the survivors among the next entries of a leaving unit from `from` on; returns where to continue; `None`:
    /// there are no more.
    pub fn survivors(&self, leaving: &Leaving, from: u16, found: &mut Vec<Survivor>) -> Option<u16> {
        let weu = leaving.weu;
        let end = self.weus.entry_count(weu).min(usize::from(from) + EVICT_STEP_ENTRIES) as u16;
        for entry in from..end {
            let (heat, band) = (self.weus.heat(weu, entry), self.band(self.weus.class_of(weu, entry)));
            // An extent in a unit of a lower band than its own, such as a dirty extent, is copied to a unit of its own
            // band.
            let is_above = leaving.has_bands && band > leaving.shelf.band;
            let is_worth_it = heat >= leaving.keep.heat_min && band >= leaving.shelf.band || is_above;
            if !is_worth_it && !leaving.has_pinned {
                continue;
            }
            let Some(first) = self.weus.key(weu, entry) else { continue };
            let pinned = leaving.has_pinned && self.is_pinned(first);
            if (is_worth_it || pinned)
                && let Some((key, owner)) = self.owner(weu, entry)
                && let Some(location) = self.weus.location(weu, entry)
            {
                found.push(Survivor { first, key, owner, location, heat, band, pinned });
            }
        }
        (from < end).then_some(end)
    }

    /// Reduces the survivors of a unit to those that may be copied forward: the pinned ones, then those of the highest
    /// band, then the hottest, in their order in the unit.
    pub fn choose_survivors(&self, leaving: &Leaving, found: &mut Vec<Survivor>) {
        let bytes = |survivor: &Survivor| u64::from(survivor.location.span().len() as u32);
        let percent = self.thrift.forward_percent_of(leaving.shelf.lane);
        let bytes_max = u64::from(self.settings.weu_bytes) * u64::from(percent) / 100;
        if found.iter().map(bytes).sum::<u64>() <= bytes_max {
            return;
        }
        found.sort_by_key(|survivor| std::cmp::Reverse((survivor.pinned, survivor.band, survivor.heat)));
        let mut taken = 0;
        found.retain(|survivor| {
            taken += bytes(survivor);
            survivor.pinned || taken <= bytes_max
        });
        found.sort_by_key(|survivor| survivor.location.entry);
    }

    /// The key under which an entry can be copied: its first one, or, if that does not refer to it any more, the one of the
    /// dup that used it last. Dirty extents are in units that stay.
    fn owner(&self, weu: WeuId, entry: u16) -> Option<(ExtentKey, Reference)> {
        let first = self.weus.key(weu, entry)?;
        let number = match self.find(first) {
            Some(base) if base == Reference::Base(weu, entry) => return Some((first, base)),
            Some(Reference::Dup(number)) if self.dups.get(number).is_some_and(|dup| self.is_named(&dup)) => number,
            _ => self.weus.heir(weu, entry)?,
        };
        let dup = self.dups.get(number)?;
        let is_owner = (dup.weu(), dup.entry()) == (weu, entry)
            && dup.is_of(self.weus.generation(weu))
            && self.find(dup.key) == Some(Reference::Dup(number))
            && self.dirty.get(dup.key).is_none();
        is_owner.then_some((dup.key, Reference::Dup(number)))
    }

    /// Whether a survivor still has to be copied: its key still refers to the location where it was found.
    #[must_use]
    pub fn survives(&self, survivor: &Survivor) -> bool {
        let Location { weu, generation, entry, .. } = survivor.location;
        self.weus.is_current(weu, generation)
            && self.weus.is_leaving(weu)
            && self.owner(weu, entry) == Some((survivor.key, survivor.owner))
    }

    /// Moves a survivor, with all its keys, to an open unit; its bytes must be available there already. If it is
    /// [inherited](Survivor::is_inherited), the copy has a [version](Self::version) of its own. `None`: it was
    /// overwritten, trimmed or evicted meanwhile.
    pub fn forward(
        &mut self,
        leaving: &Leaving,
        survivor: &Survivor,
        into: WeuId,
        fingerprint: Option<&Fingerprint>,
        stored: Stored,
    ) -> Option<Append> {
        if !self.survives(survivor) {
            return None;
        }
        let waiting = self.unrecorded.len();
        let Some(location) = self.weus.append(into, survivor.key, stored, waiting) else { return Some(Append::Full) };
        let old = survivor.location;
        let class = self.weus.class_of(old.weu, old.entry);
        self.stats.base_entries += 1;
        self.stats.forwarded += 1;
        self.stats.forwarded_bytes += u64::from(stored.payload_bytes());
        self.files.remove(survivor.key, survivor.owner);
        match survivor.owner {
            Reference::Base(weu, entry) => {
                self.weus.unrefer(weu, entry, |_| true);
                self.note_base(survivor.key, weu, false);
            }
            Reference::Dup(number) => {
                self.remove_dup(number);
                // Newer than the dup's record, and than all that was void before.
                self.version += 1;
            }
        }
        self.files.insert(survivor.key, Reference::Base(into, location.entry));
        self.weus.refer(into, location.entry);
        self.note_base(survivor.key, into, true);
        self.classify(&location, class);
        let heat = match leaving.keep.cooling {
            Cooling::None => survivor.heat,
            Cooling::ByOne => survivor.heat.saturating_sub(1),
            Cooling::All => 0,
        };
        self.weus.set_heat(into, location.entry, heat);
        if self.weus.is_shared(old.weu, old.entry) {
            self.weus.share(into, location.entry);
            let pass = self.sweep.pass();
            self.forwardings.note(&old, &location, pass);
        }
        if let Some(fingerprint) = fingerprint {
            self.retag(fingerprint, &old, &location);
        }
        if let (Some(index), Some(fingerprint)) = (self.fingerprints.as_mut(), fingerprint)
            && index.find(fingerprint) == Some(Target::new(old.weu, old.entry, old.generation))
        {
            index.touch(fingerprint, Target::new(into, location.entry, location.generation));
        }
        Some(Append::At(location))
    }

    /// As [`begin_eviction`](Self::begin_eviction), for the rest of a leaving unit. `None`: its write failed meanwhile,
    /// or it is being emptied for another reason.
    pub fn begin_eviction_of_rest(&mut self, leaving: &Leaving, to_discard: bool) -> Option<Evicted> {
        if !self.weus.is_leaving(leaving.weu) || !self.weus.is_current(leaving.weu, leaving.generation) {
            return None;
        }
        Some(self.begin_eviction_of(leaving.weu, if to_discard { SlotState::Discarding } else { SlotState::Free }))
    }

    /// The location of a dup's content, if its unit still has the filling or the content was copied forward.
    pub(crate) fn resolve_dup(&self, dup: &Dup) -> Option<Location> {
        let mut dup = *dup;
        for _ in 0..HOPS_MAX {
            let generation = self.weus.generation(dup.weu());
            if dup.is_of(generation) && self.weus.is_current(dup.weu(), generation) {
                return self.weus.location(dup.weu(), dup.entry());
            }
            let (weu, entry, generation) = self.forwardings.find(&dup)?;
            dup = Dup::new(dup.key, weu, entry, generation);
        }
        None
    }

    /// Points a dup to the location to which its content was copied; `false`: the content is not cached any more.
    pub(crate) fn repair(&mut self, number: u32) -> bool {
        let Some(location) = self.dups.get(number).and_then(|dup| self.resolve_dup(&dup)) else { return false };
        self.point_dup(number, &location);
        true
    }

    /// Points a dup to the location of its content.
    pub(crate) fn point_dup(&mut self, number: u32, location: &Location) {
        let Some(dup) = self.dups.get(number) else { return };
        if let Some(moved) = dup.moved(location.weu, location.entry, location.generation) {
            self.dups.replace(number, moved);
            self.weus.share(location.weu, location.entry);
            self.weus.refer(location.weu, location.entry);
            self.unrecorded.push(number);
        }
    }
}
