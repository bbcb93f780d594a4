//! What is under way in a volume: writes, reads of the origin that others may join, and extents on their way into the
//! cache. This is what keeps a fill from overwriting a newer write, and two misses from reading the origin twice.

use super::contents::DirtyContents;
use super::context::RequestContext;
use crate::error::Error;
use crate::kept::Kept;
use bytes::Bytes;
use event_listener::Event;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The permission to enter an extent's content into the cache; a write to the extent makes it void.
#[derive(Debug, Default)]
pub(crate) struct Token {
    void: AtomicBool,
    inserted: AtomicBool,
    /// Its content was read again meanwhile.
    used: AtomicBool,
}

impl Token {
    pub(crate) fn is_void(&self) -> bool {
        self.void.load(Ordering::SeqCst)
    }

    fn make_void(&self) {
        self.void.store(true, Ordering::SeqCst);
    }

    /// Whether the content that it was given for was read again while it waited.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the dirty content that it was given for is in the cache, or newer content of the extent: what the journal
    /// is to be told of it has been handed to the ledger.
    pub(crate) fn is_inserted(&self) -> bool {
        self.inserted.load(Ordering::SeqCst)
    }

    pub(crate) fn set_inserted(&self) {
        self.inserted.store(true, Ordering::SeqCst);
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
    Pending(Option<Kept>),
}

#[derive(Debug)]
struct Fill {
    token: Arc<Token>,
    state: FillState,
    /// A write that only the cache has: not made void but by the next.
    dirty: bool,
}

/// What a write touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touches {
    /// The origin: write-through, trim, zeroes.
    Origin,
    /// The cache alone: write-back.
    Buffer,
    /// The origin, with what the cache has: destage.
    Destage,
}

impl Touches {
    /// Destage leaves clients alone that write to the cache: what they write is destaged in its turn.
    fn excludes(self, other: Self) -> bool {
        !matches!((self, other), (Self::Buffer, Self::Destage) | (Self::Destage, Self::Buffer))
    }
}

impl Fill {
    fn is_staged(&self) -> bool {
        !self.dirty && matches!(self.state, FillState::Pending(Some(_)))
    }

    fn reads_by(&self, miss: &Arc<Miss>) -> bool {
        matches!(&self.state, FillState::Reading(reading) if Arc::ptr_eq(reading, miss))
    }
}

#[derive(Debug)]
struct Writer {
    id: u64,
    extents: Range<u64>,
    touches: Touches,
    context: RequestContext,
    /// Reads see what it writes already.
    visible: bool,
}

impl Writer {
    fn overlaps(&self, extents: &Range<u64>) -> bool {
        self.extents.start < extents.end && extents.start < self.extents.end
    }
}

/// A write that waits for others to end.
#[derive(Debug)]
struct Waiter {
    id: u64,
    extents: Range<u64>,
    touches: Touches,
    context: RequestContext,
}

impl Waiter {
    fn meets(&self, extents: &Range<u64>, touches: Touches) -> bool {
        touches.excludes(self.touches) && self.extents.start < extents.end && extents.start < self.extents.end
    }
}

#[derive(Debug, Default)]
struct State {
    writers: Vec<Writer>,
    /// In the order in which they came.
    waiters: Vec<Waiter>,
    fills: HashMap<u64, Fill>,
    /// Fills that are clean, and have their bytes.
    staged: usize,
    dirty: usize,
    writer_next: u64,
}

impl State {
    fn excludes(&self, extents: &Range<u64>, touches: Touches) -> bool {
        self.writers.iter().any(|writer| touches.excludes(writer.touches) && writer.overlaps(extents))
    }

    /// Whether a write that came before waiter `id`, or any where there is none, waits for these extents. One that was given up
    /// changes nothing any more.
    fn is_awaited(&self, extents: &Range<u64>, touches: Touches, id: Option<u64>) -> bool {
        let earlier = self.waiters.iter().take_while(|waiter| Some(waiter.id) != id);
        earlier.filter(|waiter| !waiter.context.is_given_up()).any(|waiter| waiter.meets(extents, touches))
    }

