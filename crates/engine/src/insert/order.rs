//! The order of insertion. Several workers prepare extents at the same time; they are appended one after the other, in
//! the order in which they were taken from the queue, whichever worker was faster. The worker that makes the next extent
//! ready appends it, and those after it that are ready already: no worker waits for another one.

use super::know::Prepared;
use crate::fingerprints::ContentPlace;
use nitro_units::Fingerprint;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};

/// Prepared extents, in their order.
#[derive(Default)]
pub(crate) struct Order {
    state: Mutex<State>,
    pub(super) noted: Mutex<Noted>,
}

#[derive(Default)]
struct State {
    /// The number of the next extent to append.
    next: u64,
    ready: BTreeMap<u64, Prepared>,
    /// A worker appends.
    is_appending: bool,
}

impl Order {
    /// Adds an extent with its number. A result obliges the caller to append what is ready; `None`: another worker
    /// appends it, or will.
    pub(super) fn offer(&self, number: u64, prepared: Prepared) -> Option<Appending<'_>> {
        let mut state = self.state.lock();
        state.ready.insert(number, prepared);
        if state.is_appending || number != state.next {
            return None;
        }
        state.is_appending = true;
        Some(Appending { order: self, is_over: false })
    }
}

/// The right to append. It ends when the next extent is not ready.
pub(super) struct Appending<'a> {
    order: &'a Order,
    is_over: bool,
}

impl Appending<'_> {
    /// The next extent; `None`: it is not ready, and the worker that makes it ready will append it.
    pub(super) fn next(&mut self) -> Option<Prepared> {
        if self.is_over {
            return None;
        }
        let mut state = self.order.state.lock();
        let number = state.next;
        let prepared = state.ready.remove(&number);
        match prepared {
            Some(_) => state.next += 1,
            None => (state.is_appending, self.is_over) = (false, true),
        }
        prepared
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.order.state.lock().is_appending = false;
        }
    }
}

/// The contents last entered in an index on flash: look-ups of them may have begun before. The index in RAM may have no
/// room for them.
#[derive(Default)]
pub(super) struct Noted(VecDeque<(Fingerprint, ContentPlace)>);

impl Noted {
    /// Notes a content, and forgets all but the last `count`: as many as there are look-ups at a time.
    pub(super) fn push(&mut self, fingerprint: Fingerprint, place: ContentPlace, count: usize) {
        self.0.truncate(count.saturating_sub(1));
        self.0.push_front((fingerprint, place));
    }

    pub(super) fn find(&self, fingerprint: &Fingerprint) -> Option<ContentPlace> {
        self.0.iter().find(|(noted, _)| noted == fingerprint).map(|(_, place)| *place)
    }
}
