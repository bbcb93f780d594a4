//! The bound on the records in the journal.
//!
//! The journal has two areas of A bytes each. A checkpoint names all containers in use, all objects, and all changes in
//! overlays, which are not in recipes yet. It always fits into half an area:
//!
//! ```text
//! header and fixed records + S + N + O <= A / 2
//! ```
//!
//! - S: the records of containers. The number of slots is fixed; [`Bounds::of`] counts a record for each.
//! - N: the records of objects and of hidden names, at most [`Bounds::namespace_bytes`]. A record has a fixed size
//!   and the length of the name, neither of which changes; [`Ledger::add_object`] refuses an object whose record does not fit. Before that,
//!   objects that are not in use are moved to the [directory](crate::directory).
//! - O: the records of changes, at most [`Bounds::changes`], each of the same size. A change of chunks needs a
//!   [`Permit`] *before* anything is stored ([`Store::permit`]); permits and overlays together never exceed the bound.
//!   If no permit is available, the overlays with the most changes are written into their recipes, and the writer waits
//!   for that; readers do not wait.
//!
//! Bounds are chosen such that the sum holds, which a checkpoint asserts. Batches after a checkpoint have at least the
//! other half of the area; if a batch does not fit, a checkpoint is written instead, which always fits. Therefore
//! commits never fail because of the number of objects or changes.

use crate::format::BLOCK_BYTES;
use crate::format::record::{CHUNK_BYTES, ObjectRecord, Record, SLOT_BYTES};
use crate::format::superblock::Superblock;
use crate::object::Object;
use crate::{Error, Store};
use event_listener::{Event, EventListener};
use futures_util::lock::Mutex as AsyncMutex;
use nitro_port::Device;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// The header of a checkpoint, its records of a fixed number, and the padding of its last block, in bytes.
const FIXED_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// A request may take at most one in this number of all changes; larger requests are split.
const PERMIT_SHARE: usize = 16;
/// This part of the bound for names is kept for the records that hide removed objects.
const HIDING_SHARE: u64 = 8;
/// The maximum number of changes of a part of a request.
const PERMIT_MAX: usize = 4096;

/// The capacity of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The maximum size of a checkpoint.
    pub(crate) checkpoint_bytes: u64,
    /// The maximum size of the records of all objects.
    pub(crate) namespace_bytes: u64,
    /// The maximum number of changes in all overlays.
    pub(crate) changes: usize,
}

impl Bounds {
    pub(crate) fn of(superblock: &Superblock) -> Self {
        let checkpoint_bytes = superblock.journal_bytes / 2;
        let slots = u64::from(superblock.containers) * SLOT_BYTES as u64;
        let rest = checkpoint_bytes.saturating_sub(slots + FIXED_BYTES);
        Self { checkpoint_bytes, namespace_bytes: rest / 2, changes: (rest / 2) as usize / CHUNK_BYTES }
    }

    /// The maximum number of changes of a part of a request.
    pub(crate) fn changes_at_once(&self) -> usize {
        (self.changes / PERMIT_SHARE).clamp(1, PERMIT_MAX)
    }
}

/// The size of the records that the journal has to hold, and the objects with changes.
#[derive(Debug)]
pub(crate) struct Ledger {
    bounds: RwLock<Bounds>,
    /// The number of changes in overlays and in permits.
    changes: AtomicUsize,
    namespace_bytes: AtomicU64,
    /// The numbers of the objects with changes that are not in the journal yet.
    dirty: Mutex<BTreeSet<u64>>,
    given_back: Event,
    /// Held by the task that writes overlays into recipes for all waiting tasks.
    relieving: AsyncMutex<()>,
}

/// The permission to make a number of changes.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    ledger: &'a Ledger,
    left: usize,
}

impl Permit<'_> {
    /// Turns one permitted change into a change of an overlay.
    pub(crate) fn spend(&mut self) {
        debug_assert!(self.left > 0, "a change without a permit");
        self.left = self.left.saturating_sub(1);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.ledger.give_back(self.left);
    }
}

