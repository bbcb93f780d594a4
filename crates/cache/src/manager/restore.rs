//! Restart: restores the contents of an existing cache device, first dirty extents, then, while requests are served,
//! clean ones (paper §3, "System restart").
//!
//! Every base entry and every change has a *version*; the latest of several entries for one extent is used. If an entry
//! of a live WEU is not in the file index, the journal must have a record that it is void, because after the next
//! restart only the journal shows this. Entries that become void are noted here: as runs of adjacent extents, for
//! [`CacheManager::take_forgotten`]; while WEUs are read at a restart, by WEU, for [`CacheManager::take_untold`], so
//! that the journal's snapshot has room for them, however many they are.

use super::CacheManager;
use crate::dirty::Held;
use crate::file_index::Reference;
use crate::fingerprint_index::Target;
use crate::shelf::Band;
use crate::weu::{Position, Stored};
use nitro_units::{ClassId, ExtentKey, Fingerprint, Generation, WeuId};
use std::collections::{BTreeSet, HashSet};

/// Maximum length of a run of dropped extents: a restart keeps each of them in RAM.
pub const FORGOTTEN_RUN_MAX: u32 = 1 << 10;

/// Adjacent extents that were dropped in ascending order, without other changes in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forgotten {
    /// The first of them.
    pub first: ExtentKey,
    /// How many, at most [`FORGOTTEN_RUN_MAX`].
    pub count: u32,
    /// Versions of these extents below this one are void.
    pub version: u64,
}

impl Forgotten {
    /// Adds an extent that was dropped after version `before` was assigned, if it is the next of the run, or the last
    /// one again. No version may have been assigned since the run's own: the run's later version would make that change
    /// void.
    fn extend(&mut self, key: ExtentKey, before: u64) -> bool {
        let offset = key.raw().wrapping_sub(self.first.raw());
        let is_next = offset == u64::from(self.count) && self.count < FORGOTTEN_RUN_MAX;
        let is_last = offset.wrapping_add(1) == u64::from(self.count);
        if self.version != before || key.object() != self.first.object() || !(is_next || is_last) {
            return false;
        }
        self.count += u32::from(is_next);
        self.version = before + 1;
        true
    }
}

/// The manager's state for and during a restart.
#[derive(Debug, Default)]
pub(crate) struct Restore {
    /// Whether forgotten base entries are noted: there is a journal.
    journaled: bool,
    /// Base entries forgotten since they were last taken.
    forgotten: Vec<Forgotten>,
    /// WEUs with entries that were void when they were read.
    untold: BTreeSet<WeuId>,
    /// Extents changed since the start; `None`: all WEUs have been read.
    changed: Option<HashSet<ExtentKey>>,
}

/// One entry of a WEU's header, read at a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoredEntry {
    /// The first key of the content.
    pub key: ExtentKey,
    /// Its position.
    pub position: Position,
    /// How it is stored.
    pub stored: Stored,
    /// The content's fingerprint, if the header has it.
    pub fingerprint: Option<Fingerprint>,
    /// The class that it was stored for.
    pub class: ClassId,
    /// The entry's version.
    pub version: u64,
    /// The journal has a newer version for this key; the content may be used by other keys.
    pub void: bool,
    /// The entry must not be trusted, and the journal has no record of this yet.
    pub doubtful: bool,
}

/// The result of restoring a WEU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Number of entries that are in the file index now.
    pub live: u64,
    /// Number of other entries.
    pub void: u64,
}

impl CacheManager {
    /// Notes from now on which base entries are forgotten, for the journal.
    pub fn keep_journal(&mut self) {
        self.restore.journaled = true;
    }

    /// Base entries forgotten since the last call.
    pub fn take_forgotten(&mut self) -> Vec<Forgotten> {
        std::mem::take(&mut self.restore.forgotten)
    }

    /// WEUs with entries that became void as they were read at a restart, since the last call; see
    /// [`void_entries`](Self::void_entries).
    pub fn take_untold(&mut self) -> Vec<WeuId> {
        std::mem::take(&mut self.restore.untold).into_iter().collect()
    }

    /// The number of WEUs that [`take_untold`](Self::take_untold) would return.
    #[must_use]
    pub fn untold_count(&self) -> usize {
        self.restore.untold.len()
    }

    /// The number of runs that [`take_forgotten`](Self::take_forgotten) would return. A call for a single extent adds
    /// at most one.
    #[must_use]
    pub fn forgotten_count(&self) -> usize {
        self.restore.forgotten.len()
    }

    /// Begins a restart, on an empty manager: no slot is free until its content was reported. Versions continue after
    /// `version`.
    pub fn begin_restore(&mut self, version: u64) {
        self.version = version;
        self.restore.changed = Some(HashSet::new());
        self.weus.begin_restore();
    }

