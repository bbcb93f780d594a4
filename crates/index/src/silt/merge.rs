//! Merges (SILT §4.3): the oldest hash stores of a partition and its sorted store become a new sorted store. All are
//! sorted, so each is read once, concurrently, and the result is written once, whatever its size. Removals are dropped
//! here, because no older store is left.

use super::cursor::Cursor;
use super::pace::Pace;
use super::page::{Layout, PageKind};
use super::plan::MERGED_MAX;
use super::run::{Run, RunWriter};
use super::stores::SortedStore;
use super::trie::{Trie, TrieBuilder};
use super::{Change, Silt};
use crate::{Error, PAGE_BYTES};
use nitro_port::Device;
use std::cmp;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The number of entries between two yields to other tasks.
const TURN: usize = 1024;

/// The cursor with the lowest entry; of equal keys, the newest entry. Cursors are ordered from new to old.
fn lowest(cursors: &[Cursor<'_>]) -> Option<usize> {
    let mut lowest: Option<(usize, u64)> = None;
    for (at, cursor) in cursors.iter().enumerate() {
        let Some(hash) = cursor.hash() else { continue };
        let before = lowest.is_none_or(|(other, least)| match hash.cmp(&least) {
            cmp::Ordering::Less => true,
            cmp::Ordering::Equal => cursor.entry().0 < cursors[other].entry().0,
            cmp::Ordering::Greater => false,
        });
        if before {
            lowest = Some((at, hash));
        }
    }
    lowest.map(|(at, _)| at)
}

impl<D: Device> Silt<D> {
    /// Merges the partition with the most hash stores, unless there are fewer than `from` hash stores in total.
    pub(super) async fn merge_next(&self, pace: &impl Pace, from: usize) -> Result<bool, Error> {
        let role = self.merging.lock().await;
        if self.hash_stores() < from.max(1) {
            return Ok(false);
        }
        let stores = |p: &usize| self.partitions[*p].stores().hashes.len();
        let Some(partition) = (0..self.partitions.len()).max_by_key(stores) else { return Ok(false) };
        self.merge(partition, pace).await?;
        drop(role);
        Ok(true)
    }

    /// Merges a partition; the caller holds the lock `merging`.
    async fn merge(&self, partition: usize, pace: &impl Pace) -> Result<(), Error> {
        self.io.check()?;
        let stores = self.partitions[partition].stores();
        let oldest = stores.hashes.len().saturating_sub(MERGED_MAX);
        let merged = &stores.hashes[oldest..];
        let runs: Vec<&Run> = merged.iter().map(|s| &s.run).chain(stores.sorted.iter().map(|s| &s.run)).collect();
        let entries: u64 = runs.iter().map(|r| r.entries).sum();
        self.debt.merged_bytes.store(0, Relaxed);
        let made = self.write_sorted(&runs, pace).await?;
        let kept = made.as_ref().map_or(0, |(run, _)| run.entries);
        let store = made.map(|(run, trie)| Arc::new(SortedStore { run, trie }));
        let ids = merged.iter().map(|s| s.run.id).collect();
        self.install(partition, Change::Merged { ids, store }).await?;
        runs.iter().for_each(|r| r.retire());
        self.forget_held(entries - kept);
        Ok(())
    }

    async fn write_sorted(&self, runs: &[&Run], pace: &impl Pace) -> Result<Option<(Run, Trie)>, Error> {
        let (piece, hash_piece) = (self.plan.piece_pages(), self.plan.hash_piece_pages());
        let bits = self.plan.partition_bits();
        let layout = Layout::new(PageKind::Sorted, self.plan.shape);
        let entries = runs.iter().map(|r| r.entries).sum();
        let mut trie = TrieBuilder::new(entries, layout.capacity() as u32);
        let mut writer = RunWriter::new(&self.io, &self.space, self.next_id(), layout, self.plan.segment_pages, piece);
        let is_sorted = |run: &Run| run.layout == layout;
        let pieces = |run: &&Run| if is_sorted(run) { piece } else { hash_piece };
        let mut cursors: Vec<Cursor<'_>> = runs.iter().map(|r| Cursor::new(r, self.io.seed, bits, pieces(r))).collect();
        let buffered: u32 = runs.iter().map(pieces).sum::<u32>() + piece;
        let _buffers = self.io.buffers(buffered as usize * PAGE_BYTES);
        for cursor in &mut cursors {
            cursor.fill(&self.io).await?;
        }
        let mut until_turn = TURN;
        while let Some(at) = lowest(&cursors) {
            let mut written = 0;
            let hash = cursors[at].hash().unwrap_or(0);
            let (key, value) = cursors[at].entry();
            // If newer entries cannot be read, older entries of the same keys must not replace them.
            let is_stale = cursors[..at].iter().any(|c| c.lost().is_some());
            if value.is_some_and(|value| self.keeps(key, value)) && !is_stale {
                // Only for an entry that is kept, so that no segment is allocated without an entry.
                writer.make_room(self.held()).await?;
                trie.push(hash);
                if writer.push(key, value) {
                    written = writer.write_piece().await?;
                }
            }
            self.pass(&mut cursors, at, hash).await?;
            until_turn -= 1;
            if written > 0 || until_turn == 0 {
                until_turn = TURN;
                // Written bytes were read before, too.
                self.debt.merged_bytes.fetch_add(2 * written, Relaxed);
                pace.turn(2 * written).await;
            }
        }
        Ok(writer.finish().await?.map(|run| (run, trie.finish())))
    }

    /// Moves past an entry, and past older entries of its key.
    async fn pass(&self, cursors: &mut [Cursor<'_>], at: usize, hash: u64) -> Result<(), Error> {
        let (newer, older) = cursors.split_at_mut(at + 1);
        let cursor = &mut newer[at];
        for other in older {
            if other.hash() == Some(hash) && other.entry().0 == cursor.entry().0 && !other.advance() {
                other.fill(&self.io).await?;
            }
        }
        if !cursor.advance() {
            cursor.fill(&self.io).await?;
        }
        Ok(())
    }
}
