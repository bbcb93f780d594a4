//! Finds contents by the tags of a [lean](nitro_cache::IndexKind::Lean) index: a tag names a unit, whose table is searched for the
//! whole fingerprint. The table is in RAM while the unit is; otherwise it is read from the SSD, and the tables read last are
//! kept.

use crate::cache::Cache;
use crate::fingerprints::{ContentPlace, FingerprintIndex};
use crate::format::weu::Entry;
use futures_util::future::join_all;
use nitro_cache::settings::UNIT_TABLES;
use nitro_cache::{Candidate, IndexKind, Location, LruMap, Settings};
use nitro_port::{Clock, Device};
use nitro_units::{Fingerprint, Generation, ObjectId, WeuId};
use parking_lot::Mutex;
use std::sync::Arc;

/// Look-ups that are made together read units one after the other if their numbers are equal modulo this: none reads a table that
/// another one is reading.
const READERS: usize = 64;

/// An entry of a unit: the object of its first key, the fingerprint, and a part of it as the indexes knew it when the table
/// was read.
struct Named {
    object: ObjectId,
    fingerprint: Fingerprint,
    part: u32,
    number: u16,
}

/// The entries of a unit that have a fingerprint.
type Table = Arc<[Named]>;

/// The part of a fingerprint that entries are compared by first.
fn part_of(fingerprint: &Fingerprint) -> u32 {
    let [a, b, c, d, ..] = fingerprint.0;
    u32::from_le_bytes([a, b, c, d])
}

/// Tables of units on the SSD.
pub(crate) struct UnitTables {
    /// By unit, with the filling.
    read: Mutex<LruMap<WeuId, (Generation, Table)>>,
}

/// Look-ups that are polled together. No other one waits for them: a worker polls its look-ups only when it wants the next extent, and
/// would not do so while it waits for one of them elsewhere.
struct Together(Box<[futures_util::lock::Mutex<()>]>);

impl Together {
    /// For so many look-ups at a time.
    fn new(look_ups: usize) -> Self {
        Self((0..look_ups.clamp(1, READERS)).map(|_| futures_util::lock::Mutex::default()).collect())
    }

    async fn reading(&self, weu: WeuId) -> Option<futures_util::lock::MutexGuard<'_, ()>> {
        Some(self.0.get(weu.0 as usize % self.0.len())?.lock().await)
    }
}

impl UnitTables {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { read: Mutex::new(LruMap::new(Self::ram_bytes(settings))) }
    }

    /// RAM in bytes.
    pub(crate) fn ram_bytes(settings: &Settings) -> u64 {
        match settings.index {
            IndexKind::Exact => 0,
            IndexKind::Lean => UNIT_TABLES * Self::bytes_of(settings.weu_entries_max() as usize),
        }
    }

    fn bytes_of(entries: usize) -> u64 {
        (entries * size_of::<Named>()) as u64
    }

    fn get(&self, of: Candidate) -> Option<Table> {
        let mut read = self.read.lock();
        let (generation, table) = read.get(&of.weu)?;
        (*generation == of.generation).then(|| table.clone())
    }

    fn keep(&self, of: Candidate, table: &Table) {
        let bytes = Self::bytes_of(table.len());
        self.read.lock().insert(of.weu, (of.generation, table.clone()), bytes);
    }
}

/// The tags as an index of fingerprints whose look-ups, of one worker, read the SSD. The manager itself adds to it.
pub(super) struct ByTag<'a, F, C> {
    cache: &'a Cache<F, C>,
    together: Together,
}

impl<'a, F, C> ByTag<'a, F, C> {
    pub(super) fn new(cache: &'a Cache<F, C>) -> Self {
        Self { cache, together: Together::new(READERS) }
    }
}

impl<F: Device, C: Clock> FingerprintIndex for ByTag<'_, F, C> {
    async fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        self.cache.place_by_tag(fingerprint, &self.together).await
    }

    async fn find_alone(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        self.cache.place_by_tag(fingerprint, &Together::new(1)).await
    }

    async fn note(&self, _fingerprint: &Fingerprint, _place: ContentPlace) {}
}

impl<F: Device, C: Clock> Cache<F, C> {
    pub(crate) fn is_lean(&self) -> bool {
        self.settings.manager.index == IndexKind::Lean
    }

    /// Has the manager know these fingerprints whole, as far as it has tags of them, so that it finds their contents.
    pub(crate) async fn learn(&self, fingerprints: impl IntoIterator<Item = Fingerprint>) {
        if !self.is_lean() {
            return;
        }
        let all: Vec<Fingerprint> = fingerprints.into_iter().collect();
        let together = Together::new(all.len());
        join_all(all.iter().map(|fingerprint| self.find_by_tag(fingerprint, &together))).await;
    }

    async fn place_by_tag(&self, within: &Fingerprint, together: &Together) -> Option<ContentPlace> {
        let Location { weu, entry, generation, .. } = self.find_by_tag(within, together).await?;
        Some(ContentPlace::new(weu, entry, generation, self.filled_in(weu)))
    }

    /// Finds the content of a fingerprint that the manager has a tag of, and does not know whole; it does from then on.
    async fn find_by_tag(&self, within: &Fingerprint, together: &Together) -> Option<Location> {
        let candidates = self.manager.lock().candidates(within);
        for candidate in candidates {
            match self.entry_in(candidate, within, together).await {
                None => {}
                Some(None) => self.metrics.false_tags.add(1),
                Some(Some(entry)) => {
                    let found = self.manager.lock().confirm(within, candidate, entry);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// The entry of a unit whose content has this fingerprint, as the indexes know it; `None`: the unit has another filling by
    /// now, or its table cannot be read.
    async fn entry_in(&self, of: Candidate, within: &Fingerprint, together: &Together) -> Option<Option<u16>> {
        if let Some(entry) = self.resident.find(of.weu, of.generation, within) {
            return Some(entry);
        }
        let table = self.unit_table(of, together).await?;
        let part = part_of(within);
        // An object may have another domain than when the table was read.
        let has_it =
            |entry: &&Named| entry.part == part && self.domain(entry.object).within(&entry.fingerprint) == *within;
        Some(table.iter().find(has_it).map(|entry| entry.number))
    }

    async fn unit_table(&self, of: Candidate, together: &Together) -> Option<Table> {
        if let Some(table) = self.unit_tables.get(of) {
            return Some(table);
        }
        let _reading = together.reading(of.weu).await;
        if let Some(table) = self.unit_tables.get(of) {
            return Some(table);
        }
        self.metrics.unit_tables_read.add(1);
        let header = self.read_header(of.weu).await?;
        // After a crash, a generation may be used twice: only the start tells such fillings apart.
        let filled = (header.head.generation, header.head.start);
        if filled != (of.generation, self.filled_in(of.weu)) {
            return None;
        }
        let entry = |(number, entry): (u16, &Entry)| {
            let (object, fingerprint) = (entry.key.object(), entry.fingerprint?);
            Some(Named { object, fingerprint, part: part_of(&self.domain(object).within(&fingerprint)), number })
        };
        let table: Table = (0..).zip(&header.entries).filter_map(entry).collect();
        self.unit_tables.keep(of, &table);
        Some(table)
    }
}
