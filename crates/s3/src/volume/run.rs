//! What is done in the background, and when.

use super::Volume;
use crate::format::RUNS_MAX;
use crate::store::Store;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use nitro_port::Clock;
use std::convert::Infallible;
use std::future::poll_fn;
use std::task::Poll;

/// The most objects that are put at once.
pub(crate) const PUTS_MAX: usize = 8;
/// With so many runs that are in no generation, one is begun though nobody flushes.
const PENDING_RUNS_MAX: usize = 8192;

/// The options of a volume.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// RAM for what was written and is in no object, in bytes.
    pub buffer_bytes: u64,
    /// The most objects that are put at once.
    pub puts_max: usize,
    /// With more runs in a generation, segments are written anew: at most [`RUNS_MAX`].
    pub runs_max: usize,
    /// The most objects that are noted to be deleted: more of them are looked for in lists.
    pub noted_max: usize,
    /// The time in nanoseconds since 1970.
    pub now_ns: fn() -> u64,
}

impl Default for Options {
    fn default() -> Self {
        let now_ns = || std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
        Self { buffer_bytes: 64 << 20, puts_max: PUTS_MAX, runs_max: RUNS_MAX, noted_max: 1 << 16, now_ns }
    }
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// Makes objects and generations of what was changed, and deletes garbage, without end.
    pub async fn run(&self) -> Infallible {
        let mut tasks: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        poll_fn(|context| {
            loop {
                self.runner.replace(Some(context.waker().clone()));
                while let Some(task) = self.next_task() {
                    tasks.push(task);
                }
                match tasks.poll_next_unpin(context) {
                    Poll::Ready(Some(())) => {}
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// The next thing to do, if there is any.
    fn next_task(&self) -> Option<LocalBoxFuture<'_, ()>> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if state.fenced.is_some() {
            return None;
        }
        if state.sealed.len() < self.options.puts_max
            && let Some(index) = self.next_chunk(state)
        {
            let sealed = self.seal(state, index);
            return Some(Box::pin(self.put(index, sealed)));
        }
        let covered = state.covered();
        if !self.is_committing.get() {
            let is_noted = state.noted > state.durably_noted;
            if state.pending.is_empty() && !is_noted {
                if covered > state.durable {
                    state.durable = covered;
                    self.waiting.take().into_iter().for_each(std::task::Waker::wake);
                }
            } else if is_noted
                || (state.durable < state.wanted && covered >= state.wanted)
                || state.pending.len() > PENDING_RUNS_MAX
            {
                self.is_committing.set(true);
                let committing = std::mem::take(&mut state.pending);
                state.committing = Some(committing.clone());
                return Some(Box::pin(self.commit(committing, covered, state.newest_ns)));
            }
        }
        if !self.is_collecting.get() && state.durable >= state.wanted {
            self.is_collecting.set(true);
            match self.next_garbage(state) {
                Some(task) => return Some(task),
                None => self.is_collecting.set(false),
            }
        }
        None
    }

    /// The chunk of which an object is to be made.
    fn next_chunk(&self, state: &mut super::State) -> Option<u64> {
        if let Some((_, index)) = state.by_age.first().filter(|(oldest, _)| *oldest <= state.wanted) {
            return Some(*index);
        }
        let (written, index) = *state.by_bytes.last()?;
        let is_whole = written == self.chunk_len(state, index);
        // The largest ones make room for most.
        let is_full = std::mem::take(&mut state.is_full);
        (is_whole || is_full).then_some(index)
    }
}
