//! Decides whether content of a known fingerprint is a duplicate: by the fingerprint, or with `verify_duplicates` by
//! its bytes.

use super::Job;
use crate::cache::Cache;
use crate::domain::Named;
use crate::fingerprints::ContentPlace;
use bytes::Bytes;
use nitro_cache::{CacheManager, Location};
use nitro_port::{Clock, Device, Urgency};
use nitro_units::{ExtentKey, Fingerprint};

/// The result of comparing an extent with the cached content of its fingerprint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Compared {
    /// No content with this fingerprint can be read.
    New,
    /// The bytes are equal.
    Same(Location),
    /// The bytes differ.
    Different,
}

/// Whether a clean extent was inserted as a reference to cached content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inserted {
    /// It was inserted, or does not have to be inserted any more.
    Yes,
    /// It is new.
    No,
    /// Different content has the same fingerprint.
    Collides,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Compares an extent with the bytes at `location`, which have the same fingerprint. No lock is held meanwhile: the
    /// caller has to check, with the manager locked, that the location is still valid.
    pub(crate) async fn compare(&self, key: ExtentKey, extent: &Bytes, location: Location) -> Compared {
        let Some(there) = self.fetch(&[(key, location)], Urgency::Normal).await.pop().flatten() else {
            return Compared::New;
        };
        self.metrics.duplicates_compared.add(1);
        if there == *extent {
            return Compared::Same(location);
        }
        self.metrics.duplicate_mismatches.add(1);
        let count = self.metrics.duplicate_mismatches.get();
        // Whoever can make collisions can make many.
        if count.is_power_of_two() {
            tracing::warn!(
                object = key.object().0,
                extent = key.index().0,
                count,
                "an extent has the fingerprint of other content: it is stored separately"
            );
        }
        Compared::Different
    }

    /// Compares an extent with the content that the index in RAM has for its fingerprint.
    pub(crate) async fn compare_known(&self, key: ExtentKey, named: &Named, extent: &Bytes) -> Compared {
        let found = self.manager.lock().lookup_fingerprint(&named.within);
        match found {
            Some(location) => self.compare(key, extent, location).await,
            None => Compared::New,
        }
    }

    /// Compares an extent with the content that the index in RAM has for its fingerprint, otherwise with the content at
    /// `place`.
    pub(super) async fn compare_anywhere(
        &self,
        key: ExtentKey,
        named: &Named,
        extent: &Bytes,
        place: Option<ContentPlace>,
    ) -> Compared {
        match (self.compare_known(key, named, extent).await, place) {
            (Compared::New, Some(place)) => {
                let location = self.manager.lock().location(place.weu, place.generation, place.entry);
                match location {
                    Some(location) => self.compare(key, extent, location).await,
                    None => Compared::New,
                }
            }
            (compared, _) => compared,
        }
    }

    /// Inserts a clean extent as a reference: to the location found by the comparison, or without a comparison to the
    /// location of its fingerprint in the indexes.
    pub(super) fn insert_duplicate(
        &self,
        manager: &mut CacheManager,
        job: &Job,
        within: &Fingerprint,
        place: Option<ContentPlace>,
        compared: Option<Compared>,
    ) -> Inserted {
        if job.token.is_void() || manager.is_dirty(job.key) {
            self.metrics.fills_voided.add(1);
            return Inserted::Yes;
        }
        let place = match compared {
            Some(Compared::Different) => return Inserted::Collides,
            Some(Compared::New) => return Inserted::No,
            Some(Compared::Same(location)) => {
                let Location { weu, generation, entry, .. } = location;
                // Evicted since, it is stored again.
                return match manager.insert_known_duplicate(job.key, within, weu, generation, entry) {
                    Some(_) => Inserted::Yes,
                    None => Inserted::No,
                };
            }
            None if manager.insert_duplicate(job.key, within).is_some() => return Inserted::Yes,
            None => place,
        };
        let on_flash = |p: ContentPlace| manager.insert_known_duplicate(job.key, within, p.weu, p.generation, p.entry);
        match place.and_then(on_flash) {
            Some(_) => {
                if !self.is_lean() {
                    self.metrics.flash_index_duplicates.add(1);
                }
                Inserted::Yes
            }
            None => Inserted::No,
        }
    }
}
