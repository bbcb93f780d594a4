//! Changes of a partition's stores: first in the manifest, durably, then in RAM.

use super::Silt;
use super::log::Log;
use super::manifest::{HashAt, LogAt, Manifest, PartitionAt, SortedAt};
use super::page::{Layout, PageKind};
use super::space::{Segment, Space};
use super::stores::{HashStore, SortedStore, Stores};
use super::{Plan, Rates};
use crate::{Error, PAGE_BYTES};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A partition with its current stores.
pub(super) struct Partition(RwLock<Arc<Stores>>);

/// A change of a partition's stores.
pub(super) enum Change {
    /// The closed log became a hash store, and there is a new log to follow the active one.
    Converted {
        /// `None` if the log had no entries.
        store: Option<Arc<HashStore>>,
        next: Arc<Log>,
    },
    /// The oldest hash stores and the sorted store became a new sorted store.
    Merged {
        ids: Vec<u64>,
        /// `None` if no entries are left.
        store: Option<Arc<SortedStore>>,
    },
}

impl Change {
    fn apply(&self, old: &Stores) -> Stores {
        let mut stores = old.clone();
        match self {
            Self::Converted { store, next } => {
                stores.closed = None;
                stores.next = Some(Arc::clone(next));
                stores.hashes.splice(0..0, store.clone());
            }
            Self::Merged { ids, store } => {
                stores.hashes.retain(|s| !ids.contains(&s.run.id));
                stores.sorted = store.clone();
            }
        }
        stores
    }
}

impl Partition {
    pub(super) fn new(stores: Stores) -> Self {
        Self(RwLock::new(Arc::new(stores)))
    }

    pub(super) fn stores(&self) -> Arc<Stores> {
        Arc::clone(&self.0.read())
    }

    /// Closes the active log `id` and activates the next one; returns false if `id` is not active any more or there is
    /// no next log.
    pub(super) fn rotate(&self, id: u64, seed: u64) -> bool {
        let mut stores = self.0.write();
        let Some(next) = stores.next.clone().filter(|_| stores.active.id == id) else { return false };
        let mut rotated = Stores::clone(&stores);
        rotated.active.close(seed);
        rotated.closed = Some(std::mem::replace(&mut rotated.active, next));
        rotated.next = None;
        *stores = Arc::new(rotated);
        true
    }
}

fn log_at(log: &Log) -> LogAt {
    LogAt { id: log.id, segment: log.segment.index() }
}

/// The partition's entry in the manifest. A rotation does not change it.
fn describe(stores: &Stores) -> PartitionAt {
    let older = stores.closed.as_ref().unwrap_or(&stores.active);
    let newer = if stores.closed.is_some() { &stores.active } else { stores.next.as_ref().unwrap_or(&stores.active) };
    let segment = |segments: &[Segment]| segments.first().map_or(0, Segment::index);
    let hash =
        |s: &Arc<HashStore>| HashAt { id: s.run.id, segment: segment(&s.run.segments), entries: s.run.entries as u32 };
    let sorted = |s: &Arc<SortedStore>| SortedAt {
        id: s.run.id,
        entries: s.run.entries,
        segments: s.run.segments.iter().map(Segment::index).collect(),
    };
    PartitionAt {
        logs: [log_at(older), log_at(newer)],
        hashes: stores.hashes.iter().map(hash).collect(),
        sorted: stores.sorted.as_ref().map(sorted),
    }
}

/// Guards the write of a manifest. If it is dropped before the write ends, the index writes nothing more, because it is
/// unknown which manifest is valid.
struct Unsettled<'a, D: Device> {
    silt: &'a Silt<D>,
    settled: bool,
}

impl<D: Device> Drop for Unsettled<'_, D> {
    fn drop(&mut self) {
        if !self.settled {
            self.silt.io.give_up();
        }
    }
}

impl<D: Device> Silt<D> {
    pub(super) async fn with_partitions(
        device: D,
        plan: Plan,
        rates: Rates,
        seed: u64,
        space: Arc<Space>,
        make: impl AsyncFnOnce(&Self) -> Result<Vec<Partition>, Error>,
    ) -> Result<Self, Error> {
        let mut silt = Self::empty(device, plan, rates, seed, space);
        silt.partitions = make(&silt).await?.into();
        Ok(silt)
    }

    pub(super) async fn new_partitions(&self) -> Result<Vec<Partition>, Error> {
        let mut partitions = Vec::new();
        for _ in 0..self.plan.partitions {
            let (active, next) = (Arc::new(self.new_log().await?), Arc::new(self.new_log().await?));
            partitions.push(Partition::new(Stores {
                active,
                closed: None,
                next: Some(next),
                hashes: Vec::new(),
                sorted: None,
            }));
        }
        Ok(partitions)
    }

    pub(super) fn log_at(&self, id: u64, segment: Segment) -> Log {
        Log::new(id, segment, Layout::new(PageKind::Log, self.plan.shape), self.plan.segment_pages)
    }

    /// The number of hash stores of all partitions.
    pub(super) fn hash_stores(&self) -> usize {
        self.partitions.iter().map(|p| p.stores().hashes.len()).sum()
    }

    /// Writes the manifest of a generation and makes it durable. `changed`: a partition and its new stores.
    pub(super) async fn write_manifest(&self, generation: u64, changed: Option<(usize, &Stores)>) -> Result<(), Error> {
        let partition = |(number, partition): (usize, &Partition)| match changed {
            Some((n, stores)) if n == number => describe(stores),
            _ => describe(&partition.stores()),
        };
        let partitions = self.partitions.iter().enumerate().map(partition).collect();
        let manifest = Manifest { generation, next_id: self.next_id.load(Relaxed), partitions };
        let mut pages = BufMut::copy_of(&manifest.encode());
        let offset = manifest_offset(&self.plan, generation);
        for (page, at) in pages.chunks_exact_mut(PAGE_BYTES).zip((offset..).step_by(PAGE_BYTES)) {
            self.io.seal(page, at);
        }
        self.io.write(offset, pages.freeze()).await?;
        self.io.flush().await
    }

    /// Changes the stores of a partition. The contents of the new ones must have been written already.
    pub(super) async fn install(&self, partition: usize, change: Change) -> Result<(), Error> {
        let mut generation = self.manifest.lock().await;
        self.io.flush().await?;
        let stores = change.apply(&self.partitions[partition].stores());
        let mut unsettled = Unsettled { silt: self, settled: false };
        let written = self.write_manifest(*generation + 1, Some((partition, &stores))).await;
        unsettled.settled = true;
        written?;
        *generation += 1;
        {
            let current = &mut *self.partitions[partition].0.write();
            *current = Arc::new(change.apply(current));
        }
        self.work.notify(usize::MAX);
        if matches!(change, Change::Merged { .. }) {
            self.debt.merged_bytes.store(0, Relaxed);
        }
        self.debt.divide(&self.due());
        Ok(())
    }
}

/// The offset of the manifest of a generation.
pub(super) fn manifest_offset(plan: &Plan, generation: u64) -> u64 {
    let copy_bytes = u64::from(plan.manifest_pages) * PAGE_BYTES as u64;
    crate::superblock::SUPERBLOCKS_BYTES + generation % 2 * copy_bytes
}
