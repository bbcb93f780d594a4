//! A volume that this server has taken over: reads, and changes that become objects and generations.
//!
//! A change is acknowledged when it is in RAM. [`Volume::run`] makes objects of the chunks that were changed, and generations of the
//! manifest, which make objects part of the volume. A FLUSH waits until all that was acknowledged before it is in a generation.
//!
//! | of a chunk | where | next |
//! |---|---|---|
//! | what was written last | `Chunk::active` | an object is made of it when it is whole, when RAM is short, or for a FLUSH |
//! | what an object is made of | `Chunk::sealed` | `pending`, when the object is put |
//! | its newest object | `pending` | `committing`, when a generation is begun |
//! | its object of the next generation | `committing` | the map, when the generation is put |
//! | its object of the last generation | the map | garbage, when a later generation has another one |
//!
//! No state is borrowed while a future waits.

mod change;
mod collect;
mod commit;
mod note;
mod put;
mod read;
mod run;
mod snapshot;

pub use run::Options;

use crate::counters::S3Metrics;
use crate::error::S3Error;
use crate::format::{Header, Id, NOTES, Snapshot};
use crate::map::Map;
use crate::open::Loaded;
use crate::overlay::Overlay;
use crate::patient::Patient;
use crate::runs::Runs;
use bytes::Bytes;
use collect::Garbage;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Poll, Waker};

/// What is in RAM of a chunk that was changed.
#[derive(Debug, Default)]
struct Chunk {
    active: Overlay,
    /// The number of the oldest change in `active`.
    oldest: u64,
    sealed: Option<Sealed>,
}

/// What an object is being made of.
#[derive(Debug)]
struct Sealed {
    overlay: Overlay,
    oldest: u64,
    id: Id,
    /// The whole chunk was zeroed since.
    is_void: bool,
}

/// The changing state of a volume.
struct State {
    map: Map,
    /// The objects of the segments of the last generation.
    segments: Vec<Id>,
    /// What has changed since the segments were written, as in the last generation.
    since: Runs,
    committing: Option<Runs>,
    pending: Runs,
    chunks: BTreeMap<u64, Chunk>,
    /// Chunks of which an object can be made, by the bytes that were written.
    by_bytes: BTreeSet<(u32, u64)>,
    /// The same chunks by the number of their oldest change.
    by_age: BTreeSet<(u64, u64)>,
    /// Chunks of which an object is being made: their oldest changes.
    sealed: BTreeSet<(u64, u64)>,
    /// RAM of all chunks, in bytes.
    cost: u64,
    /// A change waits for room.
    is_full: bool,
    /// The last generation.
    generation: u64,
    /// The one with which the volume was opened.
    opened: u64,
    /// The time of the last change in the last generation.
    changed_ns: u64,
    /// The time of the last change.
    newest_ns: u64,
    /// The number of the last change.
    last: u64,
    /// All changes up to this one are to be made durable.
    wanted: u64,
    /// All changes up to this one are in a generation.
    durable: u64,
    /// What the store has refused, and how often.
    failure: Option<S3Error>,
    failures: u64,
    /// The texts beside the content, how often they were changed, and which of these changes is in a generation.
    notes: [Bytes; NOTES],
    noted: u64,
    durably_noted: u64,
    /// The snapshots of the last generation, and what is asked for: that counts as a note.
    snapshots: Vec<Snapshot>,
    asked: Vec<snapshot::Asked>,
    /// The last chunk and its length, while the volume grows: its object may be shorter.
    short: Option<(u64, u32)>,
    fenced: Option<S3Error>,
    garbage: Garbage,
}

impl State {
    /// The object of a chunk, without what is only in RAM.
    fn object(&self, chunk: u64) -> Id {
        let committing = || self.committing.as_ref().and_then(|runs| runs.get(chunk));
        self.pending.get(chunk).or_else(committing).unwrap_or_else(|| self.map.get(chunk))
    }

    /// All changes up to this one are in objects.
    fn covered(&self) -> u64 {
        let oldest = [self.by_age.first(), self.sealed.first()].into_iter().flatten().map(|(oldest, _)| *oldest).min();
        oldest.map_or(self.last, |oldest| oldest - 1)
    }

