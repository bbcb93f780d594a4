//! Operations in progress in a volume: writes, reads of the origin that other requests may join, and extents that wait
//! for insertion. This prevents a fill from overwriting a newer write, and concurrent misses from reading the origin
//! twice.

mod fills;
mod guards;
mod state;

pub(super) use fills::Miss;
pub(crate) use fills::Token;
pub(super) use guards::{Reading, Writing};
pub(super) use state::Touches;

use super::contents::DirtyContents;
use super::context::RequestContext;
use crate::insert::Content;
use crate::kept::Kept;
use event_listener::Event;
use guards::Waiting;
use nitro_units::{ExtentIndex, ExtentRange};
use parking_lot::Mutex;
use state::{Fill, FillState, State, Waiter, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The table of one volume.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    state: Mutex<State>,
    /// Number of writers, and of fills that are dirty or do not have their bytes yet. While it is zero, readers need
    /// not search the table first.
    busy: AtomicUsize,
    /// Number of clean fills that have their bytes. While it is zero, readers that find an extent nowhere else need not
    /// search the table.
    staged: AtomicUsize,
    released: Event,
    /// A dirty extent was inserted.
    settled: Event,
    pub(crate) dirty_contents: DirtyContents,
}

/// How to get an extent of a miss.
#[derive(Debug)]
pub(super) enum Start {
    /// Read it from the origin, and report the result through the [`Reading`].
    Own,
    /// Another request is reading it.
    Join(Arc<Miss>),
    /// It is in RAM already.
    Here(Kept),
    /// It is being written to: read it from the origin, without sharing the result.
    Unshared,
    /// A write to it was given up: wait for its end.
    Unsettled,
}

impl Flights {
    /// Whether clean extents with their bytes wait for insertion.
    pub(super) fn has_staged(&self) -> bool {
        self.staged.load(Ordering::SeqCst) != 0
    }

