//! Finds contents by the tags of a [lean](nitro_cache::IndexKind::Lean) index: a candidate is believed once the fingerprint in
//! the table of its unit has been compared. The table is in RAM while the unit is; otherwise it is read from the SSD, and the
//! tables read last are kept.

use crate::cache::Cache;
use crate::fingerprints::{ContentPlace, FingerprintIndex};
use futures_util::future::join_all;
use nitro_cache::settings::UNIT_TABLES;
use nitro_cache::{IndexKind, Location, LruMap, Settings};
use nitro_port::{Clock, Device};
use nitro_units::{Fingerprint, Generation, ObjectId, WeuId};
use parking_lot::Mutex;
use std::sync::Arc;

/// Look-ups that are made together read units one after the other if their numbers are equal modulo this: none reads a table that
/// another one is reading.
const READERS: usize = 64;

/// The fingerprints of a unit's entries, with the objects of their first keys.
type Table = Arc<[(ObjectId, Option<Fingerprint>)]>;

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
        (entries * size_of::<(ObjectId, Option<Fingerprint>)>()) as u64
    }

    fn get(&self, location: &Location) -> Option<Table> {
        let mut read = self.read.lock();
        let (generation, table) = read.get(&location.weu)?;
        (*generation == location.generation).then(|| table.clone())
    }

    fn keep(&self, location: &Location, table: &Table) {
        let bytes = Self::bytes_of(table.len());
        self.read.lock().insert(location.weu, (location.generation, table.clone()), bytes);
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
        for location in candidates {
            let found = self.fingerprint_at(&location, together).await;
            if found == Some(*within) {
                self.manager.lock().confirm(within, &location);
                return Some(location);
            }
            self.metrics.false_tags.add(u64::from(found.is_some()));
        }
        None
    }

    /// The fingerprint of the content at a location, as the indexes know it; `None`: it has none, its unit has another filling
    /// by now, or the table cannot be read.
    async fn fingerprint_at(&self, location: &Location, together: &Together) -> Option<Fingerprint> {
        if let Some(fingerprint) = self.resident.fingerprint(location) {
            return fingerprint;
        }
        let table = self.unit_table(location, together).await?;
        // The filling is compared after the table was read: a refill raises the generation before it writes.
        if !self.manager.lock().is_current(location.weu, location.generation) {
            return None;
        }
        let (object, fingerprint) = *table.get(usize::from(location.entry))?;
        Some(self.domain(object).within(&fingerprint?))
    }

    async fn unit_table(&self, location: &Location, together: &Together) -> Option<Table> {
        if let Some(table) = self.unit_tables.get(location) {
            return Some(table);
        }
        let _reading = together.reading(location.weu).await;
        if let Some(table) = self.unit_tables.get(location) {
            return Some(table);
        }
        self.metrics.unit_tables_read.add(1);
        let header = self.read_header(location.weu).await?;
        // After a crash, a generation may be used twice: only the start tells such fillings apart.
        let filled = (header.head.generation, header.head.start);
        if filled != (location.generation, self.filled_in(location.weu)) {
            return None;
        }
        let table: Table = header.entries.iter().map(|entry| (entry.key.object(), entry.fingerprint)).collect();
        self.unit_tables.keep(location, &table);
        Some(table)
    }
}
