//! What is under way in a volume: writes, reads of the origin that others may join, and extents on their way into the
//! cache. This is what keeps a fill from overwriting a newer write, and two misses from reading the origin twice.

use crate::error::Error;
use bytes::Bytes;
use event_listener::Event;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The permission to enter an extent's content into the cache; a write to the extent makes it void.
#[derive(Debug, Default)]
pub(crate) struct Token(AtomicBool);

impl Token {
    pub(crate) fn is_void(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// How a read of the origin ended; `None`: its reader went away.
type Outcome = Option<Result<Vec<Bytes>, Error>>;

/// A read of the origin under way, for all who want its extents.
#[derive(Debug)]
pub(super) struct Miss {
    /// The extents that it reads.
    pub(super) extents: Range<u64>,
    /// Extents below this number were waited for by others.
    joined_to: AtomicU64,
    /// Not ended yet: `None`.
    outcome: Mutex<Option<Outcome>>,
    done: Event,
}

impl Miss {
    /// Whether somebody else has waited for an extent.
    pub(super) fn is_joined(&self, index: u64) -> bool {
        index < self.joined_to.load(Ordering::Relaxed)
    }

    /// Waits for some extents of the read. `None`: its reader went away; read again.
    pub(super) async fn join(&self, extents: Range<u64>) -> Option<Result<Vec<Bytes>, Error>> {
        loop {
            let done = self.done.listen();
            match self.ended(&extents) {
                Some(outcome) => return outcome,
                None => done.await,
            }
        }
    }

    fn ended(&self, extents: &Range<u64>) -> Option<Outcome> {
        let (from, to) = (extents.start - self.extents.start, extents.end - self.extents.start);
        let outcome = self.outcome.lock();
        let part = |all: &Vec<Bytes>| all[from as usize..to as usize].to_vec();
        Some(outcome.as_ref()?.as_ref().map(|result| result.as_ref().map(part).map_err(Error::clone)))
    }

    fn finish(&self, outcome: Outcome) {
        self.outcome.lock().get_or_insert(outcome);
        self.done.notify(usize::MAX);
    }
}

#[derive(Debug)]
enum FillState {
    Reading(Arc<Miss>),
    /// On its way into the cache; with its bytes, where they are known already.
    Pending(Option<Bytes>),
}

#[derive(Debug)]
struct Fill {
    token: Arc<Token>,
    state: FillState,
}

impl Fill {
    fn reads_by(&self, miss: &Arc<Miss>) -> bool {
        matches!(&self.state, FillState::Reading(reading) if Arc::ptr_eq(reading, miss))
    }
}

#[derive(Debug, Default)]
struct State {
    writers: Vec<(u64, Range<u64>)>,
    fills: HashMap<u64, Fill>,
    writer_next: u64,
}

impl State {
    fn overlaps_writer(&self, extents: &Range<u64>) -> bool {
        self.writers.iter().any(|(_, w)| w.start < extents.end && extents.start < w.end)
    }

    /// Makes void and removes the fills of a range; gives `found` those with known bytes.
    fn void(&mut self, extents: &Range<u64>, mut found: impl FnMut(u64, Bytes)) {
        let mut void = |index: u64, fill: Fill| {
            fill.token.0.store(true, Ordering::SeqCst);
            if let FillState::Pending(Some(bytes)) = fill.state {
                found(index, bytes);
            }
        };
        if extents.end - extents.start <= self.fills.len() as u64 {
            for index in extents.clone() {
                if let Some(fill) = self.fills.remove(&index) {
                    void(index, fill);
                }
            }
        } else {
            self.fills.extract_if(|index, _| extents.contains(index)).for_each(|(index, fill)| void(index, fill));
        }
    }
}

/// The table of one volume.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    state: Mutex<State>,
    /// Writers and fills: while there are none, readers need not look.
    busy: AtomicUsize,
    released: Event,
}

/// How one extent of a miss is to be had.
#[derive(Debug)]
pub(super) enum Start {
    /// Read it from the origin, and say so through the [`Reading`].
    Own,
    /// Another reads it just now.
    Join(Arc<Miss>),
    /// It is here already.
    Here(Bytes),
    /// It is being written to: read it from the origin, and keep it to yourself.
    Unshared,
}

impl Flights {
    /// Whether anything is under way at all.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }

    fn update(&self, state: &State) {
        self.busy.store(state.writers.len() + state.fills.len(), Ordering::SeqCst);
    }

    /// The bytes of an extent that is on its way into the cache.
    pub(super) fn pending(&self, index: u64) -> Option<Bytes> {
        match &self.state.lock().fills.get(&index)?.state {
            FillState::Pending(bytes) => bytes.clone(),
            FillState::Reading(_) => None,
        }
    }