impl Ledger {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds: RwLock::new(bounds),
            changes: AtomicUsize::new(0),
            namespace_bytes: AtomicU64::new(0),
            dirty: Mutex::default(),
            given_back: Event::new(),
            relieving: AsyncMutex::new(()),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        *self.bounds.read()
    }

    /// Sets the bounds of a larger journal.
    pub(crate) fn set_bounds(&self, bounds: Bounds) {
        *self.bounds.write() = bounds;
        self.given_back.notify(usize::MAX);
    }

    /// The number of changes in overlays and in permits.
    pub(crate) fn changes(&self) -> usize {
        self.changes.load(SeqCst)
    }

    /// Whether the records are within the bounds. A journal that was not written by this program may exceed them.
    pub(crate) fn is_bounded(&self) -> bool {
        self.changes.load(SeqCst) <= self.bounds().changes
            && self.namespace_bytes.load(SeqCst) <= self.bounds().namespace_bytes
    }

    /// Counts the record of an object that gets into the journal.
    ///
    /// # Errors
    /// [`Error::Objects`] if the record does not fit.
    pub(crate) fn add_object(&self, record: &ObjectRecord) -> Result<(), Error> {
        let reserve = self.bounds().namespace_bytes / HIDING_SHARE;
        self.add_name(record.journal_bytes(), self.bounds().namespace_bytes - reserve)
    }

    /// Counts the record that hides an object.
    ///
    /// # Errors
    /// [`Error::Objects`] if the record does not fit.
    pub(crate) fn add_hidden(&self, name: &str) -> Result<(), Error> {
        self.add_name(Record::hidden_bytes(name), self.bounds().namespace_bytes)
    }

    /// Counts bytes of records that may get into the journal, until [`remove_name`](Self::remove_name).
    ///
    /// # Errors
    /// [`Error::Objects`] if they do not fit.
    pub(crate) fn reserve_names(&self, bytes: usize) -> Result<(), Error> {
        self.add_name(bytes, self.bounds().namespace_bytes)
    }

    fn add_name(&self, bytes: usize, bound: u64) -> Result<(), Error> {
        let add = |taken: u64| Some(taken + bytes as u64).filter(|taken| *taken <= bound);
        match self.namespace_bytes.fetch_update(SeqCst, SeqCst, add) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::Objects { namespace_bytes: self.bounds().namespace_bytes }),
        }
    }

    /// Counts a record that replaces a larger one, or that the journal has.
    pub(crate) fn restore_name(&self, bytes: usize) {
        self.namespace_bytes.fetch_add(bytes as u64, SeqCst);
    }

    pub(crate) fn remove_name(&self, bytes: usize) {
        self.namespace_bytes.fetch_sub(bytes as u64, SeqCst);
    }

    /// Whether objects should be moved to the directory before there is no room for others.
    pub(crate) fn is_namespace_high(&self) -> bool {
        self.namespace_bytes.load(SeqCst) > self.bounds().namespace_bytes / 4 * 3
    }

    /// Bytes of the records of objects beyond half of the bound.
    pub(crate) fn namespace_surplus(&self) -> u64 {
        self.namespace_bytes.load(SeqCst).saturating_sub(self.bounds().namespace_bytes / 2)
    }

    /// Counts changes that were read from the journal at a start.
    pub(crate) fn restore_changes(&self, changes: usize) {
        self.changes.fetch_add(changes, SeqCst);
    }

    pub(crate) fn give_back(&self, changes: usize) {
        if changes > 0 {
            self.changes.fetch_sub(changes, SeqCst);
            self.given_back.notify(usize::MAX);
        }
    }

    fn try_permit(&self, changes: usize) -> Option<Permit<'_>> {
        let add = |taken: usize| taken.checked_add(changes).filter(|taken| *taken <= self.bounds().changes);
        self.changes.fetch_update(SeqCst, SeqCst, add).ok()?;
        Some(Permit { ledger: self, left: changes })
    }

    fn has_room(&self, changes: usize) -> bool {
        self.changes.load(SeqCst).saturating_add(changes) <= self.bounds().changes
    }

    /// Whether overlays should be written into recipes before writers have to wait for it.
    fn is_high(&self) -> bool {
        self.changes.load(SeqCst) > self.bounds().changes / 4 * 3
    }

    fn listen(&self) -> EventListener {
        self.given_back.listen()
    }

    /// Notes that an object has changes that are not in the journal.
    pub(crate) fn note_dirty(&self, id: u64) {
        self.dirty.lock().insert(id);
    }

    /// The objects with changes that are not in the journal.
    pub(crate) fn dirty(&self) -> Vec<u64> {
        self.dirty.lock().iter().copied().collect()
    }

    /// As [`dirty`](Self::dirty), and clears the list; the caller must write the changes to the journal.
    pub(crate) fn take_dirty(&self) -> BTreeSet<u64> {
        std::mem::take(&mut self.dirty.lock())
    }
}

impl<D: Device> Store<D> {
    /// Waits for the permission to make `changes` changes, at most [`Bounds::changes_at_once`]. If necessary, writes
    /// overlays into recipes to make room.
    ///
    /// # Errors
    /// [`Error::Full`] if there is no room for recipes, or an error of the device.
    pub(crate) async fn permit(&self, changes: usize) -> Result<Permit<'_>, Error> {
        loop {
            if let Some(permit) = self.ledger.try_permit(changes) {
                return Ok(permit);
            }
            let _alone = self.ledger.relieving.lock().await;
            let given_back = self.ledger.listen();
            if self.ledger.has_room(changes) {
                continue;
            }
            if !self.relieve().await? {
                // All changes are in permits of other tasks, which will use or return them.
                given_back.await;
            }
        }
    }

    /// Writes overlays into recipes if little room is left, unless another task does this already.
    pub(crate) async fn relieve_if_high(&self) -> Result<(), Error> {
        if !self.ledger.is_high() {
            return Ok(());
        }
        let Some(_alone) = self.ledger.relieving.try_lock() else { return Ok(()) };
        match self.relieve().await {
            // A task that needs the room gets the error itself.
            Err(error) if error.is_full() => Ok(()),
            result => result.map(drop),
        }
    }

    /// Writes the overlays with the most changes into their recipes, until these are a quarter of all changes. Returns
    /// false if no overlay has changes.
    async fn relieve(&self) -> Result<bool, Error> {
        let objects = self.objects.lock().all();
        let mut overlays: Vec<(usize, Arc<Object>)> = objects
            .into_iter()
            .map(|object| {
                let changes = object.state.lock().overlay.len();
                (changes, object)
            })
            .filter(|(changes, _)| *changes > 0)
            .collect();
        overlays.sort_by_key(|(changes, _)| std::cmp::Reverse(*changes));
        let is_any = !overlays.is_empty();
        let mut wanted = self.ledger.bounds().changes / 4 + 1;
        for (changes, object) in overlays {
            self.flush_tree(&object).await?;
            wanted = wanted.saturating_sub(changes);
            if wanted == 0 {
                break;
            }
        }
        Ok(is_any)
    }
}
