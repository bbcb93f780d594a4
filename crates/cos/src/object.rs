//! An object: its recipe on the device, and what changed since that was written.

use crate::format::record::{Kind, ObjectRecord, Root};
use crate::place::Reference;
use crate::range_lock::RangeLock;
use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a chunk of an object became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// `None`: a hole.
    pub(crate) reference: Option<Reference>,
    /// The newest container before the place was found.
    pub(crate) since: u64,
}

/// An object of a store.
pub(crate) struct Object {
    pub(crate) id: u64,
    pub(crate) kind: Kind,
    pub(crate) chunk_bytes: u32,
    pub(crate) state: Mutex<ObjectState>,
    /// When it was changed last, as the journal knows.
    pub(crate) durable_modified_ns: AtomicU64,
    /// Its recipe is being written.
    pub(crate) flushing: AsyncMutex<()>,
    /// Chunks that are being written: writes of whole ones share them; what reads, changes and writes a chunk has it alone.
    pub(crate) writing: RangeLock,
}

/// What of an object changes.
pub(crate) struct ObjectState {
    pub(crate) record: ObjectRecord,
    /// The journal does not know the record as it is.
    pub(crate) is_changed: bool,
    pub(crate) is_removed: bool,
    /// What the recipe does not say yet ("delayed metadata updates").
    pub(crate) overlay: BTreeMap<u64, Change>,
    /// Chunks of the overlay that the journal does not know.
    pub(crate) unlogged: BTreeSet<u64>,
}

impl Object {
    pub(crate) fn new(record: ObjectRecord) -> Self {
        Self {
            id: record.id,
            kind: record.kind,
            chunk_bytes: record.chunk_bytes,
            durable_modified_ns: AtomicU64::new(record.modified_ns),
            state: Mutex::new(ObjectState {
                record,
                is_changed: true,
                is_removed: false,
                overlay: BTreeMap::new(),
                unlogged: BTreeSet::new(),
            }),
            flushing: AsyncMutex::new(()),
            writing: RangeLock::default(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.state.lock().record.name.clone()
    }
}

impl ObjectState {
    pub(crate) fn change(&mut self, index: u64, change: Change) {
        self.overlay.insert(index, change);
        self.unlogged.insert(index);
    }

    /// It was changed just now.
    pub(crate) fn touch(&mut self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        // However the clock is set, a change shows.
        self.record.modified_ns = now.max(self.record.modified_ns + 1);
        self.is_changed = true;
    }

    /// The recipe says now what `written` says.
    pub(crate) fn flushed(&mut self, root: Option<Root>, written: &BTreeMap<u64, Change>) {
        self.record.root = root;
        self.record.recipe += 1;
        self.is_changed = true;
        for (index, change) in written {
            if self.overlay.get(index) == Some(change) {
                self.overlay.remove(index);
                self.unlogged.remove(index);
            }
        }
        // A start forgets what was logged before a recipe: what came since has to be said again.
        self.unlogged.extend(self.overlay.keys());
    }
}
