//! Commits: content is made durable first, then the journal records about it.

use crate::format::record::{Record, SlotRecord, SlotState};
use crate::journal::Journal;
use crate::lane::LANES;
use crate::object::{Change, Object, Untold};
use crate::{Error, Store};
use nitro_index::FlashIndex;
use nitro_port::{Device, Work};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The maximum number of changed chunks of an object that are written to the journal individually; beyond it, the
/// recipe is written instead.
const LOGGED_MAX: usize = 8192;

/// Records for the journal, and the state that they were taken from.
struct Gathered {
    records: Vec<Record>,
    objects: Vec<Taken>,
    removed: Vec<u64>,
    hiding: Vec<Record>,
}

/// Changes that were taken from an object.
struct Taken {
    object: Arc<Object>,
    untold: Untold,
    modified_ns: u64,
}

impl<D: Device> Store<D> {
    /// Makes all earlier writes, creations and deletions durable.
    ///
    /// # Errors
    /// An error of the device, or no room for recipes. Changes that were not durable may then be lost in a crash.
    pub async fn commit(&self) -> Result<(), Error> {
        self.check_poison()?;
        Work::pressing(pin!(self.commit_now())).await
    }

    async fn commit_now(&self) -> Result<(), Error> {
        for id in self.ledger.dirty() {
            let object = self.objects.lock().by_id(id);
            if let Some(object) = object.filter(|object| object.state.lock().unlogged() > LOGGED_MAX) {
                self.flush_tree_if_room(&object).await?;
            }
        }
        let mut journal = self.journal.lock().await;
        let is_full = journal.wants_checkpoint();
        if !self.commit_to(&mut journal, is_full).await? {
            self.commit_to(&mut journal, true).await?;
        }
        Ok(())
    }

    /// Writes the changes (with `all`, the whole state) to the journal. Returns false if the journal has no room for
    /// the changes.
    pub(crate) async fn commit_to(&self, journal: &mut Journal, all: bool) -> Result<bool, Error> {
        let mut gathered = self.gather(all);
        let records = std::mem::take(&mut gathered.records);
        let result = self.write_records(journal, records, all).await;
        match result {
            Ok(true) => {
                gathered.objects.iter().for_each(|t| t.object.durable_modified_ns.store(t.modified_ns, Relaxed));
            }
            _ => self.put_back(gathered),
        }
        result
    }

    async fn write_records(&self, journal: &mut Journal, mut records: Vec<Record>, all: bool) -> Result<bool, Error> {
        for lane in 0..LANES {
            self.write_lane(lane).await?;
        }
        let changed = {
            let mut state = self.state.lock();
            let changed = state.slots.take_changed();
            match all {
                true => records.extend(state.slots.records().map(Record::Slot)),
                false => records.extend(changed.iter().copied().map(Record::Slot)),
            }
            if state.slots.take_quota_changed() || all {
                records.push(Record::Quota { containers: state.slots.quota().unwrap_or(0) });
            }
            changed
        };
        if records.is_empty() {
            return Ok(true);
        }
        // The content that the records refer to must be durable first.
        self.device.flush().await.map_err(|e| self.poison(&e.into()))?;
        if all {
            records.push(Record::Indexed { sequence: self.upto.indexed() });
            records.push(Record::Summarised { sequence: self.upto.summarised() });
            let written = journal.checkpoint(&*self.device, &records).await;
            let bytes = written.map_err(|e| self.untold(&changed, &e))?;
            debug_assert!(
                bytes <= self.ledger.bounds().checkpoint_bytes || !self.ledger.is_bounded(),
                "a checkpoint of {bytes} bytes: {:?}",
                self.ledger
            );
        } else if !journal.append(&*self.device, &records).await.map_err(|e| self.untold(&changed, &e))? {
            self.state.lock().slots.put_back_changed(&changed);
            return Ok(false);
        }
        self.device.flush().await.map_err(|e| self.poison(&e.into()))?;
        self.counters.commits.add(1);
        if let Err(error) = journal.confirm(&*self.device).await {
            // Everything is durable; the next commit will find out what the device is worth.
            tracing::warn!("the journal has no confirmation of its last batch: {error}");
        }
        self.freed(changed.iter().filter(|s| s.state == SlotState::Free).map(|s| s.slot)).await;
        Ok(true)
    }

