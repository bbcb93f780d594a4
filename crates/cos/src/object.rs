//! An object: its recipe on the device, and its changes since the recipe was written.

use crate::Error;
use crate::format::record::{Kind, ObjectRecord, Root};
use crate::ledger::{Ledger, Permit};
use crate::place::Reference;
use futures_util::lock::Mutex as AsyncMutex;
use nitro_port::range_lock::RangeLock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

/// A change of a chunk of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// `None`: a hole.
    pub(crate) reference: Option<Reference>,
    /// The sequence number of the newest container before the place was found.
    pub(crate) since: u64,
}

/// An object of a store.
pub(crate) struct Object {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) chunk_bytes: u32,
    pub(crate) state: Mutex<ObjectState>,
    /// The time of the last change in the journal, in nanoseconds since 1970.
    pub(crate) durable_modified_ns: AtomicU64,
    /// Locked while the recipe is written.
    pub(crate) flushing: AsyncMutex<()>,
    /// Locks chunks that are being written: shared for writes of whole chunks, exclusive for read-modify-write.
    pub(crate) writing: RangeLock,
}

/// The state of an object that changes.
pub(crate) struct ObjectState {
    pub(crate) record: ObjectRecord,
    /// Whether the record has changes that are not in the journal yet.
    is_changed: bool,
    is_removed: bool,
    /// Whether the journal has the record; otherwise, the directory has it.
    is_journaled: bool,
    /// Changes that are not in the recipe yet ("delayed metadata updates").
    pub(crate) overlay: BTreeMap<u64, Change>,
    /// Chunks of the overlay that are not in the journal yet.
    unlogged: BTreeSet<u64>,
    /// Counts the changes in overlays, and lists the objects with changes that are not in the journal.
    ledger: Arc<Ledger>,
}

/// The changes of an object that must be written to the journal.
pub(crate) struct Untold {
    pub(crate) is_changed: bool,
    pub(crate) unlogged: BTreeSet<u64>,
}

impl Object {
    /// An object that is not in the journal yet.
    pub(crate) fn new(record: ObjectRecord, ledger: &Arc<Ledger>) -> Self {
        let mut object = Self::restored(record, ledger);
        object.state.get_mut().note_changed();
        object
    }

    /// An object that is in the journal.
    pub(crate) fn restored(record: ObjectRecord, ledger: &Arc<Ledger>) -> Self {
        Self {
            id: record.id,
            kind: record.kind,
            chunk_bytes: record.chunk_bytes,
            durable_modified_ns: AtomicU64::new(record.modified_ns),
            state: Mutex::new(ObjectState::of(record, ledger)),
            flushing: AsyncMutex::new(()),
            writing: RangeLock::default(),
        }
    }

    /// An object that is in the directory, but not in the journal.
    pub(crate) fn loaded(record: ObjectRecord, ledger: &Arc<Ledger>) -> Self {
        let mut object = Self::restored(record, ledger);
        object.state.get_mut().is_journaled = false;
        object
    }

    pub(crate) fn name(&self) -> String {
        self.state.lock().record.name.clone()
    }
}

impl ObjectState {
    fn of(record: ObjectRecord, ledger: &Arc<Ledger>) -> Self {
        Self {
            record,
            is_changed: false,
            is_removed: false,
            is_journaled: true,
            overlay: BTreeMap::new(),
            unlogged: BTreeSet::new(),
            ledger: Arc::clone(ledger),
        }
    }

    /// Changes a chunk, with a change of `permit`. A removed object is not changed any more.
    pub(crate) fn change(&mut self, index: u64, change: Change, permit: &mut Permit<'_>) {
        if self.is_removed {
            return;
        }
        if self.overlay.insert(index, change).is_none() {
            permit.spend();
        }
        self.unlogged.insert(index);
        self.ledger.note_dirty(self.record.id);
    }

    /// Sets the time of the last change to now.
    pub(crate) fn touch(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        // The time increases with each change, even if the clock is set back.
        self.record.modified_ns = now.max(self.record.modified_ns + 1);
        self.note_changed();
    }

    /// Notes that the record changed and must be written to the journal.
    pub(crate) fn note_changed(&mut self) {
        debug_assert!(self.is_journaled, "the journal has no room for {:?}", self.record);
        self.is_changed = true;
        self.ledger.note_dirty(self.record.id);
    }

    /// Notes that the changes in `written` are in the recipe.
    pub(crate) fn flushed(&mut self, root: Option<Root>, written: &BTreeMap<u64, Change>) {
        self.record.root = root;
        self.record.recipe += 1;
        let before = self.overlay.len();
        for (index, change) in written {
            if self.overlay.get(index) == Some(change) {
                self.overlay.remove(index);
                self.unlogged.remove(index);
            }
        }
        if !self.is_removed {
            self.ledger.give_back(before - self.overlay.len());
        }
        // At a start, chunk records before that of a recipe are ignored: those after the changes in the recipe must be
        // logged again.
        self.unlogged.extend(self.overlay.keys());
        self.note_changed();
    }

    /// # Errors
    /// [`Error::NoObject`] if it was removed.
    pub(crate) fn check_there(&self) -> Result<(), Error> {
        match self.is_removed {
            true => Err(Error::NoObject(self.record.name.clone())),
            false => Ok(()),
        }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Marks the object as removed. Its content can still be read through open volumes.
    pub(crate) fn remove(&mut self) {
        if !std::mem::replace(&mut self.is_removed, true) {
            if self.is_journaled {
                self.ledger.remove_name(self.record.journal_bytes());
            }
            self.ledger.give_back(self.overlay.len());
        }
    }

    /// Whether nothing was ever written to it.
    pub(crate) fn is_empty(&self) -> bool {
        self.record.root.is_none() && self.overlay.is_empty()
    }

    /// Whether the recipe and the journal, or the directory, have all changes.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_changed && !self.is_removed && self.overlay.is_empty() && self.unlogged.is_empty()
    }

    /// Whether the journal has, or will have, a record of it; otherwise the directory has the same record.
    pub(crate) fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    /// Begins to change an object that the journal has no record of.
    ///
    /// # Errors
    /// [`Error::Objects`] if the journal has no room for the record.
    pub(crate) fn begin_journaling(&mut self) -> Result<(), Error> {
        if !self.is_journaled && !self.is_removed {
            self.ledger.add_object(&self.record)?;
            self.is_journaled = true;
            self.note_changed();
        }
        Ok(())
    }

    /// The number of changed chunks that are not in the journal.
    pub(crate) fn unlogged(&self) -> usize {
        self.unlogged.len()
    }

    /// Takes the changes that are not in the journal yet.
    pub(crate) fn take_untold(&mut self) -> Untold {
        Untold { is_changed: std::mem::take(&mut self.is_changed), unlogged: std::mem::take(&mut self.unlogged) }
    }

    /// Takes back changes that could not be written to the journal.
    pub(crate) fn put_back(&mut self, untold: Untold) {
        self.is_changed |= untold.is_changed;
        self.unlogged.extend(untold.unlogged.into_iter().filter(|index| self.overlay.contains_key(index)));
        self.ledger.note_dirty(self.record.id);
    }
}
