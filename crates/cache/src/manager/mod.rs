//! The cache manager: the upper half of the paper's Figure 2. It executes look-ups, insertions and invalidations, and
//! returns locations; it moves no data.
//!
//! Each file here has the operations of one kind. The policies, indexes and tables that they use know no manager.

mod admit;
mod classes;
mod destage;
mod evict;
mod forget;
mod forward;
mod frozen;
mod gone;
mod lost;
mod pins;
mod record;
mod resize;
mod restore;
mod space;
mod sweep;
mod tags;
mod warm;
mod write_back;

use frozen::Frozen;
pub use frozen::FrozenExtents;
pub use lost::Retirement;
pub use record::{DupRecord, RECORD_STEP, RestoredRecord};
pub use restore::{FORGOTTEN_RUN_MAX, Forgotten, Restored, RestoredEntry};
pub use tags::Candidate;
pub use write_back::Superseded;

use crate::admission::{Admission, Admitted};
use crate::class::ClassRules;
use crate::curve::{Followed, WhatIf};
use crate::destage::Destage;
use crate::dirty::DirtyList;
use crate::eviction::{Bands, EVICT_STEP_ENTRIES, Eviction};
use crate::file_index::{Dup, Dups, FileIndex, Recorded, Reference};
use crate::fingerprint_index::{FingerprintIndex, Target};
use crate::forward::Forwardings;
use crate::gone::{Departed, Gone};
use crate::pins::Pins;
use crate::settings::{IndexKind, SettingError, Settings};
use crate::shelf::{Band, Lane, Shelf};
use crate::stats::Stats;
use crate::tag_index::TagIndex;
use crate::thrift::Thrift;
use crate::unrecorded::Unrecorded;
use crate::weu::{HEAT_MAX, Location, Sizes, SlotState, Stored, WeuTable};
use nitro_units::{ClassId, ExtentKey, Fingerprint, Generation, ObjectId, WeuId};
use restore::Restore;
use std::collections::BTreeMap;
use sweep::Sweep;

/// The result of [`CacheManager::append`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Append {
    /// The extent has this location and is in the indexes.
    At(Location),
    /// The WEU is full: seal it, open another and append there.
    Full,
}

/// A WEU that was evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// The slot, which is being emptied.
    pub weu: WeuId,
    /// The evicted filling.
    pub generation: Generation,
}

/// All caching decisions of one cache.
pub struct CacheManager {
    pub(crate) settings: Settings,
    pub(crate) admission: Box<dyn Admission>,
    /// The policies of destage by object.
    pub(crate) destage: BTreeMap<ObjectId, Box<dyn Destage>>,
    pub(crate) weus: WeuTable,
    pub(crate) files: FileIndex,
    pub(crate) dups: Dups,
    pub(crate) unrecorded: Unrecorded,
    /// Fingerprints; of a lean index, those used last.
    pub(crate) fingerprints: Option<FingerprintIndex>,
    /// Tags of all fingerprints, of a lean index.
    pub(crate) tags: Option<TagIndex>,
    pub(crate) stats: Stats,
    pub(crate) sweep: Sweep,
    pub(crate) forwardings: Forwardings,
    pub(crate) departed: Departed,
    pub(crate) dirty: DirtyList,
    pub(crate) frozen: BTreeMap<ObjectId, Frozen>,
    pub(crate) restore: Restore,
    pub(crate) thrift: Thrift,
    pub(crate) rules: ClassRules,
    pub(crate) pins: Pins,
    pub(crate) followed: Option<Followed>,
    /// Number of calls for admission; it determines the random refusals.
    pub(crate) asked: u64,
    /// The version of the last change.
    pub(crate) version: u64,
}

impl CacheManager {
    /// An empty cache.
    ///
    /// # Errors
    /// The first setting that is out of bounds.
    pub fn new(settings: Settings) -> Result<Self, SettingError> {
        settings.check()?;
        let admission = settings.admission.build(settings.extents_raw(), settings.seed);
        let order = Bands::new(settings.eviction, settings.weu_count(), settings.extents_raw(), settings.seed);
        Ok(Self::with(settings, admission, order))
    }