    /// Handles a failed write of slot records. Unless there was no room, it is unknown what is durable.
    fn untold(&self, changed: &[SlotRecord], error: &Error) -> Error {
        self.state.lock().slots.put_back_changed(changed);
        self.poison_unless_full(error)
    }

    /// Collects the records for the journal: the changes or, with `all`, the whole state.
    fn gather(&self, all: bool) -> Gathered {
        let mut objects = self.objects.lock();
        let (removed, hiding) = objects.take_untold();
        let mut gathered = Gathered { records: Vec::new(), objects: Vec::new(), removed, hiding };
        if all {
            let hidden = |(name, size): (&String, &u64)| Record::Hidden { size_bytes: *size, name: name.clone() };
            gathered.records.extend(objects.hidden().iter().map(hidden));
        } else {
            gathered.records.extend(gathered.removed.iter().map(|id| Record::Removed { id: *id }));
            // Before the records of objects that were created again.
            gathered.records.extend(gathered.hiding.iter().cloned());
        }
        let dirty = self.ledger.take_dirty();
        let objects = match all {
            true => objects.all(),
            false => dirty.iter().filter_map(|id| objects.by_id(*id)).collect(),
        };
        for object in objects {
            let mut state = object.state.lock();
            if !state.is_journaled() {
                continue;
            }
            let untold = state.take_untold();
            if all || untold.is_changed {
                gathered.records.push(Record::Object(Box::new(state.record.clone())));
            }
            let chunk = |index: &u64, change: Option<&Change>| Record::Chunk {
                object: object.id,
                index: *index,
                reference: change.and_then(|c| c.reference),
            };
            match all {
                true => gathered.records.extend(state.overlay.iter().map(|(index, c)| chunk(index, Some(c)))),
                false => gathered.records.extend(untold.unlogged.iter().map(|i| chunk(i, state.overlay.get(i)))),
            }
            if untold.is_changed || !untold.unlogged.is_empty() {
                let modified_ns = state.record.modified_ns;
                gathered.objects.push(Taken { object: Arc::clone(&object), untold, modified_ns });
            }
        }
        gathered
    }

    fn put_back(&self, gathered: Gathered) {
        for Taken { object, untold, .. } in gathered.objects {
            object.state.lock().put_back(untold);
        }
        self.objects.lock().put_back(gathered.removed, gathered.hiding);
    }

    /// Makes the index durable. If that fails, it is unknown which of its entries are.
    pub(crate) async fn flush_index(&self) -> Result<(), Error> {
        let tables = self.tables();
        Work::pressing(pin!(tables.index.sync())).await.map_err(|e| self.poison(&e.into()))
    }

    /// Makes the index durable, and lets the next checkpoint record this: a start then does not enter older containers
    /// again.
    pub(crate) async fn sync_index(&self) -> Result<(), Error> {
        // Open containers have not been entered in the index.
        let sequence = {
            let state = self.state.lock();
            let open = state.slots.iter().filter(|(_, s)| s.state == SlotState::Open).map(|(_, s)| s.sequence).min();
            open.map_or(state.slots.sequence(), |first| first - 1)
        };
        self.flush_index().await?;
        self.upto.set_indexed(sequence);
        Ok(())
    }

    /// Writes a checkpoint, after which all recipes are up to date and a start is fast.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn checkpoint(&self) -> Result<(), Error> {
        self.check_poison()?;
        self.flush_trees().await?;
        self.seal_lanes().await?;
        // Index, summary vector and journal are those of the same size.
        let _resizing = self.resizing.lock().await;
        self.sync_index().await?;
        // The summary vector on the device is complete unless there are newer containers.
        if self.upto.summarised() != self.upto.indexed() {
            let tables = self.tables();
            tables.summary.write(&*self.device, tables.layout.summary_at, self.superblock.seed).await?;
            self.device.flush().await.map_err(|e| self.poison(&e.into()))?;
            self.upto.set_summarised(self.upto.indexed());
        }
        let mut journal = self.journal.lock().await;
        self.commit_to(&mut journal, true).await?;
        Ok(())
    }

    /// Closes the store: everything is durable, and the next start has nothing to recover.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub async fn close(&self) -> Result<(), Error> {
        self.checkpoint().await?;
        self.close_ssd().await;
        Ok(())
    }
}
