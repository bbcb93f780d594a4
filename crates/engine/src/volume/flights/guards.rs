//! Reads and writes in progress; they end when they are dropped.

use super::Flights;
use super::fills::{Miss, Token};
use super::state::{Fill, FillState};
use crate::error::Error;
use crate::insert::Content;
use crate::kept::Kept;
use bytes::Bytes;
use nitro_units::ExtentIndex;
use std::sync::Arc;

/// A read of the origin by the first request for it. If it is dropped unfinished, requests that joined read for
/// themselves.
pub(in crate::volume) struct Reading {
    pub(super) flights: Arc<Flights>,
    pub(in crate::volume) miss: Arc<Miss>,
    pub(super) tokens: Vec<Arc<Token>>,
}

impl Reading {
    /// Passes the result to all requests that joined. The extents of `keep`, if any, that were not written to meanwhile
    /// are registered for insertion: their tokens are returned, and the taker has to settle them. The others are
    /// removed.
    pub(in crate::volume) fn finish(
        self,
        result: Result<Vec<Bytes>, Error>,
        keep: Vec<Kept>,
    ) -> Vec<(ExtentIndex, Kept, Arc<Token>)> {
        let mut kept = Vec::new();
        if !keep.is_empty() {
            let mut state = self.flights.state.lock();
            for ((index, extent), token) in self.miss.extents.iter().zip(keep).zip(&self.tokens) {
                let own = |fill: &&mut Fill| Arc::ptr_eq(&fill.token, token);
                if let Some(fill) = state.fills.get_mut(&index).filter(own) {
                    fill.state = FillState::Pending(Content::Whole(extent.clone(), None));
                    state.staged += 1;
                    kept.push((index, extent, token.clone()));
                }
            }
            self.flights.update(&state);
        }
        self.miss.finish(Some(result));
        kept
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.flights.state.lock();
        for (index, token) in self.miss.extents.iter().zip(&self.tokens) {
            let reading = |fill: &Fill| Arc::ptr_eq(&fill.token, token) && matches!(fill.state, FillState::Reading(_));
            if state.fills.get(&index).is_some_and(reading) {
                state.take(index);
            }
        }
        self.flights.update(&state);
        drop(state);
        self.miss.finish(None);
    }
}

/// A write in progress. When it is dropped, the next one may begin.
pub(in crate::volume) struct Writing {
    pub(super) flights: Arc<Flights>,
    pub(super) id: u64,
}

impl Writing {
    /// Ends the write, and registers content to be inserted in the same step, so that no reader sees a gap. The
    /// returned tokens are to be settled by whoever takes them.
    pub(in crate::volume) fn finish(
        self,
        contents: impl Iterator<Item = (ExtentIndex, Content)>,
    ) -> Vec<(ExtentIndex, Arc<Token>)> {
        let mut state = self.flights.state.lock();
        let mut tokens = Vec::new();
        for (index, content) in contents {
            let token = Arc::new(Token::default());
            tokens.push((index, token.clone()));
            state.put(index, Fill { token, state: FillState::Pending(content), dirty: false });
        }
        self.flights.update(&state);
        drop(state);
        tokens
    }

    /// Registers dirty content, replacing content that waits for insertion; the write continues. The taker of the
    /// returned tokens has to settle them.
    pub(in crate::volume) fn replace(&self, contents: impl Iterator<Item = (ExtentIndex, Kept)>) -> Vec<Arc<Token>> {
        let mut state = self.flights.state.lock();
        let mut tokens = Vec::new();
        for (index, kept) in contents {
            let token = Arc::new(Token::default());
            tokens.push(token.clone());
            state.dirty += 1;
            let fill = Fill { token, state: FillState::Pending(Content::Whole(kept, None)), dirty: true };
            if let Some(old) = state.put(index, fill) {
                old.token.make_void();
                state.dirty -= usize::from(old.dirty);
            }
        }
        if let Some(writer) = state.writers.iter_mut().find(|writer| writer.id == self.id) {
            writer.visible = true;
        }
        self.flights.update(&state);
        tokens
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.flights.state.lock();
        state.writers.retain(|writer| writer.id != self.id);
        self.flights.update(&state);
        drop(state);
        self.flights.released.notify(usize::MAX);
    }
}

/// The place of a write among those that wait.
pub(super) struct Waiting<'a> {
    pub(super) flights: &'a Flights,
    pub(super) id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.flights.state.lock().waiters.retain(|waiter| waiter.id != self.id);
        self.flights.released.notify(usize::MAX);
    }
}
