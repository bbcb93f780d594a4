//! Writes of a part of an extent, in write-through. With what is cached of the extent, or with the parts that were written
//! before, the part becomes content for the cache; otherwise the extent may be worth a [read of its rest](super::remainder).

use super::Volume;
use super::remainder::{Parts, Remainder};
use super::write_back::Written;
use crate::insert::{Content, Merge, Patch};
use crate::kept::Kept;
use bytes::Bytes;
use nitro_cache::Location;
use nitro_cache::admission::Provenance;
use nitro_cache::partial::{Fate, Gathered};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, Origin};
use nitro_units::{ExtentIndex, ExtentKey, ExtentRange, Fingerprint};
use std::sync::Arc;

/// What there was of the extents at the edges of a write: of two at most, in the order in which it was found. It is part of the
/// future of each write, so that what few of them find has its own memory.
#[derive(Default)]
pub(super) struct Before {
    /// In RAM.
    bytes: Vec<(ExtentIndex, Bytes)>,
    /// On the SSD.
    locations: Vec<(ExtentIndex, Location)>,
    rare: Option<Box<Rare>>,
}

/// What few writes find.
#[derive(Default)]
struct Rare {
    /// On the SSD, and overwritten in part since.
    merges: Vec<(ExtentIndex, Arc<Merge>)>,
    /// Parts of extents that are not cached.
    parts: Vec<(ExtentIndex, Gathered<Parts>)>,
    /// What is worth a read of the rest, once the write has ended.
    worth: Vec<Parts>,
}

