//! Origins that know their contents by fingerprint: missing extents are looked up by fingerprint among the cached
//! contents of all volumes, before the origin is read (Nitro, §3, "cache hit path": duplicates through recipes).

use super::Volume;
use super::read::SsdRun;
use crate::error::Error;
use crate::settings::EngineSettings;
use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use nitro_port::buf::is_zero;
use nitro_port::codec::FingerprintHash;
use nitro_port::{Clock, Device, Origin, Recipe, Urgency};
use nitro_units::{ExtentIndex, ExtentRange, Fingerprint};
use std::ops::Range;

/// Whether an origin and a cache use the same fingerprints.
pub(super) fn are_shared(settings: &EngineSettings, origin: &impl Origin) -> bool {
    origin.recipe_extent_bytes() == Some(settings.manager.extent_bytes)
        && settings.manager.dedup
        && settings.fingerprint_hash == FingerprintHash::Blake3
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Whether fingerprints are passed between origin and cache.
    fn goes_by_recipes(&self) -> bool {
        self.has_recipes && self.is_cached()
    }

    /// The fingerprints of the extents that a write touches, for origin and cache: only of extents that it covers
    /// completely and not with zeroes. Empty if the origin does not use fingerprints.
    pub(super) fn fingerprints(&self, offset: u64, data: &[u8]) -> Recipe {
        if !self.goes_by_recipes() {
            return Recipe::new();
        }
        let extent_bytes = self.extent_bytes();
        let fingerprint = |index: ExtentIndex| {
            let from = index.offset(extent_bytes).checked_sub(offset)? as usize;
            let whole = data.get(from..from + extent_bytes as usize)?;
            (!is_zero(whole)).then(|| self.cache.hash().of(whole))
        };
        self.extents(offset, data.len() as u64).iter().map(fingerprint).collect()
    }

    /// Reads extents that are not cached under their own key: from the cache if it has the content in the origin's
    /// recipe, otherwise from the origin. Also returns that recipe, or an empty one.
    pub(super) async fn read_missing(
        &self,
        extents: ExtentRange,
        urgency: Urgency,
    ) -> Result<(Vec<Bytes>, Recipe), Error> {
        let recipe = self.known_recipe(extents).await;
        let read = match recipe.is_empty() {
            true => self.read_origin_extents(extents, urgency).await?,
            false => self.read_by_recipe(extents, &recipe, urgency).await?,
        };
        Ok((read, recipe))
    }

    /// What the origin says that extents hold; empty where it cannot tell.
    async fn known_recipe(&self, extents: ExtentRange) -> Recipe {
        // A recipe tells fingerprints, and has no bytes to compare.
        if !self.goes_by_recipes() || self.cache.settings.verify_duplicates {
            return Recipe::new();
        }
        let Range { start, end } = extents.bytes(self.extent_bytes());
        let len = end.min(self.size_bytes()) - start;
        // An origin that cannot tell may still have them.
        let mut recipe = self.origin.recipe(start, len).await.unwrap_or_default();
        if recipe.len() as u64 != extents.count() {
            recipe.clear();
        }
        recipe
    }

    async fn read_by_recipe(
        &self,
        extents: ExtentRange,
        recipe: &Recipe,
        urgency: Urgency,
    ) -> Result<Vec<Bytes>, Error> {
        let mut found = self.read_known(extents.start, recipe, urgency).await;
        let known = found.iter().flatten().count() as u64;
        self.metrics.recipe_hit_extents.add(known);
        let missing = extents.iter().zip(&found).filter(|(_, found)| found.is_none());
        let missing: Vec<ExtentIndex> = missing.map(|(index, _)| index).collect();
        let runs = missing.chunk_by(|a, b| a.next() == *b);
        let runs = runs.filter_map(|run| Some(ExtentRange::from(*run.first()?, run.len() as u64)));
        let reads = runs.map(|run| async move {
            let read = self.read_origin_extents(run, urgency).await?;
            Ok::<_, Error>((run.start, read))
        });
        for (first, read) in try_join_all(reads).await? {
            let at = (first.0 - extents.start.0) as usize;
            for (place, bytes) in found[at..].iter_mut().zip(read) {
                *place = Some(bytes);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Reads the cached contents of a recipe; zeroes are always available.
    async fn read_known(
        &self,
        first: ExtentIndex,
        recipe: &[Option<Fingerprint>],
        urgency: Urgency,
    ) -> Vec<Option<Bytes>> {
        let mut found: Vec<Option<Bytes>> = vec![None; recipe.len()];
        // Extents that stand near one another on the SSD are read in one go.
        let mut runs: Vec<(Vec<usize>, SsdRun)> = Vec::new();
        let domain = self.cache.domain(self.options.object);
        let extents = ExtentRange::from(first, recipe.len() as u64);
        for ((i, fingerprint), index) in recipe.iter().enumerate().zip(extents.iter()) {
            let Some(fingerprint) = fingerprint else {
                found[i] = Some(self.cache.zero_extent.clone());
                continue;
            };
            let Some(location) = self.cache.manager.lock().lookup_fingerprint(&domain.within(fingerprint)) else {
                continue;
            };
            let key = self.key(index);
            match runs.last_mut().filter(|(_, run)| run.reaches(&location)) {
                Some((numbers, run)) => {
                    numbers.push(i);
                    run.push(key, location, 0);
                }
                None => {
                    let mut run = SsdRun::default();
                    run.push(key, location, 0);
                    runs.push((vec![i], run));
                }
            }
        }
        let reads = runs.iter().map(|(_, run)| self.cache.fetch(&run.extents, urgency));
        let fetched = join_all(reads).await;
        for ((numbers, _), extents) in runs.iter().zip(fetched) {
            for (i, extent) in numbers.iter().zip(extents) {
                found[*i] = extent;
            }
        }
        found
    }
}
