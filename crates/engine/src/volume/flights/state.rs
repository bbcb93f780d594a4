//! The state of the writes and fills of one volume.

use super::fills::{Miss, Token};
use crate::insert::Content;
use crate::kept::Kept;
use crate::volume::context::RequestContext;
use nitro_units::{ExtentIndex, ExtentRange};
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum FillState {
    Reading(Arc<Miss>),
    /// It waits for insertion. The bytes of a merge are not known yet.
    Pending(Content),
}

#[derive(Debug)]
pub(super) struct Fill {
    pub(super) token: Arc<Token>,
    pub(super) state: FillState,
    /// A dirty write: only the next write makes it void.
    pub(super) dirty: bool,
}

/// What a write touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volume) enum Touches {
    /// The origin: write-through, trim, zeroes.
    Origin,
    /// Only the cache: write-back.
    Buffer,
    /// The origin, with content of the cache: destage.
    Destage,
}

impl Touches {
    /// Destage does not exclude clients that write to the cache: their writes are destaged later.
    pub(super) fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Buffer, Self::Destage) | (Self::Destage, Self::Buffer))
    }
}

impl Fill {
    pub(super) fn is_staged(&self) -> bool {
        !self.dirty && matches!(self.state, FillState::Pending(Content::Whole(..)))
    }

    /// The bytes that wait for insertion, if they are known.
    pub(super) const fn pending(&self) -> Option<&Kept> {
        if let FillState::Pending(Content::Whole(kept, _)) = &self.state { Some(kept) } else { None }
    }

    pub(super) fn reads_by(&self, miss: &Arc<Miss>) -> bool {
        matches!(&self.state, FillState::Reading(reading) if Arc::ptr_eq(reading, miss))
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) id: u64,
    pub(super) extents: ExtentRange,
    pub(super) touches: Touches,
    pub(super) context: RequestContext,
    /// Reads see what it writes already.
    pub(super) visible: bool,
}

impl Writer {
    pub(super) fn overlaps(&self, extents: ExtentRange) -> bool {
        self.extents.overlaps(extents)
    }
}

/// A write that waits for others to end.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) extents: ExtentRange,
    pub(super) touches: Touches,
    pub(super) context: RequestContext,
}

impl Waiter {
    pub(super) fn meets(&self, extents: ExtentRange, touches: Touches) -> bool {
        touches.excludes(self.touches) && self.extents.overlaps(extents)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) writers: Vec<Writer>,
    /// In the order of arrival.
    pub(super) waiters: Vec<Waiter>,
    pub(super) fills: HashMap<ExtentIndex, Fill>,
    /// Fills that are clean, and have their bytes.
    pub(super) staged: usize,
    pub(super) dirty: usize,
    pub(super) writer_next: u64,
}

impl State {
    pub(super) fn excludes(&self, extents: ExtentRange, touches: Touches) -> bool {
        self.writers.iter().any(|writer| touches.excludes(writer.touches) && writer.overlaps(extents))
    }

    /// Whether a write that arrived before waiter `id` (without `id`: any write) waits for these extents. A write that
    /// was given up before it began is ignored.
    pub(super) fn is_awaited(&self, extents: ExtentRange, touches: Touches, id: Option<u64>) -> bool {
        let earlier = self.waiters.iter().take_while(|waiter| Some(waiter.id) != id);
        earlier.filter(|waiter| !waiter.context.is_given_up()).any(|waiter| waiter.meets(extents, touches))
    }

    /// Whether a write that only destage delays waits for these extents. Writes that wait for a client, or behind such
    /// a write, do not count: they may need destage, since that client may wait for room.
    pub(super) fn is_awaited_by_next(&self, extents: ExtentRange) -> bool {
        let is_live = |waiter: &&Waiter| !waiter.context.is_given_up();
        let meets = |waiter: &Waiter| waiter.meets(extents, Touches::Destage);
        if !self.waiters.iter().filter(is_live).any(meets) {
            return false;
        }
        let mut behind_clients: Vec<&Waiter> = Vec::new();
        for waiter in self.waiters.iter().filter(is_live) {
            let mut clients = self.writers.iter().filter(|writer| writer.touches != Touches::Destage);
            let is_behind = clients.any(|client| waiter.meets(client.extents, client.touches))
                || behind_clients.iter().any(|earlier| earlier.meets(waiter.extents, waiter.touches));
            if is_behind {
                behind_clients.push(waiter);
            } else if meets(waiter) {
                return true;
            }
        }
        false
    }

    /// Whether a write to any of these extents was given up and has not ended: the content in the origin is unknown.
    pub(super) fn is_unsettled(&self, extents: ExtentRange) -> bool {
        let unsettled = |w: &Writer| w.touches == Touches::Origin && w.context.is_given_up() && w.overlaps(extents);
        self.writers.iter().any(unsettled)
    }

    /// Whether a client is writing to any of these extents.
    pub(super) fn is_written(&self, extents: ExtentRange) -> bool {
        self.excludes(extents, Touches::Buffer)
    }

    pub(super) fn put(&mut self, index: ExtentIndex, fill: Fill) -> Option<Fill> {
        self.staged += usize::from(fill.is_staged());
        let old = self.fills.insert(index, fill);
        self.staged -= usize::from(old.as_ref().is_some_and(Fill::is_staged));
        old
    }

    pub(super) fn take(&mut self, index: ExtentIndex) -> Option<Fill> {
        let fill = self.fills.remove(&index)?;
        self.staged -= usize::from(fill.is_staged());
        Some(fill)
    }

    /// Makes void and removes the clean fills of a range; gives `found` those that waited for insertion.
    pub(super) fn void(&mut self, extents: ExtentRange, mut found: impl FnMut(ExtentIndex, Content)) {
        let mut void = |index: ExtentIndex, fill: Fill| {
            fill.token.make_void();
            if let FillState::Pending(content) = fill.state {
                found(index, content);
            }
        };
        if extents.count() <= self.fills.len() as u64 {
            for index in extents.iter() {
                if self.fills.get(&index).is_some_and(|fill| !fill.dirty)
                    && let Some(fill) = self.take(index)
                {
                    void(index, fill);
                }
            }
        } else {
            let clean = |index: &ExtentIndex, fill: &mut Fill| extents.contains(*index) && !fill.dirty;
            for (index, fill) in self.fills.extract_if(clean) {
                self.staged -= usize::from(fill.is_staged());
                void(index, fill);
            }
        }
    }
}
