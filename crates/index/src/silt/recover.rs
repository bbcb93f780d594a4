//! Opening an index: everything is read once to rebuild the structures in RAM.
//!
//! In a log, every page with a valid checksum counts, whatever precedes it, because unsynced pages may be lost
//! independently of each other. The log continues after the last valid page. Torn pages there are erased first:
//! otherwise, a later torn write could complete them, and old entries would appear in the place of new ones.
//!
//! New stores get numbers far above those in the manifest. Pages of stores that were never entered in the manifest are
//! thus not taken for parts of later stores.

use super::cuckoo::Partial;
use super::cursor::Cursor;
use super::filter::FilterBuilder;
use super::hashed::Hashed;
use super::install::{Partition, manifest_offset};
use super::log::{self, Log};
use super::manifest::{HashAt, LogAt, Manifest, PartitionAt, SortedAt};
use super::page::{Layout, PageKind};
use super::run::Run;
use super::space::{Segment, Space};
use super::stores::{HashStore, SortedStore, Stores};
use super::trie::TrieBuilder;
use super::{Plan, Rates, Silt};
use crate::{Error, PAGE_BYTES};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The gap in the numbers: more than the number of stores that are begun between two manifests.
const ID_GAP: u64 = 1 << 20;

pub(super) async fn open<D: Device>(device: D, plan: Plan, rates: Rates, seed: u64) -> Result<Silt<D>, Error> {
    let manifest = newest_manifest(&device, &plan, seed).await?;
    let space = Space::new(plan.segments_at(), plan.segment_bytes(), plan.segments);
    let silt = Silt::with_partitions(device, plan, rates, seed, space, async |silt: &Silt<D>| {
        let mut partitions = Vec::new();
        for at in &manifest.partitions {
            partitions.push(Partition::new(silt.restore(at).await?));
        }
        Ok(partitions)
    })
    .await?;
    let held: u64 = silt.partitions.iter().map(|p| p.stores().entries()).sum();
    silt.held.store(held as i64, Relaxed);
    let next_id =
        manifest.next_id.checked_add(ID_GAP).ok_or_else(|| damaged("has no valid number of the next store"))?;
    silt.next_id.store(next_id, Relaxed);
    silt.write_manifest(manifest.generation + 1, None).await?;
    *silt.manifest.lock().await = manifest.generation + 1;
    Ok(silt)
}

fn damaged(what: &str) -> Error {
    Error::Damaged(format!("its manifest {what}"))
}

async fn newest_manifest<D: Device>(device: &D, plan: &Plan, seed: u64) -> Result<Manifest, Error> {
    let mut newest: Option<Manifest> = None;
    let mut failed = None;
    for copy in 0..2 {
        let offset = manifest_offset(plan, copy);
        match device.read(offset, plan.manifest_pages as usize * PAGE_BYTES).await {
            Ok(pages) => {
                let found = Manifest::decode(&pages, offset, seed, plan.partitions);
                let is_newer = |m: &Manifest| newest.as_ref().is_none_or(|n| n.generation < m.generation);
                newest = found.filter(is_newer).or(newest);
            }
            Err(error) => failed = Some(error),
        }
    }
    match (newest, failed) {
        // Another generation has to be written.
        (Some(manifest), _) if manifest.generation < u64::MAX => Ok(manifest),
        (_, Some(error)) => Err(error.into()),
        _ => Err(damaged("has no valid copy")),
    }
}

impl<D: Device> Silt<D> {
    fn claim(&self, segment: u32) -> Result<Segment, Error> {
        self.space
            .claim(segment)
            .ok_or_else(|| damaged(&format!("names segment {segment} twice, or the segment does not exist")))
    }

    /// Restores the stores of a partition.
    async fn restore(&self, at: &PartitionAt) -> Result<Stores, Error> {
        let [older, newer] = at.logs;
        let (older, _) = self.restore_log(older).await?;
        let (newer, newer_pages) = self.restore_log(newer).await?;
        let (older, newer) = (Arc::new(older), Arc::new(newer));
        // The newer log was begun if any of its pages was found.
        let (active, closed, next) = if newer_pages > 0 {
            older.close(self.io.seed);
            (newer, Some(older), None)
        } else {
            (older, None, Some(newer))
        };
        let mut stores = Stores { active, closed, next, hashes: Vec::new(), sorted: None };
        for hash in &at.hashes {
            stores.hashes.push(Arc::new(self.restore_hash(*hash).await?));
        }
        if let Some(sorted) = &at.sorted {
            stores.sorted = Some(Arc::new(self.restore_sorted(sorted).await?));
        }
        Ok(stores)
    }