    /// Whether a write that only destage keeps waiting waits for these extents. What waits for a client may need destage to go on,
    /// since that client may wait for room.
    fn is_awaited_by_next(&self, extents: &Range<u64>) -> bool {
        let client = |waiter: &Waiter| {
            let mut clients = self.writers.iter().filter(|writer| writer.touches != Touches::Destage);
            clients.any(|writer| waiter.meets(&writer.extents, writer.touches))
        };
        let next = |waiter: &&Waiter| !waiter.context.is_given_up() && waiter.meets(extents, Touches::Destage);
        self.waiters.iter().filter(next).any(|waiter| !client(waiter))
    }

    /// Whether a write to any of these extents was given up, and has not ended: nobody knows what the origin has there.
    fn is_unsettled(&self, extents: &Range<u64>) -> bool {
        let unsettled = |w: &Writer| w.touches == Touches::Origin && w.context.is_given_up() && w.overlaps(extents);
        self.writers.iter().any(unsettled)
    }

    /// Whether a client is writing to any of these extents.
    fn is_written(&self, extents: &Range<u64>) -> bool {
        self.excludes(extents, Touches::Buffer)
    }

    fn put(&mut self, index: u64, fill: Fill) -> Option<Fill> {
        self.staged += usize::from(fill.is_staged());
        let old = self.fills.insert(index, fill);
        self.staged -= usize::from(old.as_ref().is_some_and(Fill::is_staged));
        old
    }

    fn take(&mut self, index: u64) -> Option<Fill> {
        let fill = self.fills.remove(&index)?;
        self.staged -= usize::from(fill.is_staged());
        Some(fill)
    }

    /// Makes void and removes the clean fills of a range; gives `found` those with known bytes.
    fn void(&mut self, extents: &Range<u64>, mut found: impl FnMut(u64, Bytes)) {
        let mut void = |index: u64, fill: Fill| {
            fill.token.make_void();
            if let FillState::Pending(Some(kept)) = fill.state {
                found(index, kept.bytes().clone());
            }
        };
        if extents.end - extents.start <= self.fills.len() as u64 {
            for index in extents.clone() {
                if self.fills.get(&index).is_some_and(|fill| !fill.dirty)
                    && let Some(fill) = self.take(index)
                {
                    void(index, fill);
                }
            }
        } else {
            let clean = |index: &u64, fill: &mut Fill| extents.contains(index) && !fill.dirty;
            for (index, fill) in self.fills.extract_if(clean) {
                self.staged -= usize::from(fill.is_staged());
                void(index, fill);
            }
        }
    }
}

/// The table of one volume.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    state: Mutex<State>,
    /// Writers, and fills but those that are clean and have their bytes: while there are none, readers need not look before they look
    /// elsewhere.
    busy: AtomicUsize,
    /// Fills that are clean and have their bytes: readers that find nothing elsewhere need not look while there are none.
    staged: AtomicUsize,
    released: Event,
    /// A dirty extent is in the cache.
    settled: Event,
    pub(crate) dirty_contents: DirtyContents,
}

/// How one extent of a miss is to be had.
#[derive(Debug)]
pub(super) enum Start {
    /// Read it from the origin, and say so through the [`Reading`].
    Own,
    /// Another reads it just now.
    Join(Arc<Miss>),
    /// It is here already.
    Here(Kept),
    /// It is being written to: read it from the origin, and keep it to yourself.
    Unshared,
    /// A write to it was given up: wait for its end.
    Unsettled,
}

impl Flights {
    /// Whether clean extents with their bytes are on their way into the cache.
    pub(super) fn has_staged(&self) -> bool {
        self.staged.load(Ordering::SeqCst) != 0
    }

    /// Whether anything is under way that elsewhere an older content may be found of.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }

    fn update(&self, state: &State) {
        self.busy.store(state.writers.len() + state.fills.len() - state.staged, Ordering::SeqCst);
        self.staged.store(state.staged, Ordering::SeqCst);
    }

