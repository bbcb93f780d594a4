//! Short fingerprints on the SSD (Allu et al. 2018, "Fingerprint Index (FPI) Cache"): a few bytes of the fingerprint of
//! each chunk, with its container. The container's metadata on the disk have the full fingerprint, which decides.
//!
//! The entries are in *pages*. The page of a fingerprint follows from some of its bits, and the entry has 24 others:
//! together at least 32 bits from 256 pages on. A page is an SSD piece, and may be lost at any time, like all pieces.
//! New entries are collected in RAM and merged into the pages; entries of containers that no longer exist are dropped
//! then. A wrong entry costs a read of the disk.

mod buffer;
mod lookup;
pub(crate) mod page;
#[cfg(test)]
mod tests;

use super::{Piece, PieceKind, Ssd};
use crate::format::superblock::Superblock;
use buffer::Buffer;
use futures_util::future::join_all;
use nitro_units::Fingerprint;
use page::{ENTRIES_MAX, Entry, Owner, Owners, Spot};
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The maximum number of groups that are merged when the SSD is closed: about 64 MiB of pages. The entries of others
/// are lost.
const CLOSED_GROUPS_MAX: usize = 1024;
/// The maximum number of pages of which the size is determined for statistics.
const SAMPLED_PAGES_MAX: u32 = 1024;

/// The short fingerprints of an SSD.
#[derive(Debug)]
pub(super) struct Short {
    pages: u32,
    owners: Owners,
    buffer: Mutex<Buffer>,
    /// Whether a task merges entries into pages.
    merging: AtomicBool,
    tallies: Tallies,
}

#[derive(Debug, Default)]
struct Tallies {
    lookups: AtomicU64,
    found: AtomicU64,
    false_tags: AtomicU64,
    stale: AtomicU64,
    merged_pages: AtomicU64,
    dropped: AtomicU64,
}

/// Statistics of the short fingerprints on an SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ShortStats {
    /// The number of pages that the SSD may have.
    pub pages_max: u64,
    /// Approximate bytes of the pages that are on the SSD.
    pub bytes: u64,
    /// RAM of new entries, in bytes.
    pub ram_bytes: u64,
    /// The number of entries in RAM that are not in their pages yet.
    pub buffered: u64,
    /// The number of look-ups.
    pub lookups: u64,
    /// The number of look-ups that found the container of their content.
    pub found: u64,
    /// The number of containers whose metadata were read and did not have the full fingerprint: collisions.
    pub false_tags: u64,
    /// The number of entries whose container does not exist any more; most are known without a read.
    pub stale: u64,
    /// The number of pages that were written.
    pub merged_pages: u64,
    /// The number of entries that were dropped because their page, or the RAM for new entries, was full.
    pub dropped: u64,
}

/// The page of a fingerprint, and the bits of it that its entry there has, for a store that is planned for this number of
/// chunks: two contents with the same two numbers collide. For statistics.
#[must_use]
pub fn short_spot(fingerprint: &Fingerprint, chunks: u64) -> (u32, u32) {
    let Spot { page, tag } = Spot::of(fingerprint, page::pages_for(chunks));
    (page, tag)
}

/// Removes the entries of containers that do not exist any more.
pub(super) type Purge<'a> = dyn Fn(&mut Vec<Entry>) + 'a;