    /// Restores a log; also returns how many of its pages were found.
    async fn restore_log(&self, at: LogAt) -> Result<(Log, usize), Error> {
        let log = self.log_at(at.id, self.claim(at.segment)?);
        let (plan, capacity) = (&self.plan, log.layout().capacity() as u32);
        let (bits, key_bytes) = (plan.partition_bits(), usize::from(plan.shape.key_bytes));
        let (mut pages, mut end, mut removals, mut torn) = (0, 0, 0, Vec::new());
        // The keys in order of arrival, with their slots.
        let (mut keys, mut slots) = (Vec::new(), Vec::new());
        log::scan(&log, &self.io, plan.segment_pages, plan.piece_pages(), |number, page, entries| {
            let Some(entries) = entries else {
                torn.extend(Layout::is_of(page, log.id).then_some(number));
                return;
            };
            (pages, end) = (pages + 1, number + 1);
            for i in 0..entries {
                keys.extend_from_slice(log.layout().entry(page, i).0);
                slots.push(number * capacity + i as u32);
                removals += u64::from(log.layout().is_removal(page, i));
            }
        })
        .await?;
        for number in torn.into_iter().filter(|number| *number >= end) {
            self.io.write(log.offset(number), BufMut::zeroed(PAGE_BYTES).freeze()).await?;
        }
        let mut seen = HashSet::new();
        let newest = keys.chunks_exact(key_bytes).zip(&slots).rev().filter(|(key, _)| seen.insert(*key));
        let entries =
            newest.map(|(key, slot)| -> (Partial, u32) { (Hashed::new(key, self.io.seed, bits).partial, *slot) });
        log.restore(entries, (slots.len() as u64, removals), end);
        Ok((log, pages))
    }

    fn run(&self, id: u64, kind: PageKind, segments: &[u32], entries: u64) -> Result<Run, Error> {
        let layout = Layout::new(kind, self.plan.shape);
        let segments = segments.iter().map(|s| self.claim(*s)).collect::<Result<Vec<_>, _>>()?;
        let per_segment = u64::from(self.plan.segment_pages) * layout.capacity() as u64;
        if entries.div_ceil(per_segment) != segments.len() as u64 || entries > u32::MAX.into() {
            return Err(damaged("has a store whose entries do not match its segments"));
        }
        Ok(Run { id, layout, segments, segment_pages: self.plan.segment_pages, entries })
    }

    async fn restore_hash(&self, at: HashAt) -> Result<HashStore, Error> {
        let run = self.run(at.id, PageKind::Hash, &[at.segment], at.entries.into())?;
        let mut filter = FilterBuilder::new(run.entries);
        let mut cursor = Cursor::new(&run, self.io.seed, self.plan.partition_bits(), self.plan.piece_pages());
        cursor.fill(&self.io).await?;
        loop {
            if let Some(lost) = cursor.lost() {
                filter.push_lost(lost.entries, lost.after..cursor.hash().unwrap_or(u64::MAX));
            }
            let Some(hash) = cursor.hash() else { break };
            filter.push(hash);
            if !cursor.advance() {
                cursor.fill(&self.io).await?;
            }
        }
        Ok(HashStore { filter: filter.finish(), run })
    }

    async fn restore_sorted(&self, at: &SortedAt) -> Result<SortedStore, Error> {
        let run = self.run(at.id, PageKind::Sorted, &at.segments, at.entries)?;
        let mut trie = TrieBuilder::new(run.entries, run.layout.capacity() as u32);
        let mut cursor = Cursor::new(&run, self.io.seed, self.plan.partition_bits(), self.plan.piece_pages());
        cursor.fill(&self.io).await?;
        loop {
            // Lost entries are counted, so that later ones keep their ranks.
            if let Some(lost) = cursor.lost() {
                (0..lost.entries).for_each(|_| trie.push(lost.after));
            }
            let Some(hash) = cursor.hash() else { break };
            trie.push(hash);
            if !cursor.advance() {
                cursor.fill(&self.io).await?;
            }
        }
        Ok(SortedStore { trie: trie.finish(), run })
    }
}