    /// As [`new`](Self::new), with other policies of eviction, over [`weu_count`](Settings::weu_count) units, and of
    /// admission. All classes are in one order of eviction.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_policies(
        settings: Settings,
        admission: Box<dyn Admission>,
        eviction: Box<dyn Eviction>,
    ) -> Result<Self, SettingError> {
        settings.check()?;
        Ok(Self::with(settings, admission, Bands::one(eviction, settings.weu_count())))
    }

    fn with(settings: Settings, admission: Box<dyn Admission>, eviction: Bands) -> Self {
        let expected = settings.extents_raw() * 3 / 2;
        let by_fingerprint = settings.dedup && settings.fingerprint_index_percent > 0;
        let sizes = Sizes {
            count: settings.weu_count(),
            weu_bytes: settings.weu_bytes,
            extent_bytes: settings.extent_bytes,
            entries_max: settings.weu_entries_max(),
            packs: settings.index == IndexKind::Lean,
        };
        let (whole, tags) = match settings.index {
            IndexKind::Exact => (expected * u64::from(settings.fingerprint_index_percent) / 100, None),
            IndexKind::Lean => (settings.fingerprints_max(expected) as u64, Some(expected)),
        };
        let mut manager = Self {
            weus: WeuTable::new(sizes, eviction),
            files: FileIndex::new(settings.index, expected, settings.entry_bits(), settings.seed),
            dups: Dups::new(settings.dup_entries_max()),
            unrecorded: Unrecorded::default(),
            fingerprints: by_fingerprint.then(|| FingerprintIndex::new(whole)),
            tags: tags.filter(|_| by_fingerprint).map(TagIndex::new),
            stats: Stats::default(),
            sweep: Sweep::new(settings.weu_count(), settings.index),
            forwardings: Forwardings::default(),
            departed: Departed::new(settings.index, settings.extents_raw(), settings.seed),
            dirty: DirtyList::default(),
            frozen: BTreeMap::new(),
            restore: Restore::default(),
            thrift: Thrift::NONE,
            rules: ClassRules::default(),
            pins: Pins::default(),
            followed: if settings.what_if { Followed::new(settings.extents_raw()) } else { None },
            asked: 0,
            version: 0,
            admission,
            destage: BTreeMap::new(),
            settings,
        };
        manager.set_classes(settings.classes);
        manager
    }

    /// The settings it was created with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Looks up an extent for a client: counts the look-up, and refreshes the WEU's position in the eviction order. A
    /// dup entry whose WEU has been refilled since is removed and counts as a miss (paper §3, "Cleaning the file
    /// index").
    pub fn lookup(&mut self, key: ExtentKey) -> Option<Location> {
        self.note_looked_up(key, true);
        let found = self.find(key).map(|reference| (reference, self.resolve(reference)));
        match found {
            Some((reference, Some(location))) => {
                self.stats.hits += 1;
                self.weus.touch(location.weu, location.entry);
                if let Reference::Dup(number) = reference {
                    self.point_dup(number, &location);
                    self.weus.used_by(location.weu, location.entry, number);
                }
                Some(location)
            }
            Some((Reference::Dup(number), None)) => {
                self.drop_stale(key, number);
                self.note_gone(key, Gone::Evicted);
                self.stats.dups_stale_touched += 1;
                self.stats.misses += 1;
                None
            }
            // The unit is being emptied, and the entry will be removed from the index.
            Some((Reference::Base(..), None)) | None => {
                self.stats.misses += 1;
                None
            }
        }
    }

    /// Notifies the observers of uses.
    pub(crate) fn note_looked_up(&mut self, key: ExtentKey, read: bool) {
        self.weus.looked_up(key, read);
        self.admission.looked_up(key);
        if let Some(followed) = &mut self.followed {
            followed.looked_up(key, read);
        }
    }

    /// Estimated hits of caches of other sizes for the recent reads of this one. A size is counted in extents: once the
    /// cache is full, those that it holds; before, those that it would hold uncompressed.
    #[must_use]
    pub fn what_if(&self) -> Vec<WhatIf> {
        let extents = self.room_extents();
        self.followed.as_ref().map_or_else(Vec::new, |followed| followed.what_if(extents))
    }

    /// The same for sizes from a quarter of this cache's to eight times as much, four for each doubling.
    #[must_use]
    pub fn hit_curve(&self) -> Vec<WhatIf> {
        let extents = self.room_extents();
        self.followed.as_ref().map_or_else(Vec::new, |followed| followed.hit_curve(extents))
    }

    /// The extents for which there is room.
    fn room_extents(&self) -> u64 {
        let cached = self.stats().cached_extents;
        if self.stats.weus_evicted > 0 { cached } else { cached.max(self.settings.extents_raw()) }
    }

    /// Looks up an extent without counting it as a use.
    #[must_use]
    pub fn peek(&self, key: ExtentKey) -> Option<Location> {
        self.resolve(self.find(key)?)
    }

    /// Whether bytes read at a location with this generation are valid; to be called *after* the bytes were read.
    #[must_use]
    pub fn is_current(&self, weu: WeuId, generation: Generation) -> bool {
        self.weus.is_current(weu, generation)
    }

    /// Drops an extent that is about to be overwritten or trimmed, and returns its location. A dirty extent stays: it
    /// is destaged, or superseded, but never dropped.
    pub fn invalidate(&mut self, key: ExtentKey) -> Option<Location> {
        if self.dirty.get(key).is_some() {
            return None;
        }
        self.touch_restoring(key);
        let reference = self.find(key)?;
        let location = self.resolve(reference);
        if let Reference::Base(weu, entry) = reference {
            // The next content of this extent is admitted with the same lane, and with one more use.
            let (lane, heat) = (self.weus.lane(weu), self.weus.heat(weu, entry));
            self.admission.overwritten(key, Admitted { lane, heat: (heat + 1).min(HEAT_MAX), ..Admitted::MAIN });
        }
        self.drop_reference(key, reference);
        self.note_gone(key, Gone::Overwritten);
        self.stats.invalidations += 1;
        location
    }

    /// Steps 2 and 5 of the insertion for a duplicate: if content with this fingerprint is cached, points `key` to it
    /// and refreshes its position in both replacement orders. A [pinned](crate::pins) extent has its own content.
    pub fn insert_duplicate(&mut self, key: ExtentKey, fingerprint: &Fingerprint) -> Option<Location> {
        if self.pins.has(key) {
            return None;
        }
        let location = self.lookup_fingerprint(fingerprint)?;
        self.count_duplicate(key, location);
        Some(location)
    }

    /// As [`insert_duplicate`](Self::insert_duplicate), for an external index according to which content with this
    /// fingerprint is in `entry` of this filling of a WEU: points `key` to it if this is still true.
    pub fn insert_known_duplicate(
        &mut self,
        key: ExtentKey,
        fingerprint: &Fingerprint,
        weu: WeuId,
        generation: Generation,
        entry: u16,
    ) -> Option<Location> {
        let location = self.location(weu, generation, entry).filter(|_| !self.pins.has(key))?;
        self.note_fingerprint(fingerprint, Target::new(weu, entry, generation));
        self.weus.touch(weu, entry);
        self.count_duplicate(key, location);
        Some(location)
    }

    /// The location of an entry of a filling of a WEU, if the WEU still has the filling.
    #[must_use]
    pub fn location(&self, weu: WeuId, generation: Generation, entry: u16) -> Option<Location> {
        self.weus.is_current(weu, generation).then(|| self.weus.location(weu, entry)).flatten()
    }

    fn count_duplicate(&mut self, key: ExtentKey, location: Location) {
        self.point(key, location.weu, location.entry, false);
        self.stats.insertions += 1;
        self.stats.duplicates += 1;
        self.stats.inserted_bytes += u64::from(self.settings.extent_bytes);
    }

    /// Inserts a fingerprint, whole, into the index in RAM; a partial index evicts others. Another writer may have inserted
    /// the same content meanwhile.
    pub(crate) fn note_fingerprint(&mut self, fingerprint: &Fingerprint, target: Target) {
        let len_max = self.settings.fingerprints_max(self.stats.base_entries);
        let Some(index) = self.fingerprints.as_mut() else { return };
        let weus = &self.weus;
        let evicted = index.insert(fingerprint, target, len_max, |t| !target_is_current(weus, t));
        // In a lean index the tags stay.
        self.stats.fingerprints_evicted += if self.tags.is_some() { 0 } else { evicted };
    }

    /// Whether content with this fingerprint is cached; refreshes nothing.
    #[must_use]
    pub fn has_fingerprint(&self, fingerprint: &Fingerprint) -> bool {
        let target = self.fingerprints.as_ref().and_then(|index| index.find(fingerprint));
        target.is_some_and(|target| target_is_current(&self.weus, target))
    }

    /// The location of cached content with this fingerprint; refreshes its position in both replacement orders.
    pub fn lookup_fingerprint(&mut self, fingerprint: &Fingerprint) -> Option<Location> {
        let index = self.fingerprints.as_mut()?;
        let target = index.find(fingerprint)?;
        if !target_is_current(&self.weus, target) {
            index.remove(fingerprint);
            self.stats.fingerprints_cleaned += 1;
            return None;
        }
        index.touch(fingerprint, target);
        self.weus.touch(target.weu, target.entry);
        self.weus.location(target.weu, target.entry)
    }

    /// Steps 3 to 5 of the insertion of new content: assigns a location in the open WEU to an extent and inserts it
    /// into both indexes. From then on look-ups find it, so its bytes must be available already.
    pub fn append(&mut self, weu: WeuId, key: ExtentKey, fingerprint: Option<&Fingerprint>, stored: Stored) -> Append {
        let waiting = self.unrecorded.len();
        let Some(location) = self.weus.append(weu, key, stored, waiting) else { return Append::Full };
        let extent_bytes = u64::from(self.settings.extent_bytes);
        self.stats.insertions += 1;
        self.stats.zeroes += u64::from(stored == Stored::Zero);
        self.stats.inserted_bytes += extent_bytes;
        self.stats.unique_bytes += extent_bytes;
        self.stats.stored_bytes += u64::from(stored.payload_bytes());
        self.stats.base_entries += 1;
        if let Some(fingerprint) = fingerprint {
            self.note_fingerprint(fingerprint, Target::new(weu, location.entry, location.generation));
            self.tag(fingerprint, weu, location.generation);
        }
        self.point(key, weu, location.entry, true);
        self.version += 1;
        Append::At(location)
    }

    /// The version of the last change: right after an append, the version of the appended extent. Of two entries for
    /// one extent, the one with the later version is used.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Opens a free slot with its next generation. `None`: a slot must be evicted first.
    pub fn open_weu(&mut self) -> Option<(WeuId, Generation)> {
        self.open_weu_in(Lane::Main.into())
    }

    /// As [`open_weu`](Self::open_weu), for content of this shelf.
    pub fn open_weu_in(&mut self, shelf: Shelf) -> Option<(WeuId, Generation)> {
        self.finish_lap();
        self.weus.open(shelf)
    }

    /// Sets the initial heat of an extent just [appended](Self::append), from its [admission](Self::admit).
    pub fn heat(&mut self, location: &Location, admitted: Admitted) {
        self.weus.set_heat(location.weu, location.entry, admitted.heat);
    }

    /// Notes the class of an extent just [appended](Self::append).
    pub fn classify(&mut self, location: &Location, class: ClassId) {
        if class.is_classified() {
            self.weus.classify(location.weu, location.entry, class);
        }
    }

    /// Changes the class of a cached extent, if its use became known after it was stored. Content shared by several
    /// extents keeps its class. The header on the SSD keeps the old class until the extent is stored again. Returns
    /// whether the class changed.
    pub fn reclassify(&mut self, key: ExtentKey, class: ClassId) -> bool {
        let Some(Reference::Base(weu, entry)) = self.find(key) else { return false };
        let is_alone = self.weus.location(weu, entry).is_some() && !self.weus.is_shared(weu, entry);
        is_alone && self.weus.reclassify(weu, entry, class)
    }

    /// Number of cached extents, by the class for which their content was stored.
    #[must_use]
    pub fn cached_by_class(&self) -> [u64; ClassId::COUNT] {
        self.weus.live_by_class()
    }

    /// As [`open_weu`](Self::open_weu), for dirty content, which is written in parts, in whole blocks of `block_bytes`. It
    /// holds extents of all classes, and so has the lowest band: when it is evicted, those of higher bands are copied to
    /// units of their own bands.
    pub fn open_dirty_weu(&mut self, block_bytes: u32) -> Option<(WeuId, Generation)> {
        let band = if self.has_bands() { Band::LOWEST } else { Band::default() };
        let opened = self.open_weu_in(Shelf { lane: Lane::Dirty, band })?;
        self.weus.open_for_dirty(opened.0);
        self.weus.align_open(opened.0, block_bytes);
        Some(opened)
    }

    /// Whether slots will become free that are not available now: pinned slots, slots that are being discarded, or
    /// slots not yet read after a restart.
    #[must_use]
    pub fn is_waiting_for_slots(&self) -> bool {
        self.weus.pinned_count() > 0 || self.weus.is_any_coming_free() || self.is_restoring()
    }

    /// Leaves the rest of the current block of an open WEU unused, so that the next extent begins a new block. Bytes
    /// that are written before the WEU is full are thus not written again.
    pub fn align_open(&mut self, weu: WeuId, block_bytes: u32) {
        self.weus.align_open(weu, block_bytes);
    }

    /// Step 6: closes a WEU to further extents; it is served from RAM until [`stored`](Self::stored). Returns how many
    /// [records](Self::record) of duplicates have room in it.
    pub fn seal(&mut self, weu: WeuId) -> u32 {
        self.weus.seal(weu)
    }

    /// Notes that a sealed WEU is on the SSD; from now on it may be evicted.
    pub fn stored(&mut self, weu: WeuId) {
        self.weus.stored(weu);
    }

    /// Begins to drop a WEU that could not be written; its slot is not used again. To be followed by
    /// [`evict_step`](Self::evict_step)s.
    pub fn begin_retiring(&mut self, weu: WeuId) {
        let kept = self.weus.begin_clearing(weu, SlotState::Retired);
        self.pins.note_gone(kept);
    }

    /// Counters and gauges as of now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            cached_extents: self.files.len() as u64,
            dup_entries: self.dups.len().into(),
            fingerprints: match (&self.tags, &self.fingerprints) {
                (Some(tags), _) => tags.len() as u64,
                (None, whole) => whole.as_ref().map_or(0, |f| f.len() as u64),
            },
            weus: self.usable_weus().into(),
            weus_free: self.weus.free_count().into(),
            weus_pinned: self.weus.pinned_count().into(),
            dirty_extents: self.dirty.len(),
            ..self.stats
        }
    }

    /// RAM of all indexes in bytes. It walks over them, so it is too slow for each request.
    #[must_use]
    pub fn index_ram_bytes(&self) -> usize {
        let fingerprints = self.fingerprints.as_ref().map_or(0, FingerprintIndex::ram_bytes)
            + self.tags.as_ref().map_or(0, TagIndex::ram_bytes);
        self.files.ram_bytes()
            + self.dups.ram_bytes()
            + self.unrecorded.ram_bytes()
            + self.weus.ram_bytes()
            + self.dirty.ram_bytes()
            + self.forwardings.ram_bytes()
            + self.admission.ram_bytes()
            + self.rules.ram_bytes()
            + self.departed.ram_bytes()
            + self.destage.values().map(|policy| policy.ram_bytes()).sum::<usize>()
            + self.followed.as_ref().map_or(0, Followed::ram_bytes)
            + fingerprints
    }

    pub(crate) fn find(&self, key: ExtentKey) -> Option<Reference> {
        self.files.find(key, |reference| match reference {
            Reference::Base(weu, entry) => self.weus.key(weu, entry) == Some(key),
            Reference::Dup(number) => self.dups.get(number).is_some_and(|dup| dup.key == key),
        })
    }

    pub(crate) fn resolve(&self, reference: Reference) -> Option<Location> {
        match reference {
            Reference::Base(weu, entry) => self.weus.location(weu, entry),
            Reference::Dup(number) => self.resolve_dup(&self.dups.get(number)?),
        }
    }

    /// Points a key to an entry of a current WEU: as base entry if the entry is new, otherwise as dup. If the header has the
    /// key, and the key was dropped since, the journal has that it is void, so that it is a dup as any other.
    pub(crate) fn point(&mut self, key: ExtentKey, weu: WeuId, entry: u16, is_new: bool) {
        if let Some(old) = self.find(key) {
            let same = self.resolve(old).is_some_and(|l| (l.weu, l.entry) == (weu, entry));
            if same && !is_new {
                return;
            }
            self.drop_reference(key, old);
        }
        if is_new {
            self.weus.refer(weu, entry);
            self.note_base(key, weu, true);
            return self.files.insert(key, Reference::Base(weu, entry));
        }
        let dirty = &self.dirty;
        if let Some(number) = self.dups.victim(|dup| dirty.get(dup.key).is_some())
            && let Some(victim) = self.dups.get(number)
        {
            self.drop_reference(victim.key, Reference::Dup(number));
            self.note_gone(victim.key, Gone::Evicted);
            self.stats.dups_displaced += 1;
        }
        let number = self.add_dup(key, weu, entry);
        self.unrecorded.push(number);
    }

    /// Points a key that is not in the file index to an entry of a current WEU as a dup; returns its number.
    pub(crate) fn add_dup(&mut self, key: ExtentKey, weu: WeuId, entry: u16) -> u32 {
        let number = self.dups.insert(Dup::new(key, weu, entry, self.weus.generation(weu)));
        self.files.insert(key, Reference::Dup(number));
        self.weus.refer(weu, entry);
        self.weus.share(weu, entry);
        self.weus.used_by(weu, entry, number);
        if self.weus.key(weu, entry) == Some(key) {
            self.note_base(key, weu, true);
        }
        number
    }

    /// Removes a key from the indexes. If a header names it, the journal is told that it is void: the caller has room for
    /// this.
    pub(crate) fn drop_reference(&mut self, key: ExtentKey, reference: Reference) {
        self.files.remove(key, reference);
        match reference {
            Reference::Dup(number) => {
                let was_recorded = self.dups.get(number).is_some_and(|dup| dup.recorded != Recorded::Never);
                self.remove_dup(number);
                if was_recorded {
                    self.note_forgotten(key);
                }
            }
            Reference::Base(weu, entry) => {
                self.weus.unrefer(weu, entry, |_| true);
                self.weus.set_heat(weu, entry, 0);
                self.weus.orphan(weu, entry);
                if self.weus.is_filled(weu) {
                    self.note_base(key, weu, false);
                }
                self.note_forgotten(key);
            }
        }
    }

    /// Removes some entries of a unit that is being emptied from the file index; returns whether there are more.
    pub(crate) fn clear_step(&mut self, weu: WeuId) -> bool {
        if self.clear_records(weu) {
            return true;
        }
        let mut keys = [ExtentKey::from_raw(0); EVICT_STEP_ENTRIES];
        let Some((first, count)) = self.weus.next_to_clear(weu, &mut keys) else { return false };
        self.warm_files(&keys[..count]);
        let was_on_probation = self.weus.lane(weu) != Lane::Main;
        for (entry, key) in (first..).zip(&keys[..count]) {
            if self.files.remove(*key, Reference::Base(weu, entry)) {
                self.note_gone(*key, Gone::Evicted);
                if was_on_probation {
                    self.admission.dropped(*key, Admitted::MAIN);
                }
            }
        }
        self.stats.base_entries -= count as u64;
        true
    }
}

/// Whether the WEU of a fingerprint's target still has the filling for which it was inserted.
pub(crate) fn target_is_current(weus: &WeuTable, target: Target) -> bool {
    let generation = weus.generation(target.weu);
    Target::new(target.weu, target.entry, generation) == target && weus.is_current(target.weu, generation)
}
