//! What the journal has yet to be told.

use crate::error::Error;
use crate::format::journal::Record;
use event_listener::Event;
use parking_lot::Mutex;
use std::sync::Arc;

/// A commit's number: it makes durable all that was there when it was asked for.
pub(super) type Ticket = u64;

#[derive(Debug, Default)]
struct State {
    asked: Ticket,
    done: Ticket,
    failed: Option<Arc<str>>,
    closed: bool,
    /// The committer has ended: nothing will be made durable any more.
    ended: bool,
}

/// Records on their way into the journal, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pending: Mutex<Vec<Record>>,
    state: Mutex<State>,
    /// A commit is asked for, or there is other work for the committer.
    pub(super) wanted: Event,
    done: Event,
}

impl Ledger {
    /// Adds a record: durable with the next commit.
    pub(crate) fn push(&self, record: Record) {
        self.pending.lock().push(record);
    }

    /// Records that no commit has taken yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending.lock().len()
    }

    pub(super) fn take(&self) -> Vec<Record> {
        std::mem::take(&mut self.pending.lock())
    }

    /// Has a commit made, without waiting for it.
    pub(crate) fn ask(&self) {
        self.state.lock().asked += 1;
        self.wanted.notify(usize::MAX);
    }

    /// Ends when all that was pushed, and all dirty data that was appended, is durable.
    pub(super) async fn commit(&self) -> Result<(), Error> {
        let ticket = {
            let mut state = self.state.lock();
            state.asked += 1;
            state.asked
        };
        self.wanted.notify(usize::MAX);
        loop {
            let done = self.done.listen();
            {
                let state = self.state.lock();
                if let Some(reason) = &state.failed {
                    return Err(Error::Poisoned { reason: reason.clone() });
                }
                if state.done >= ticket {
                    return Ok(());
                }
                if state.ended {
                    return Err(Error::Poisoned { reason: Arc::from("the cache is closed") });
                }
            }
            done.await;
        }
    }

    /// The commit that is asked for, if any: it serves all that asked before.
    pub(super) fn asked(&self) -> Option<Ticket> {
        let state = self.state.lock();
        (state.asked > state.done && state.failed.is_none()).then_some(state.asked)
    }

    pub(super) fn finish(&self, ticket: Ticket) {
        self.state.lock().done = ticket;
        self.done.notify(usize::MAX);
    }

    /// Nothing can be made durable any more.
    pub(crate) fn fail(&self, reason: &str) {
        self.state.lock().failed.get_or_insert_with(|| Arc::from(reason));
        self.done.notify(usize::MAX);
    }

    pub(crate) fn failed(&self) -> Option<Arc<str>> {
        self.state.lock().failed.clone()
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.wanted.notify(usize::MAX);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.done.notify(usize::MAX);
    }
}
