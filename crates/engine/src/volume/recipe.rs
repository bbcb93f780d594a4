//! Origins that know their contents by fingerprint: missing extents are looked up by fingerprint among the cached
//! contents of all volumes, before the origin is read (Nitro, §3, "cache hit path": duplicates through recipes).

use super::Volume;
use super::read::SsdRun;
use super::stretches::RunRead;
use crate::error::Error;
use crate::settings::EngineSettings;
use bytes::Bytes;
use futures_util::future::{join, join_all};
use nitro_port::buf::is_zero;
use nitro_port::codec::FingerprintHash;
use nitro_port::{Clock, Device, Origin, Recipe, Urgency};
use nitro_units::{ExtentIndex, ExtentRange, Fingerprint};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Whether an origin and a cache use the same fingerprints.
pub(super) fn are_shared(settings: &EngineSettings, origin: &impl Origin) -> bool {
    origin.recipe_extent_bytes() == Some(settings.manager.extent_bytes)
        && settings.manager.dedup
        && settings.fingerprint_hash == FingerprintHash::Blake3
}

/// Runs of extents that were not cached, as they were read.
#[derive(Default)]
pub(super) struct Missing {
    /// From the extent with this number on.
    first: u64,
    recipe: Recipe,
    pub(super) runs: Vec<RunRead>,
}

impl Missing {
    /// The fingerprint of an extent, if the origin knows it.
    pub(super) fn known(&self, index: ExtentIndex) -> Option<Fingerprint> {
        self.recipe.get((index.0 - self.first) as usize).copied().flatten()
    }
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

    /// Reads runs of extents, in order and not adjacent, that are not cached under their own keys: from the cache what it
    /// has of the content in the origin's recipe, and at the same time the rest from the origin.
    pub(super) async fn read_missing(&self, runs: &[ExtentRange], urgency: Urgency) -> Missing {
        let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return Missing::default() };
        let stretch = ExtentRange::new(first.start, last.end);
        let recipe = self.known_recipe(stretch).await;
        let read = match recipe.is_empty() {
            true => self.read_runs(runs, urgency).await,
            false => self.read_by_recipe(runs, &recipe, urgency).await,
        };
        Missing { first: stretch.start.0, recipe, runs: read }
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

    /// Reads runs of extents whose fingerprints are in `recipe`, from that of the first one on.
    async fn read_by_recipe(&self, runs: &[ExtentRange], recipe: &Recipe, urgency: Urgency) -> Vec<RunRead> {
        let Some(first) = runs.first().map(|run| run.start) else { return Vec::new() };
        let domain = self.cache.domain(self.options.object);
        self.cache.learn(recipe.iter().flatten().map(|fingerprint| domain.within(fingerprint))).await;
        let known = self.find_known(runs, first, recipe);
        let is_known: HashSet<ExtentIndex> = known.iter().flat_map(SsdRun::indexes).collect();
        let fingerprint = |index: ExtentIndex| recipe.get((index.0 - first.0) as usize).copied().flatten();
        let missing = parts_of(runs, |index| fingerprint(index).is_some() && !is_known.contains(&index));
        let fetched = join_all(known.iter().map(|run| self.cache.fetch(&run.extents, urgency)));
        let (fetched, read) = join(fetched, self.read_runs(&missing, urgency)).await;
        let mut found: HashMap<ExtentIndex, Result<Bytes, Error>> = HashMap::new();
        for (run, extents) in known.iter().zip(fetched) {
            found.extend(run.indexes().zip(extents).filter_map(|(index, extent)| Some((index, Ok(extent?)))));
        }
        let zeroes = runs.iter().flat_map(|run| run.iter()).filter(|index| fingerprint(*index).is_none()).count();
        self.metrics.recipe_hit_extents.add((found.len() + zeroes) as u64);
        note(&mut found, &missing, read);
        // What was known, and is not in the cache any more.
        let lost = parts_of(runs, |index| is_known.contains(&index) && !found.contains_key(&index));
        note(&mut found, &lost, self.read_runs(&lost, urgency).await);
        let zero = || Ok(self.cache.zero_extent.clone());
        runs.iter().map(|run| run.iter().map(|index| found.remove(&index).unwrap_or_else(zero)).collect()).collect()
    }

    /// Those extents of runs of which the cache has the content; extents that are near one another on the SSD are together.
    fn find_known(&self, runs: &[ExtentRange], first: ExtentIndex, recipe: &Recipe) -> Vec<SsdRun> {
        let mut known: Vec<SsdRun> = Vec::new();
        let domain = self.cache.domain(self.options.object);
        for index in runs.iter().flat_map(|run| run.iter()) {
            let Some(fingerprint) = recipe.get((index.0 - first.0) as usize).copied().flatten() else { continue };
            let location = self.cache.manager.lock().lookup_fingerprint(&domain.within(&fingerprint));
            let Some(location) = location else { continue };
            if !known.last().is_some_and(|run| run.reaches(&location)) {
                known.push(SsdRun::default());
            }
            if let Some(run) = known.last_mut() {
                run.push(self.key(index), location, 0);
            }
        }
        known
    }
}

/// The parts of runs with extents that fulfil a condition.
fn parts_of(runs: &[ExtentRange], is_wanted: impl Fn(ExtentIndex) -> bool) -> Vec<ExtentRange> {
    let mut parts: Vec<ExtentRange> = Vec::new();
    for run in runs {
        let begun = parts.len();
        for index in run.iter().filter(|index| is_wanted(*index)) {
            match parts[begun..].last_mut() {
                Some(last) if last.end == index => last.end = index.next(),
                _ => parts.push(ExtentRange::one(index)),
            }
        }
    }
    parts
}

/// Notes what was read of runs.
fn note(found: &mut HashMap<ExtentIndex, Result<Bytes, Error>>, runs: &[ExtentRange], read: Vec<RunRead>) {
    for (run, read) in runs.iter().zip(read) {
        match read {
            Ok(extents) => found.extend(run.iter().zip(extents.into_iter().map(Ok))),
            Err(error) => found.extend(run.iter().map(|index| (index, Err(error.clone())))),
        }
    }
}