    /// Whether an operation is in progress for whose extents older content may be found elsewhere.
    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst) != 0
    }

    fn update(&self, state: &State) {
        self.busy.store(state.writers.len() + state.fills.len() - state.staged, Ordering::SeqCst);
        self.staged.store(state.staged, Ordering::SeqCst);
    }

    /// The bytes of an extent that waits for insertion.
    pub(super) fn pending(&self, index: ExtentIndex) -> Option<Kept> {
        self.state.lock().fills.get(&index)?.pending().cloned()
    }

    /// As [`pending`](Self::pending), for a client that reads it.
    pub(super) fn read_pending(&self, index: ExtentIndex) -> Option<Kept> {
        let state = self.state.lock();
        let fill = state.fills.get(&index)?;
        let kept = fill.pending().cloned();
        fill.token.used.fetch_or(kept.is_some(), Ordering::Relaxed);
        kept
    }

    /// Begins a miss of the extents from `extents.start` on: as many as can be treated in the same way, at most the
    /// range.
    pub(super) fn start(self: &Arc<Self>, extents: ExtentRange) -> (Start, ExtentRange, Option<Reading>) {
        let mut state = self.state.lock();
        let first = extents.start;
        let one = ExtentRange::one(first);
        let rest = ExtentRange::new(first.next(), extents.end);
        let with_first = |rest: ExtentRange| ExtentRange::new(first, rest.end);
        if let Some(fill) = state.fills.get(&first) {
            return match &fill.state {
                FillState::Reading(miss) => {
                    let same = |index| state.fills.get(&index).is_some_and(|f| f.reads_by(miss));
                    let range = with_first(rest.take_while(same));
                    miss.joined_to.fetch_max(range.end.0, Ordering::Relaxed);
                    (Start::Join(miss.clone()), range, None)
                }
                FillState::Pending(Content::Whole(kept, _)) => (Start::Here(kept.clone()), one, None),
                FillState::Pending(Content::Merge(_)) => (Start::Unshared, one, None),
            };
        }
        if state.is_unsettled(one) {
            return (Start::Unsettled, one, None);
        }
        let is_writer = |index| state.is_written(ExtentRange::one(index));
        let unshared = is_writer(first);
        let same = |index| {
            let settled = !state.is_unsettled(ExtentRange::one(index));
            settled && !state.fills.contains_key(&index) && is_writer(index) == unshared
        };
        let range = with_first(rest.take_while(same));
        if unshared {
            return (Start::Unshared, range, None);
        }
        let miss = Arc::new(Miss::new(range));
        let tokens: Vec<_> = range.iter().map(|_| Arc::new(Token::default())).collect();
        for (index, token) in range.iter().zip(&tokens) {
            let fill = Fill { token: token.clone(), state: FillState::Reading(miss.clone()), dirty: false };
            state.put(index, fill);
        }
        self.update(&state);
        (Start::Own, range, Some(Reading { flights: self.clone(), miss, tokens }))
    }

    /// Whether none of the extents is being read, written or inserted.
    pub(super) fn is_idle(&self, extents: ExtentRange) -> bool {
        let state = self.state.lock();
        !state.is_written(extents) && !extents.iter().any(|index| state.fills.contains_key(&index))
    }

    /// Whether extents between others may be read from the origin, to be thrown away: not while a write to them that was
    /// given up may still hang there.
    pub(super) fn may_be_read_through(&self, extents: ExtentRange) -> bool {
        !self.state.lock().is_unsettled(extents)
    }

    /// Notes the bytes of an extent that waits for insertion as a merge; `false`: it was written to meanwhile.
    pub(crate) fn complete(&self, index: ExtentIndex, token: &Arc<Token>, kept: &Kept) -> bool {
        let mut state = self.state.lock();
        let Some(fill) = state.fills.get_mut(&index).filter(|fill| Arc::ptr_eq(&fill.token, token)) else {
            return false;
        };
        let was_staged = fill.is_staged();
        fill.state = FillState::Pending(Content::Whole(kept.clone(), None));
        state.staged += usize::from(!was_staged);
        self.update(&state);
        true
    }

    /// Notes that the insertion of an extent has ended, with any result.
    pub(crate) fn settle(&self, index: ExtentIndex, token: &Arc<Token>) {
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

    /// Waits until no other write touches these extents, in the order of arrival. A write to the origin makes every
    /// clean fill of them void; `found` gets what waited for insertion.
    pub(super) async fn begin_write(
        self: &Arc<Self>,
        extents: ExtentRange,
        touches: Touches,
        context: &RequestContext,
        mut found: impl FnMut(ExtentIndex, Content),
    ) -> Writing {
        let mut waiting: Option<Waiting<'_>> = None;
        loop {
            let released = {
                let mut state = self.state.lock();
                let id = waiting.as_ref().map(|waiting| waiting.id);
                if !state.excludes(extents, touches) && !state.is_awaited(extents, touches, id) {
                    if touches == Touches::Origin {
                        state.void(extents, &mut found);
                    }
                    let writing = self.enter(&mut state, extents, touches, context.clone());
                    drop(state);
                    return writing;
                }
                waiting.get_or_insert_with(|| {
                    state.writer_next += 1;
                    let id = state.writer_next;
                    state.waiters.push(Waiter { id, extents, touches, context: context.clone() });
                    Waiting { flights: self, id }
                });
                self.released.listen()
            };
            released.await;
        }
    }

    /// Makes every clean fill void.
    pub(super) fn void_clean(&self) {
        let mut state = self.state.lock();
        state.void(ExtentRange::ALL, |_, _| {});
        self.update(&state);
    }

    /// Begins a round of destage if no other write touches these extents, or is about to.
    pub(super) fn try_begin_destage(self: &Arc<Self>, extents: ExtentRange) -> Option<Writing> {
        let mut state = self.state.lock();
        (!state.excludes(extents, Touches::Destage) && !state.is_awaited_by_next(extents))
            .then(|| self.enter(&mut state, extents, Touches::Destage, RequestContext::default()))
    }

    /// Notes that a request was given up: later requests do not wait for it any more.
    pub(super) fn given_up(&self) {
        self.released.notify(usize::MAX);
    }

    /// Waits until all writes whose contents reads see already have ended: data that a client has read must be durable
    /// after a flush, also if the write was given up.
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

    /// Waits until no given-up write to these extents is left.
    pub(super) async fn settled_writes(&self, extents: ExtentRange) {
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
        extents: ExtentRange,
        touches: Touches,
        context: RequestContext,
    ) -> Writing {
        state.writer_next += 1;
        let id = state.writer_next;
        state.writers.push(Writer { id, extents, touches, context, visible: false });
        self.update(state);
        Writing { flights: self.clone(), id }
    }

    /// The dirty content of an extent that waits for insertion, if there is one.
    pub(crate) fn newest_dirty(&self, index: ExtentIndex) -> Option<(Kept, Arc<Token>)> {
        let state = self.state.lock();
        match state.fills.get(&index) {
            Some(fill @ Fill { dirty: true, token, .. }) => Some((fill.pending()?.clone(), token.clone())),
            _ => None,
        }
    }

    /// Before requests are served: adds dirty content that a restart found and that waits for insertion. The taker of
    /// the token has to settle it.
    pub(crate) fn restore(&self, index: ExtentIndex, kept: Kept) -> Arc<Token> {
        let mut state = self.state.lock();
        let token = Arc::new(Token::default());
        let fill = Fill { token: token.clone(), state: FillState::Pending(Content::Whole(kept, None)), dirty: true };
        state.put(index, fill);
        state.dirty += 1;
        self.update(&state);
        token
    }

    /// Whether dirty extents of the range wait for insertion.
    pub(super) fn has_dirty(&self, extents: ExtentRange) -> bool {
        let state = self.state.lock();
        let within = |(index, fill): (&ExtentIndex, &Fill)| fill.dirty && extents.contains(*index);
        state.dirty > 0 && state.fills.iter().any(within)
    }

    /// The dirty extents of the range that wait for insertion, in no order.
    pub(super) fn dirty(&self, extents: ExtentRange) -> Vec<ExtentIndex> {
        let state = self.state.lock();
        let within = |(index, fill): &(&ExtentIndex, &Fill)| fill.dirty && extents.contains(**index);
        state.fills.iter().filter(within).map(|(index, _)| *index).collect()
    }

    /// The dirty contents that wait for insertion, and what `read` returns while they cannot change.
    pub(super) fn dirty_now<T>(&self, read: impl FnOnce() -> T) -> (Vec<(ExtentIndex, Kept)>, T) {
        let state = self.state.lock();
        let dirty = state.fills.iter().filter(|(_, fill)| fill.dirty);
        let contents = dirty.filter_map(|(index, fill)| Some((*index, fill.pending()?.clone())));
        (contents.collect(), read())
    }

    /// Waits until no dirty extent of the range waits for insertion.
    pub(super) async fn dirty_settled(&self, extents: ExtentRange) {
        loop {
            let settled = self.settled.listen();
            if !self.has_dirty(extents) {
                return;
            }
            settled.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use nitro_units::ClassId;
    use std::ops::Range;
    use std::pin::pin;

    fn range(extents: Range<u64>) -> ExtentRange {
        ExtentRange::new(ExtentIndex(extents.start), ExtentIndex(extents.end))
    }

    fn context() -> RequestContext {
        RequestContext::default()
    }

    #[test]
    fn a_wide_write_that_waits_is_not_overtaken_and_destage_lets_it_pass() {
        let flights = Arc::new(Flights::default());
        let (narrow, wide) = (context(), context());
        let begin =
            |extents, touches, context| Box::pin(flights.begin_write(range(extents), touches, context, |_, _| {}));
        let first = begin(3..4, Touches::Buffer, &narrow).now_or_never().unwrap();
        let mut trim = begin(0..100, Touches::Origin, &wide);
        assert!(trim.as_mut().now_or_never().is_none());
        let mut later = begin(50..51, Touches::Buffer, &narrow);
        assert!(later.as_mut().now_or_never().is_none(), "it overtook the trim");
        assert!(begin(200..201, Touches::Buffer, &narrow).now_or_never().is_some(), "nothing waits for this one");
        // The client that the trim waits for may need room: destage goes on.
        let destage = flights.try_begin_destage(range(60..61)).unwrap();
        // What waits behind the trim waits for that client, too.
        let mut zeroes = begin(55..56, Touches::Origin, &narrow);
        assert!(zeroes.as_mut().now_or_never().is_none());
        assert!(flights.try_begin_destage(range(55..56)).is_some(), "nothing would ever go on");
        drop(zeroes);
        drop(first);
        assert!(trim.as_mut().now_or_never().is_none());
        assert!(flights.try_begin_destage(range(70..71)).is_none(), "destage keeps the trim waiting");
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
        let begin =
            |extents, touches, context| Box::pin(flights.begin_write(range(extents), touches, context, |_, _| {}));
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