    /// The bytes of an extent that is on its way into the cache.
    pub(super) fn pending(&self, index: u64) -> Option<Kept> {
        match &self.state.lock().fills.get(&index)?.state {
            FillState::Pending(kept) => kept.clone(),
            FillState::Reading(_) => None,
        }
    }

    /// As [`pending`](Self::pending), for a client that reads it.
    pub(super) fn read_pending(&self, index: u64) -> Option<Kept> {
        let state = self.state.lock();
        let fill = state.fills.get(&index)?;
        let FillState::Pending(kept) = &fill.state else { return None };
        fill.token.used.store(true, Ordering::Relaxed);
        kept.clone()
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
                FillState::Pending(Some(kept)) => (Start::Here(kept.clone()), one, None),
                FillState::Pending(None) => (Start::Unshared, one, None),
            };
        }
        if state.is_unsettled(&one) {
            return (Start::Unsettled, one, None);
        }
        let is_writer = |index: u64| state.is_written(&(index..index + 1));
        let unshared = is_writer(first);
        let same = |index: &u64| {
            let settled = !state.is_unsettled(&(*index..*index + 1));
            settled && !state.fills.contains_key(index) && is_writer(*index) == unshared
        };
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
            let fill = Fill { token: token.clone(), state: FillState::Reading(miss.clone()), dirty: false };
            state.put(index, fill);
        }
        self.update(&state);
        (Start::Own, first..end, Some(Reading { flights: self.clone(), miss, tokens }))
    }

    /// Whether none of the extents is being read, written or inserted.
    pub(super) fn is_idle(&self, extents: &Range<u64>) -> bool {
        let state = self.state.lock();
        !state.is_written(extents) && !extents.clone().any(|index| state.fills.contains_key(&index))
    }

    /// An extent's insertion has ended, in whatever way.
    pub(crate) fn settle(&self, index: u64, token: &Arc<Token>) {
        let mut state = self.state.lock();
        if state.fills.get(&index).is_some_and(|fill| Arc::ptr_eq(&fill.token, token)) {
            let dirty = state.take(index).is_some_and(|fill| fill.dirty);
            state.dirty -= usize::from(dirty);
            self.update(&state);
            if dirty {
                self.settled.notify(usize::MAX);
            }
        }
    }

    /// Waits until no other write touches these extents, in the order in which they came. One that touches the origin makes every
    /// clean fill of them void; `found` gets the bytes of those that were on their way into the cache.
    pub(super) async fn begin_write(
        self: &Arc<Self>,
        extents: Range<u64>,
        touches: Touches,
        context: &RequestContext,
        mut found: impl FnMut(u64, Bytes),
    ) -> Writing {
        let mut waiting: Option<Waiting<'_>> = None;
        loop {
            let released = {
                let mut state = self.state.lock();
                let id = waiting.as_ref().map(|waiting| waiting.id);
                if !state.excludes(&extents, touches) && !state.is_awaited(&extents, touches, id) {
                    if touches == Touches::Origin {
                        state.void(&extents, &mut found);
                    }
                    let writing = self.enter(&mut state, extents, touches, context.clone());
                    drop(state);
                    return writing;
                }
                waiting.get_or_insert_with(|| {
                    state.writer_next += 1;
                    let id = state.writer_next;
                    state.waiters.push(Waiter { id, extents: extents.clone(), touches, context: context.clone() });
                    Waiting { flights: self, id }
                });
                self.released.listen()
            };
            released.await;
        }
    }

    /// Begins a round of destage if no other write touches these extents, or is about to.
    pub(super) fn try_begin_destage(self: &Arc<Self>, extents: Range<u64>) -> Option<Writing> {
        let mut state = self.state.lock();
        (!state.excludes(&extents, Touches::Destage) && !state.is_awaited_by_next(&extents))
            .then(|| self.enter(&mut state, extents, Touches::Destage, RequestContext::default()))
    }

    /// A request was given up: what came after it waits for it no more.
    pub(super) fn given_up(&self) {
        self.released.notify(usize::MAX);
    }

    /// Ends when all writes have ended whose contents reads see by now: what a client has read, and then flushed, must be
    /// durable, also where the write was given up.
    pub(super) async fn visible_ended(&self) {
        let visible = |state: &State| state.writers.iter().filter(|w| w.visible).map(|w| w.id).collect::<Vec<_>>();
        let seen = visible(&self.state.lock());
        loop {
            let released = self.released.listen();
            if seen.is_empty() || !visible(&self.state.lock()).iter().any(|id| seen.contains(id)) {
                return;
            }
            released.await;
        }
    }

    /// Ends when no write to these extents is left that was given up.
    pub(super) async fn settled_writes(&self, extents: &Range<u64>) {
        loop {
            let released = self.released.listen();
            if !self.state.lock().is_unsettled(extents) {
                return;
            }
            released.await;
        }
    }

    fn enter(
        self: &Arc<Self>,
        state: &mut State,
        extents: Range<u64>,
        touches: Touches,
        context: RequestContext,
    ) -> Writing {
        state.writer_next += 1;
        let id = state.writer_next;
        state.writers.push(Writer { id, extents, touches, context, visible: false });
        self.update(state);
        Writing { flights: self.clone(), id }
    }

    /// The dirty content of an extent that is on its way into the cache, if any is.
    pub(crate) fn newest_dirty(&self, index: u64) -> Option<(Kept, Arc<Token>)> {
        let state = self.state.lock();
        match state.fills.get(&index) {
            Some(Fill { state: FillState::Pending(Some(kept)), dirty: true, token }) => {
                Some((kept.clone(), token.clone()))
            }
            _ => None,
        }
    }

    /// Before anything is served: dirty content that a restart found, on its way into the cache. The token is to be
    /// settled by whoever takes it.
    pub(crate) fn restore(&self, index: u64, kept: Kept) -> Arc<Token> {
        let mut state = self.state.lock();
        let token = Arc::new(Token::default());
        let fill = Fill { token: token.clone(), state: FillState::Pending(Some(kept)), dirty: true };
        state.put(index, fill);
        state.dirty += 1;
        self.update(&state);
        token
    }

    /// Whether dirty extents of the range are on their way into the cache.
    pub(super) fn has_dirty(&self, extents: &Range<u64>) -> bool {
        let state = self.state.lock();
        let within = |(index, fill): (&u64, &Fill)| fill.dirty && extents.contains(index);
        state.dirty > 0 && state.fills.iter().any(within)
    }

    /// The dirty extents of the range that are on their way into the cache, in no order.
    pub(super) fn dirty(&self, extents: &Range<u64>) -> Vec<u64> {
        let state = self.state.lock();
        let within = |(index, fill): &(&u64, &Fill)| fill.dirty && extents.contains(index);
        state.fills.iter().filter(within).map(|(index, _)| *index).collect()
    }

    /// Ends when no dirty extent of the range is on its way into the cache.
    pub(super) async fn dirty_settled(&self, extents: &Range<u64>) {
        loop {
            let settled = self.settled.listen();
            if !self.has_dirty(extents) {
                return;
            }
            settled.await;
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
    /// Gives the result to all who joined. The extents of `keep`, if any, that were not written to meanwhile go on to be inserted:
    /// their tokens are returned, to be settled by whoever takes them. The others are forgotten here.
    pub(super) fn finish(self, result: Result<Vec<Bytes>, Error>, keep: Vec<Kept>) -> Vec<(u64, Kept, Arc<Token>)> {
        let mut kept = Vec::new();
        if !keep.is_empty() {
            let mut state = self.flights.state.lock();
            for ((index, extent), token) in self.miss.extents.clone().zip(keep).zip(&self.tokens) {
                let own = |fill: &&mut Fill| Arc::ptr_eq(&fill.token, token);
                if let Some(fill) = state.fills.get_mut(&index).filter(own) {
                    fill.state = FillState::Pending(Some(extent.clone()));
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
        for (index, token) in self.miss.extents.clone().zip(&self.tokens) {
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

/// A write under way. Dropped, it lets the next one in.
pub(super) struct Writing {
    flights: Arc<Flights>,
    id: u64,
}

impl Writing {
    /// Ends the write, and registers content to be inserted in the same step, so that no reader sees a gap. The
    /// returned tokens are to be settled by whoever takes them.
    pub(super) fn finish(self, contents: impl Iterator<Item = (u64, Option<Kept>)>) -> Vec<(u64, Arc<Token>)> {
        let mut state = self.flights.state.lock();
        let mut tokens = Vec::new();
        for (index, kept) in contents {
            let token = Arc::new(Token::default());
            tokens.push((index, token.clone()));
            state.put(index, Fill { token, state: FillState::Pending(kept), dirty: false });
        }
        self.flights.update(&state);
        drop(state);
        tokens
    }

    /// Registers content that only the cache is to have, in the place of whatever is on its way there; the write goes
    /// on. The returned tokens are to be settled by whoever takes them.
    pub(super) fn replace(&self, contents: impl Iterator<Item = (u64, Kept)>) -> Vec<Arc<Token>> {
        let mut state = self.flights.state.lock();
        let mut tokens = Vec::new();
        for (index, kept) in contents {
            let token = Arc::new(Token::default());
            tokens.push(token.clone());
            state.dirty += 1;
            let fill = Fill { token, state: FillState::Pending(Some(kept)), dirty: true };
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

/// The place of a write among those that wait.
struct Waiting<'a> {
    flights: &'a Flights,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.flights.state.lock().waiters.retain(|waiter| waiter.id != self.id);
        self.flights.released.notify(usize::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use nitro_units::ClassId;
    use std::pin::pin;

    fn context() -> RequestContext {
        RequestContext::default()
    }

    #[test]
    fn a_wide_write_that_waits_is_not_overtaken_and_destage_lets_it_pass() {
        let flights = Arc::new(Flights::default());
        let (narrow, wide) = (context(), context());
        let begin = |extents, touches, context| Box::pin(flights.begin_write(extents, touches, context, |_, _| {}));
        let first = begin(3..4, Touches::Buffer, &narrow).now_or_never().unwrap();
        let mut trim = begin(0..100, Touches::Origin, &wide);
        assert!(trim.as_mut().now_or_never().is_none());
        let mut later = begin(50..51, Touches::Buffer, &narrow);
        assert!(later.as_mut().now_or_never().is_none(), "it overtook the trim");
        assert!(begin(200..201, Touches::Buffer, &narrow).now_or_never().is_some(), "nothing waits for this one");
        // The client that the trim waits for may need room: destage goes on.
        let destage = flights.try_begin_destage(60..61).unwrap();
        drop(first);
        assert!(trim.as_mut().now_or_never().is_none());
        assert!(flights.try_begin_destage(70..71).is_none(), "destage keeps the trim waiting");
        drop(destage);
        let trim = trim.now_or_never().unwrap();
        assert!(later.as_mut().now_or_never().is_none());
        drop(trim);
        assert!(later.now_or_never().is_some());
    }

    #[test]
    fn what_goes_away_or_is_given_up_keeps_nobody_waiting() {
        let flights = Arc::new(Flights::default());
        let (narrow, wide) = (context(), RequestContext::limited(ClassId::default()));
        let begin = |extents, touches, context| Box::pin(flights.begin_write(extents, touches, context, |_, _| {}));
        let _first = begin(3..4, Touches::Origin, &narrow).now_or_never().unwrap();
        let mut gone = begin(0..100, Touches::Origin, &narrow);
        assert!(gone.as_mut().now_or_never().is_none());
        let mut given_up = pin!(begin(0..100, Touches::Origin, &wide));
        assert!(given_up.as_mut().now_or_never().is_none());
        let mut later = begin(50..51, Touches::Origin, &narrow);
        assert!(later.as_mut().now_or_never().is_none());
        drop(gone);
        assert!(later.as_mut().now_or_never().is_none());
        wide.give_up();
        flights.given_up();
        assert!(later.now_or_never().is_some());
        assert!(given_up.as_mut().now_or_never().is_none());
    }
}
