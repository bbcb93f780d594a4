//! Extents that wait for insertion, and reads of the origin.

use crate::error::Error;
use bytes::Bytes;
use event_listener::Event;
use nitro_units::{ExtentIndex, ExtentRange};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The permission to insert an extent's content into the cache; a write to the extent makes it void.
#[derive(Debug, Default)]
pub(crate) struct Token {
    void: AtomicBool,
    inserted: AtomicBool,
    /// Its content was read again meanwhile.
    pub(super) used: AtomicBool,
}

impl Token {
    pub(crate) fn is_void(&self) -> bool {
        self.void.load(Ordering::SeqCst)
    }

    pub(super) fn make_void(&self) {
        self.void.store(true, Ordering::SeqCst);
    }

    /// Whether its content was read again while it waited.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether its dirty content, or newer content of the extent, is in the cache, and its journal records are in the
    /// ledger.
    pub(crate) fn is_inserted(&self) -> bool {
        self.inserted.load(Ordering::SeqCst)
    }

    pub(crate) fn set_inserted(&self) {
        self.inserted.store(true, Ordering::SeqCst);
    }
}

/// The result of a read of the origin; `None`: its reader was dropped.
type Outcome = Option<Result<Vec<Bytes>, Error>>;

/// A read of the origin in progress, for all requests that need its extents.
#[derive(Debug)]
pub(in crate::volume) struct Miss {
    /// The extents that it reads.
    pub(in crate::volume) extents: ExtentRange,
    /// Other requests waited for extents below this number.
    pub(super) joined_to: AtomicU64,
    /// Not ended yet: `None`.
    outcome: Mutex<Option<Outcome>>,
    done: Event,
}

impl Miss {
    pub(super) fn new(extents: ExtentRange) -> Self {
        Self { extents, joined_to: AtomicU64::new(0), outcome: Mutex::new(None), done: Event::new() }
    }

    /// Whether another request has waited for an extent.
    pub(in crate::volume) fn is_joined(&self, index: ExtentIndex) -> bool {
        index.0 < self.joined_to.load(Ordering::Relaxed)
    }

    /// Waits for some extents of the read. `None`: its reader was dropped; read again.
    pub(in crate::volume) async fn join(&self, extents: ExtentRange) -> Option<Result<Vec<Bytes>, Error>> {
        loop {
            let done = self.done.listen();
            match self.ended(extents) {
                Some(outcome) => return outcome,
                None => done.await,
            }
        }
    }

    fn ended(&self, extents: ExtentRange) -> Option<Outcome> {
        let (from, to) = (extents.start.0 - self.extents.start.0, extents.end.0 - self.extents.start.0);
        let outcome = self.outcome.lock();
        let part = |all: &Vec<Bytes>| all[from as usize..to as usize].to_vec();
        Some(outcome.as_ref()?.as_ref().map(|result| result.as_ref().map(part).map_err(Error::clone)))
    }

    pub(super) fn finish(&self, outcome: Outcome) {
        self.outcome.lock().get_or_insert(outcome);
        self.done.notify(usize::MAX);
    }
}
