//! Admission of new content: the policies of admission and classes, pins, and the write budget.

use super::CacheManager;
use crate::admission::{Admitted, ObjectCounters, Provenance, Source};
use crate::eviction::Victim;
use crate::file_index::{Reference, mix};
use crate::gone::Gone;
use crate::shelf::Lane;
use crate::thrift::Thrift;
use nitro_units::{ExtentKey, ObjectId};

/// Extents whose numbers differ only in this many low bits are refused together, because a request is a hit only if all
/// its extents are cached.
const NEIGHBOURS_BITS: u32 = 6;

impl CacheManager {
    /// Whether and how new content of an extent is admitted. To be called when no duplicate was found.
    pub fn admit(&mut self, key: ExtentKey, from: Provenance) -> Option<Admitted> {
        if from.source == Source::Write {
            self.note_looked_up(key, false);
        }
        if self.admission.wants_victim() {
            self.show_victim();
        }
        let has_lanes = self.settings.lanes(self.weus.len()) > 1;
        let admitted = match self.pins.has(key) {
            true => Some(Admitted::MAIN),
            false if self.barred(key, from).is_some() => None,
            false => self.admission.admit(key, from).filter(|admitted| !self.is_spared(key, from, *admitted)),
        };
        if admitted.is_none() {
            self.stats.rejections += 1;
            self.note_gone(key, Gone::Refused);
        }
        let band = self.band(from.class);
        admitted.map(|a| Admitted { lane: if has_lanes { a.lane } else { Lane::Main }, band, ..a })
    }

    /// Number of extents, of an object of `extents`, for which the policy of admission still needs counters. They are
    /// allocated outside of the manager, because this takes long.
    #[must_use]
    pub fn counters_missing(&self, object: ObjectId, extents: u64) -> u64 {
        self.admission.counters_missing(object, extents)
    }

    /// Adds the counters that are [missing](Self::counters_missing).
    pub fn add_counters(&mut self, object: ObjectId, more: ObjectCounters) {
        self.admission.add_counters(object, more);
    }

    /// Takes the counters of an object that is no longer cached, to be freed outside of the manager.
    pub fn take_counters(&mut self, object: ObjectId) -> Option<ObjectCounters> {
        self.admission.take_counters(object)
    }

    /// Shows the policy of admission the unit that would be evicted for new content.
    fn show_victim(&mut self) {
        // The reserve of free slots does not count as room.
        let has_room = self.weus.coming_free_count() > self.settings.free_reserve() + 1;
        let victim = if has_room { None } else { self.weus.victim(&self.rules) };
        let Some(Victim { weu, .. }) = victim else { return self.admission.saw_victim(None) };
        let (weus, files) = (&self.weus, &self.files);
        let is_base = |key, entry| {
            let base = |found| matches!(found, Reference::Base(at, number) if (at, number) == (weu, entry));
            files.find(key, base).is_some()
        };
        let mut extents = (0..weus.entry_count(weu) as u16).filter_map(|entry| {
            let key = weus.key(weu, entry)?;
            is_base(key, entry).then(|| (key, weus.class_of(weu, entry)))
        });
        self.admission.saw_victim(Some(&mut extents));
    }

    /// Sets how much writes are reduced.
    pub fn set_thrift(&mut self, thrift: Thrift) {
        self.thrift = thrift;
    }

    /// Whether content is refused because of the write budget. It is then remembered, in case it is inserted again.
    fn is_spared(&mut self, key: ExtentKey, from: Provenance, admitted: Admitted) -> bool {
        if self.thrift == Thrift::NONE {
            return false;
        }
        self.asked += 1;
        let turn = mix((self.asked >> NEIGHBOURS_BITS) ^ self.settings.seed);
        let draw = mix((key.raw() >> NEIGHBOURS_BITS) ^ turn);
        let is_spared = self.thrift.refuses(admitted.is_new && !from.used, draw);
        if is_spared {
            self.admission.dropped(key, Admitted { lane: Lane::Main, is_new: false, ..admitted });
            self.stats.spared += 1;
        }
        is_spared
    }
}