    /// Takes a chunk out of the queues, before it changes.
    fn unqueue(&mut self, index: u64) {
        let Some(chunk) = self.chunks.get(&index) else { return };
        self.by_bytes.remove(&(chunk.active.written_bytes(), index));
        self.by_age.remove(&(chunk.oldest, index));
        self.cost -= chunk.active.cost();
    }

    /// Puts it back, after it has changed.
    fn requeue(&mut self, index: u64) {
        let Some(chunk) = self.chunks.get(&index) else { return };
        self.cost += chunk.active.cost();
        match (chunk.active.is_empty(), &chunk.sealed) {
            (false, None) => {
                self.by_bytes.insert((chunk.active.written_bytes(), index));
                self.by_age.insert((chunk.oldest, index));
            }
            // Its oldest change waits for the object that is being made, which is older.
            (_, Some(_)) => {}
            (true, None) => {
                self.chunks.remove(&index);
            }
        }
    }
}

/// See the module. To be used on one thread.
pub struct Volume<S, C> {
    /// As the object `volume` has it.
    original: Header,
    /// As it is: larger, if the volume has grown.
    header: Cell<Header>,
    store: Rc<Patient<S, C>>,
    options: Options,
    state: RefCell<State>,
    fetches: read::Fetches,
    /// Waiting for the state to change.
    waiting: RefCell<Vec<Waker>>,
    /// The task that runs.
    runner: RefCell<Option<Waker>>,
    is_committing: Cell<bool>,
    is_collecting: Cell<bool>,
    /// The time of the last change that is durable, for other threads.
    changed_ns: Arc<AtomicU64>,
}

impl<S, C> Volume<S, C> {
    pub(crate) fn new(store: Rc<Patient<S, C>>, loaded: Loaded, options: Options) -> Self {
        let Loaded { original, header, manifest, map, stale } = loaded;
        let since = manifest.changes();
        let state = State {
            map,
            since,
            segments: manifest.segments,
            committing: None,
            pending: Runs::default(),
            chunks: BTreeMap::new(),
            by_bytes: BTreeSet::new(),
            by_age: BTreeSet::new(),
            sealed: BTreeSet::new(),
            cost: 0,
            is_full: false,
            generation: manifest.generation,
            opened: manifest.opened,
            changed_ns: manifest.changed_ns,
            newest_ns: manifest.changed_ns,
            last: 0,
            wanted: 0,
            durable: 0,
            failure: None,
            failures: 0,
            notes: manifest.notes,
            noted: 0,
            durably_noted: 0,
            snapshots: manifest.snapshots,
            asked: Vec::new(),
            short: None,
            fenced: None,
            garbage: Garbage::new(stale, manifest.generation, options.noted_max),
        };
        Self {
            original,
            header: Cell::new(header),
            store,
            options,
            changed_ns: Arc::new(AtomicU64::new(manifest.changed_ns)),
            state: RefCell::new(state),
            fetches: read::Fetches::default(),
            waiting: RefCell::default(),
            runner: RefCell::default(),
            is_committing: Cell::new(false),
            is_collecting: Cell::new(false),
        }
    }

    /// The volume's identity, its size, and that of its objects.
    pub fn header(&self) -> Header {
        self.header.get()
    }

    /// The bytes of an object that is made of a chunk now.
    fn chunk_len(&self, state: &State, chunk: u64) -> u32 {
        let header = self.header.get();
        match state.short {
            Some((short, _)) if short == chunk => header.chunk_bytes,
            _ => header.chunk_len(chunk),
        }
    }

    /// Its options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The generation with which it was opened.
    pub fn opened(&self) -> u64 {
        self.state.borrow().opened
    }

    /// What is asked of the store.
    pub fn metrics(&self) -> Arc<S3Metrics> {
        Arc::clone(&self.store.metrics)
    }

    /// The time of the last change that is durable, in nanoseconds since 1970; 0: there was none. It changes.
    pub fn changed_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.changed_ns)
    }

    /// Wakes those who wait for the state to change.
    fn changed(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
        self.wake_runner();
    }

    fn wake_runner(&self) {
        if let Some(waker) = self.runner.take() {
            waker.wake();
        }
    }

    /// Waits until `found` finds something in the state.
    async fn until<T>(&self, mut found: impl FnMut(&mut State) -> Option<T>) -> T {
        poll_fn(|context| match found(&mut self.state.borrow_mut()) {
            Some(value) => Poll::Ready(value),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