    /// Whether the content of some slots is still unknown.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        self.restore.changed.is_some()
    }

    /// Whether the content of a slot is still unknown.
    #[must_use]
    pub fn is_unread(&self, weu: WeuId) -> bool {
        self.weus.is_unread(weu)
    }

    /// Ends a restart: every slot is known.
    pub fn end_restore(&mut self) {
        self.restore.changed = None;
    }

    /// Reports that a slot is empty; its last filling, if any, was `generation`.
    pub fn restore_free(&mut self, weu: WeuId, generation: Generation) {
        self.weus.restore_free(weu, generation);
    }

    /// Reports that a slot holds `entries`. It becomes the least recently used one: call this with the newest WEU
    /// first.
    pub fn restore_weu(&mut self, weu: WeuId, generation: Generation, entries: &[RestoredEntry]) -> Restored {
        let extents = entries.iter().map(|e| (e.key, e.position, e.stored));
        let bands = || entries.iter().map(|entry| self.band(entry.class));
        // A unit has extents of one band, or was filled with dirty extents of any: then it is evicted first, as before the
        // restart.
        let band = match (bands().min(), bands().max()) {
            (Some(least), Some(most)) if least == most => least,
            (None, _) => Band::default(),
            _ => Band::LOWEST,
        };
        self.weus.restore(weu, generation, band, extents);
        self.weus.restore_classes(weu, entries.iter().map(|entry| entry.class));
        self.stats.base_entries += entries.len() as u64;
        let mut restored = Restored::default();
        for (number, entry) in entries.iter().enumerate() {
            let number = number as u16;
            self.restore_fingerprint(entry, Target::new(weu, number, generation), generation);
            if self.restore_key(entry, Reference::Base(weu, number)) {
                restored.live += 1;
            } else {
                self.weus.orphan(weu, number);
                restored.void += 1;
            }
        }
        restored
    }

    fn restore_fingerprint(&mut self, entry: &RestoredEntry, target: Target, generation: Generation) {
        let Some(fingerprint) = &entry.fingerprint else { return };
        if self.tags.is_some() {
            return self.tag(fingerprint, target.weu, generation);
        }
        let len_max = self.settings.fingerprints_max(self.stats.base_entries);
        let Some(index) = self.fingerprints.as_mut() else { return };
        if index.find(fingerprint).is_none() && index.len() < len_max {
            index.insert(fingerprint, target, len_max, |_| false);
        }
    }

    fn restore_key(&mut self, entry: &RestoredEntry, reference: Reference) -> bool {
        if entry.void {
            return false;
        }
        if entry.doubtful || self.has_changed(entry.key) || self.find(entry.key).is_some() {
            if let Reference::Base(weu, _) = reference {
                self.restore.untold.insert(weu);
            }
            return false;
        }
        let key = entry.key;
        if let Reference::Base(weu, entry) = reference {
            self.weus.refer(weu, entry);
            self.note_base(key, weu, true);
        }
        self.files.insert(key, reference);
        true
    }

    /// Reports that the newest content of an extent is dirty: entry `target` of a restored WEU; `None`: it is lost.
    /// `now` in seconds.
    pub fn restore_dirty(&mut self, key: ExtentKey, version: u64, target: Option<(WeuId, u16)>, now: u32) {
        let target = target.filter(|(weu, entry)| self.weus.location(*weu, *entry).is_some());
        if let Some((weu, entry)) = target {
            self.pin(key.object(), weu);
            let base = self.weus.key(weu, entry) == Some(key);
            match self.find(key) {
                Some(Reference::Base(w, e)) if (w, e) == (weu, entry) => {}
                found => {
                    match found {
                        Some(old @ Reference::Base(weu, entry)) => {
                            self.files.remove(key, old);
                            self.weus.unrefer(weu, entry, |_| true);
                            self.weus.orphan(weu, entry);
                            self.note_base(key, weu, false);
                            self.restore.untold.insert(weu);
                        }
                        Some(old) => self.drop_reference(key, old),
                        None => {}
                    }
                    if base {
                        self.note_base(key, weu, true);
                        self.weus.refer(weu, entry);
                        self.files.insert(key, Reference::Base(weu, entry));
                    } else {
                        self.add_dup(key, weu, entry);
                    }
                }
            }
        }
        if let Some(changed) = &mut self.restore.changed {
            changed.insert(key);
        }
        self.note_dirtied(key, now);
        self.dirty.insert(key, Held::new(version, target, now));
    }

    /// Whether each base entry of a WEU is void, for at most `count` entries from `from` on; `None`: there are no more.
    #[must_use]
    pub fn void_entries(&self, weu: WeuId, from: u16, count: u16) -> Option<Vec<bool>> {
        let len = self.weus.entry_count(weu);
        if usize::from(from) >= len {
            return None;
        }
        let end = len.min(usize::from(from) + usize::from(count)) as u16;
        let is_void =
            |entry| self.weus.key(weu, entry).is_none_or(|key| self.find(key) != Some(Reference::Base(weu, entry)));
        Some((from..end).map(is_void).collect())
    }

    /// The fillings of a slot for the journal: all fillings up to the first generation are evicted; the second, if any,
    /// is live.
    #[must_use]
    pub fn filling(&self, weu: WeuId) -> (Generation, Option<Generation>) {
        self.weus.filling(weu)
    }

    pub(crate) fn note_forgotten(&mut self, key: ExtentKey) {
        let before = self.version;
        self.version += 1;
        if !self.restore.journaled || self.restore.forgotten.last_mut().is_some_and(|run| run.extend(key, before)) {
            return;
        }
        self.restore.forgotten.push(Forgotten { first: key, count: 1, version: self.version });
    }

    /// Notes that a WEU has entries or records that became void as they were read.
    pub(crate) fn note_untold(&mut self, weu: WeuId) {
        self.restore.untold.insert(weu);
    }

    /// Whether an extent has changed since the start, while WEUs are still being read.
    pub(crate) fn has_changed(&self, key: ExtentKey) -> bool {
        self.restore.changed.as_ref().is_some_and(|changed| changed.contains(&key))
    }

    /// Notes that an extent changes while WEUs are still being read.
    pub(crate) fn touch_restoring(&mut self, key: ExtentKey) {
        if let Some(changed) = &mut self.restore.changed
            && changed.insert(key)
        {
            self.note_forgotten(key);
        }
    }
}