    /// Begins a miss of the extents from `extents.start` on: as many as can be had in one way, at most the range.
    pub(super) fn start(self: &Arc<Self>, extents: Range<u64>) -> (Start, Range<u64>, Option<Reading>) {
        let mut state = self.state.lock();
        let first = extents.start;
        let one = first..first + 1;
        if let Some(fill) = state.fills.get(&first) {
            return match &fill.state {
                FillState::Reading(miss) => {
                    let same = |index: &u64| state.fills.get(index).is_some_and(|f| f.reads_by(miss));
                    let end = (first..extents.end).take_while(same).last().unwrap_or(first) + 1;
                    miss.joined_to.fetch_max(end, Ordering::Relaxed);
                    (Start::Join(miss.clone()), first..end, None)
                }
                FillState::Pending(Some(bytes)) => (Start::Here(bytes.clone()), one, None),
                FillState::Pending(None) => (Start::Unshared, one, None),
            };
        }
        let is_writer = |index: u64| state.overlaps_writer(&(index..index + 1));
        let unshared = is_writer(first);
        let same = |index: &u64| !state.fills.contains_key(index) && is_writer(*index) == unshared;
        let end = (first + 1..extents.end).take_while(same).last().map_or(first + 1, |last| last + 1);
        if unshared {
            return (Start::Unshared, first..end, None);
        }
        let miss = Arc::new(Miss {
            extents: first..end,
            joined_to: AtomicU64::new(0),
            outcome: Mutex::new(None),
            done: Event::new(),
        });
        let tokens: Vec<_> = (first..end).map(|_| Arc::new(Token::default())).collect();
        for (index, token) in (first..end).zip(&tokens) {
            let fill = Fill { token: token.clone(), state: FillState::Reading(miss.clone()) };
            state.fills.insert(index, fill);
        }
        self.update(&state);
        (Start::Own, first..end, Some(Reading { flights: self.clone(), miss, tokens }))
    }

    /// Whether none of the extents is being read, written or inserted.
    pub(super) fn is_idle(&self, extents: &Range<u64>) -> bool {
        let state = self.state.lock();
        !state.overlaps_writer(extents) && !extents.clone().any(|index| state.fills.contains_key(&index))
    }

    /// An extent's insertion has ended, in whatever way.
    pub(crate) fn settle(&self, index: u64, token: &Arc<Token>) {
        let mut state = self.state.lock();
        if state.fills.get(&index).is_some_and(|fill| Arc::ptr_eq(&fill.token, token)) {
            state.fills.remove(&index);
            self.update(&state);
        }
    }

    /// Waits until no other write touches these extents, then makes every fill of them void. `found` gets the bytes of
    /// those that were on their way into the cache.
    pub(super) async fn begin_write(
        self: &Arc<Self>,
        extents: Range<u64>,
        mut found: impl FnMut(u64, Bytes),
    ) -> Writing {
        loop {
            let released = {
                let mut state = self.state.lock();
                if !state.overlaps_writer(&extents) {
                    state.void(&extents, &mut found);
                    state.writer_next += 1;
                    let id = state.writer_next;
                    state.writers.push((id, extents.clone()));
                    self.update(&state);
                    return Writing { flights: self.clone(), id };
                }
                self.released.listen()
            };
            released.await;
        }
    }
}

/// A read of the origin by its first asker. Dropped unfinished, it lets those who joined read for themselves.
pub(super) struct Reading {
    flights: Arc<Flights>,
    pub(super) miss: Arc<Miss>,
    tokens: Vec<Arc<Token>>,
}

impl Reading {
    /// Gives the result to all who joined. Where `keep` holds, the extents that were not written to meanwhile go on to
    /// be inserted: their tokens are returned, to be settled by whoever takes them. The others are forgotten here.
    pub(super) fn finish(self, result: Result<Vec<Bytes>, Error>, keep: bool) -> Vec<(u64, Bytes, Arc<Token>)> {
        let mut kept = Vec::new();
        if let (Ok(extents), true) = (&result, keep) {
            let mut state = self.flights.state.lock();
            for ((index, bytes), token) in self.miss.extents.clone().zip(extents).zip(&self.tokens) {
                let own = |fill: &&mut Fill| Arc::ptr_eq(&fill.token, token);
                if let Some(fill) = state.fills.get_mut(&index).filter(own) {
                    fill.state = FillState::Pending(Some(bytes.clone()));
                    kept.push((index, bytes.clone(), token.clone()));
                }
            }
        }
        self.miss.finish(Some(result));
        kept
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut state = self.flights.state.lock();
        for (index, token) in self.miss.extents.clone().zip(&self.tokens) {
            let reading = |fill: &Fill| Arc::ptr_eq(&fill.token, token) && matches!(fill.state, FillState::Reading(_));
            if state.fills.get(&index).is_some_and(reading) {
                state.fills.remove(&index);
            }
        }
        self.flights.update(&state);
        drop(state);
        self.miss.finish(None);
    }
}

/// A write under way. Dropped, it lets the next one in.
pub(super) struct Writing {
    flights: Arc<Flights>,
    id: u64,
}

impl Writing {
    /// Ends the write, and registers content to be inserted in the same step, so that no reader sees a gap. The
    /// returned tokens are to be settled by whoever takes them.
    pub(super) fn finish(self, contents: impl Iterator<Item = (u64, Option<Bytes>)>) -> Vec<(u64, Arc<Token>)> {
        let mut state = self.flights.state.lock();
        let mut tokens = Vec::new();
        for (index, bytes) in contents {
            let token = Arc::new(Token::default());
            tokens.push((index, token.clone()));
            state.fills.insert(index, Fill { token, state: FillState::Pending(bytes) });
        }
        drop(state);
        tokens
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.flights.state.lock();
        state.writers.retain(|(id, _)| *id != self.id);
        self.flights.update(&state);
        drop(state);
        self.flights.released.notify(usize::MAX);
    }
}