/// The right to merge, which one task has.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Short {
    pub(super) fn new(pages: u32, store: &Superblock) -> Self {
        Self {
            pages,
            owners: Owners::new(store.containers),
            buffer: Mutex::new(Buffer::new(pages, store.index_entries)),
            merging: AtomicBool::new(false),
            tallies: Tallies::default(),
        }
    }

    /// The maximum RAM in bytes.
    pub(super) fn ram_bytes_max(pages: u32, store: &Superblock) -> u64 {
        Buffer::ram_bytes_max(pages, store.index_entries)
    }

    pub(super) fn ram_bytes(&self) -> u64 {
        self.buffer.lock().ram_bytes()
    }

    /// Another task may have the turn.
    fn turn(&self) -> Option<Turn<'_>> {
        (!self.merging.swap(true, SeqCst)).then_some(Turn(&self.merging))
    }

    fn note(&self, fingerprint: &Fingerprint, owner: Owner) {
        let Spot { page, tag } = Spot::of(fingerprint, self.pages);
        if !self.buffer.lock().push(page, Entry { tag, owner }) {
            self.tallies.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Ssd {
    /// The short fingerprints, if the SSD has them and is in use.
    fn short(&self) -> Option<&Short> {
        self.short.as_ref().filter(|_| self.keeps(PieceKind::Fpi))
    }

    /// The containers that may have a content, the most probable first.
    async fn owners(&self, short: &Short, fingerprint: &Fingerprint) -> Vec<Owner> {
        short.tallies.lookups.fetch_add(1, Relaxed);
        let spot = Spot::of(fingerprint, short.pages);
        let new = short.buffer.lock().owners(spot);
        if !new.is_empty() {
            return new;
        }
        let Some(page) = self.get(&Piece::short(spot.page, self.keys)).await else { return Vec::new() };
        page::entries(&page).filter(|entry| entry.tag == spot.tag).map(|entry| entry.owner).collect()
    }

    /// Merges new entries into their pages if there are many, unless another task does this.
    async fn merge_if_full(&self, short: &Short, purge: &Purge<'_>) {
        while short.buffer.lock().is_full() {
            let Some(_turn) = short.turn() else { return };
            self.merge_fullest(short, purge).await;
        }
    }

    /// Merges new entries before the SSD is closed, as far as this takes a bounded time.
    pub(super) async fn merge_all(&self, purge: &Purge<'_>) {
        let Some(short) = self.short() else { return };
        let Some(_turn) = short.turn() else { return };
        for _ in 0..CLOSED_GROUPS_MAX {
            if !self.merge_fullest(short, purge).await {
                break;
            }
        }
    }

    /// Merges the group of pages with the most new entries. Returns false if there are none.
    async fn merge_fullest(&self, short: &Short, purge: &Purge<'_>) -> bool {
        let Some((group, taken)) = short.buffer.lock().fullest() else { return false };
        let mut pages: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
        for packed in taken.iter().rev() {
            let (page, entry) = buffer::unpack(group, *packed);
            pages.entry(page).or_default().push(entry);
        }
        let merges = pages.into_iter().map(async |(page, new)| {
            let piece = Piece::short(page, self.keys);
            let old = self.find(&piece, false).await.unwrap_or_default();
            let mut entries = page::merged(new.into_iter(), &old);
            purge(&mut entries);
            let full = entries.len().saturating_sub(ENTRIES_MAX);
            entries.truncate(ENTRIES_MAX);
            short.tallies.dropped.fetch_add(full as u64, Relaxed);
            short.tallies.merged_pages.fetch_add(1, Relaxed);
            self.replace(&piece, &page::encode(&entries)).await;
        });
        join_all(merges).await;
        // Until now, look-ups found them here.
        short.buffer.lock().remove(group, taken.len());
        true
    }

    /// The statistics of the short fingerprints.
    pub(super) fn short_stats(&self) -> Option<ShortStats> {
        let short = self.short.as_ref()?;
        let (ram_bytes, buffered) = {
            let buffer = short.buffer.lock();
            (buffer.ram_bytes(), buffer.len() as u64)
        };
        let step = short.pages.div_ceil(SAMPLED_PAGES_MAX);
        let sampled =
            (0..short.pages).step_by(step as usize).map(|page| self.piece_bytes(&Piece::short(page, self.keys)));
        let tallies = &short.tallies;
        Some(ShortStats {
            pages_max: short.pages.into(),
            bytes: sampled.sum::<u64>() * u64::from(step),
            ram_bytes,
            buffered,
            lookups: tallies.lookups.load(Relaxed),
            found: tallies.found.load(Relaxed),
            false_tags: tallies.false_tags.load(Relaxed),
            stale: tallies.stale.load(Relaxed),
            merged_pages: tallies.merged_pages.load(Relaxed),
            dropped: tallies.dropped.load(Relaxed),
        })
    }
}