impl Before {
    pub(super) fn take_worth(&mut self) -> Vec<Parts> {
        self.rare.as_mut().map(|rare| std::mem::take(&mut rare.worth)).unwrap_or_default()
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn merge(&self, index: ExtentIndex) -> Option<&Arc<Merge>> {
        last_of(&self.rare.as_ref()?.merges, index)
    }

    fn parts(&self, index: ExtentIndex) -> Option<&Gathered<Parts>> {
        last_of(&self.rare.as_ref()?.parts, index)
    }

    pub(super) fn in_ram(&mut self, index: ExtentIndex, bytes: Bytes) {
        self.bytes.push((index, bytes));
    }

    pub(super) fn on_ssd(&mut self, index: ExtentIndex, location: Location) {
        self.locations.push((index, location));
    }

    /// It waited for insertion, until the write made that void.
    pub(super) fn pending(&mut self, index: ExtentIndex, content: Content) {
        match content {
            Content::Whole(kept, _) => self.bytes.push((index, kept.bytes().clone())),
            Content::Merge(merge) => self.rare().merges.push((index, merge)),
        }
    }
}

/// The write that a part belongs to.
#[derive(Clone, Copy)]
struct PartOf {
    from: Provenance,
    /// It covers other extents, too.
    is_edge: bool,
}

/// What was found last of an extent.
fn last_of<T>(found: &[(ExtentIndex, T)], index: ExtentIndex) -> Option<&T> {
    found.iter().rev().find(|(of, _)| *of == index).map(|(_, what)| what)
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Takes the parts of the extents at the edges of a write out of those that wait. To be called under the guard of the
    /// write; the others are forgotten with what RAM has of them.
    pub(super) fn take_parts(&self, extents: ExtentRange, before: &mut Before) {
        let mut parts = self.cache.parts.lock();
        parts.note_written(extents.count());
        if parts.is_empty() {
            return;
        }
        let last = ExtentIndex(extents.end.0.saturating_sub(1));
        let edges = [Some(extents.start), Some(last).filter(|last| *last != extents.start)];
        let take = |index: ExtentIndex| Some((index, parts.take(&self.key(index))?));
        let found: Vec<_> = edges.into_iter().flatten().filter_map(take).collect();
        if !found.is_empty() {
            before.rare().parts = found;
        }
    }

    /// The content of a written extent for the cache: the written data if they cover it, otherwise with what there was of
    /// it before. `None`: it stays uncached for now.
    pub(super) fn content(
        &self,
        index: ExtentIndex,
        (Written { offset, data }, from): (&Written, Provenance),
        known: Option<Fingerprint>,
        before: &mut Before,
    ) -> Option<Content> {
        let extent_bytes = self.extent_bytes();
        let start = index.offset(extent_bytes);
        let (first, end) = (start.max(*offset), (offset + data.len() as u64).min(start + extent_bytes));
        let part = data.slice((first - offset) as usize..(end - offset) as usize);
        if first == start && end == (start + extent_bytes).min(self.size_bytes()) {
            let whole = part.len() as u64 == extent_bytes;
            let kept = match whole {
                true => Kept::part(part, data.len() as u64, &self.cache.zero_extent),
                false => Kept::own(self.padded(&part)),
            };
            return Some(Content::Whole(kept, known));
        }
        let at = (first - start) as usize;
        if let Some(old) = last_of(&before.bytes, index) {
            self.metrics.partial_merged.add(1);
            let mut merged = BufMut::copy_of(old);
            merged[at..at + part.len()].copy_from_slice(&part);
            return Some(Content::Whole(Kept::own(merged.freeze()), None));
        }
        let is_edge = part.len() < data.len();
        let part = if is_edge { Bytes::copy_from_slice(&part) } else { part };
        let merge = match last_of(&before.locations, index) {
            Some(base) => {
                self.metrics.partial_merged.add(1);
                Some(Merge { base: *base, patch: Patch::default() })
            }
            None => before.merge(index).map(|merge| {
                self.metrics.partial_joined.add(1);
                Merge::clone(merge)
            }),
        };
        let Some(mut merge) = merge else { return self.uncached(index, (at, part), PartOf { from, is_edge }, before) };
        merge.patch.add(at, part, extent_bytes as usize);
        Some(match merge.patch.reach(self.end_in(index)) {
            true => Content::Whole(Kept::own(merge.patch.whole(extent_bytes as usize)), None),
            false => Content::Merge(Arc::new(merge)),
        })
    }

    /// The end of the volume's bytes in an extent.
    fn end_in(&self, index: ExtentIndex) -> u64 {
        (self.size_bytes() - index.offset(self.extent_bytes())).min(self.extent_bytes())
    }

    /// What the cache gets of a part of an extent that is not cached, under the guard of its write.
    fn uncached(
        &self,
        index: ExtentIndex,
        (at, part): (usize, Bytes),
        of: PartOf,
        before: &mut Before,
    ) -> Option<Content> {
        let extent_bytes = self.extent_bytes() as usize;
        let (mut patch, was_edge) = match before.parts(index) {
            Some(gathered) => (gathered.parts.patch.clone(), gathered.is_edge),
            None => (Patch::default(), false),
        };
        patch.add(at, part, extent_bytes);
        let fate = self.cache.settings.partial_writes.fate(patch.reach(self.end_in(index)));
        if fate == Fate::Whole {
            self.metrics.partial_completed.add(1);
            return Some(Content::Whole(Kept::own(patch.whole(extent_bytes)), None));
        }
        self.metrics.partial_left.add(1);
        let remainder = Remainder { index, from: of.from };
        let parts = Parts { patch, remainder, remainders: self.remainders.clone() };
        match fate {
            Fate::Fetch => before.rare().worth.push(parts),
            Fate::Wait => {
                if let Some(left) = self.gather(self.key(index), parts, was_edge || of.is_edge) {
                    before.rare().worth.push(left);
                }
            }
            Fate::Leave | Fate::Whole => {}
        }
        None
    }

    /// Lets parts wait. Returns those that leave for them, and whose rest is worth a read of the origin.
    fn gather(&self, key: ExtentKey, parts: Parts, is_edge: bool) -> Option<Parts> {
        let mut waiting = self.cache.parts.lock();
        // Whoever detaches the volume drops the parts after the flag has fallen.
        if !self.is_attached() {
            return None;
        }
        let (key, left) = waiting.keep(key, Gathered { parts, is_edge })?;
        drop(waiting);
        let is_worth = left.is_edge || self.cache.manager.lock().is_worth_fetching(key);
        (is_worth && self.cache.parts.lock().affords_read()).then_some(left.parts)
    }

    /// Asks for what is worth a read of its rest; the write has ended.
    pub(super) fn want_remainders(&self, worth: Vec<Parts>) {
        let dropped = worth.into_iter().map(|parts| u64::from(parts.want_remainder())).sum();
        self.metrics.partial_fetches_dropped.add(dropped);
    }
}
