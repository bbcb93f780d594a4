//! What the reader, the commands and the writer of one connection share.
//!
//! They are parts of one future, which polls each again as long as one of them [changed](Session::take_changed) what another
//! may wait for. So they need no wakers among themselves.

use super::data::Incoming;
use super::manage::Management;
use super::{Scene, Unit};
use crate::limits::Limits;
use crate::scsi::Facts;
use crate::server::ServerOptions;
use bytes::Bytes;
use nitro_frontend::{Batch, Cost, Disk, OutQueue, Pace, Share, Turn};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// The state of one connection in the full feature phase.
pub(super) struct Session<'a, D> {
    pub(super) scene: &'a Scene,
    pub(super) unit: Option<&'a Unit<D>>,
    pub(super) options: &'a ServerOptions,
    pub(super) counts: Counts,
    pub(super) share: Share,
    pub(super) pace: Pace,
    /// The next StatSN, and the next CmdSN.
    pub(super) stat_sn: Cell<u32>,
    pub(super) cmd_sn: Cell<u32>,
    /// Commands without a response, those for immediate delivery not counted.
    pub(super) in_window: Cell<u32>,
    pub(super) immediate: Cell<u32>,
    /// Blocks of the unit, as the initiator knows them.
    pub(super) blocks: Cell<u64>,
    /// Commands that wait for data, by their tags.
    pub(super) incoming: RefCell<HashMap<u32, Incoming>>,
    /// Commands that are carried out, by their tags: whether their response is not wanted any more.
    pub(super) running: RefCell<HashMap<u32, Rc<Cell<bool>>>>,
    /// Task management that waits for commands to end.
    pub(super) managing: RefCell<Vec<Management>>,
    pub(super) next_transfer: Cell<u32>,
    /// What is left of an answer to a text request.
    pub(super) text: RefCell<Bytes>,
    pub(super) queue: RefCell<OutQueue>,
    pub(super) aborts: Cell<u64>,
    unsent: Cell<u32>,
    is_leaving: Cell<bool>,
    more_to_come: Cell<bool>,
    changed: Cell<bool>,
}

/// What was done for the initiator.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) commands: Cell<u64>,
    pub(super) bytes_read: Cell<u64>,
    pub(super) bytes_written: Cell<u64>,
}

/// Adds to a counter.
pub(super) fn count(counter: &Cell<u64>, more: u64) {
    counter.set(counter.get() + more);
}

impl<'a, D> Session<'a, D> {
    pub(super) fn new(
        scene: &'a Scene,
        unit: Option<&'a Unit<D>>,
        options: &'a ServerOptions,
        (stat_sn, cmd_sn): (u32, u32),
    ) -> Self {
        Self {
            scene,
            unit,
            options,
            counts: Counts::default(),
            share: Share::new(&options.memory),
            pace: Pace::default(),
            stat_sn: Cell::new(stat_sn),
            cmd_sn: Cell::new(cmd_sn),
            in_window: Cell::new(0),
            immediate: Cell::new(0),
            blocks: Cell::new(unit.map_or(0, |unit| unit.facts.blocks)),
            incoming: RefCell::default(),
            running: RefCell::default(),
            managing: RefCell::default(),
            next_transfer: Cell::new(0),
            text: RefCell::default(),
            queue: RefCell::default(),
            aborts: Cell::new(unit.map_or(0, |unit| unit.nexus.aborts())),
            unsent: Cell::new(0),
            is_leaving: Cell::new(false),
            more_to_come: Cell::new(true),
            changed: Cell::new(false),
        }
    }

    pub(super) fn limits(&self) -> &'a Limits {
        &self.options.limits
    }

    /// Something changed that a part may wait for.
    pub(super) fn note_change(&self) {
        self.changed.set(true);
    }

    /// Whether something changed since the last call.
    pub(super) fn take_changed(&self) -> bool {
        self.changed.take()
    }

    /// Waits until another PDU may be looked at in this poll, or in the next one, and the initiator has taken enough of what it was
    /// sent.
    pub(super) async fn turn(&self) {
        let unsent_max = 2 * (self.limits().tasks_max + self.limits().immediate_max);
        poll_fn(|_| {
            let may = self.unsent.get() < unsent_max && self.pace.may_begin();
            if may { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes memory for a command. While others of its commands wait for data, it must be there at once: the reader cannot wait for
    /// what only it can bring to an end.
    pub(super) async fn take(&self, bytes: u64) -> bool {
        use futures_util::FutureExt as _;
        if self.incoming.borrow().is_empty() {
            self.share.take(bytes).await;
            return true;
        }
        self.share.take(bytes).now_or_never().is_some()
    }

    /// Has the initiator's time run while it owes data.
    pub(super) fn note_owed(&self) {
        let owed = self.incoming.borrow().values().map(|incoming| u64::from(incoming.owed_bytes())).sum();
        let is_owed = !self.incoming.borrow().is_empty();
        self.share.set_turn(Turn::Payload, is_owed.then_some(owed));
    }

    /// No PDUs come any more: commands that wait for data are given up.
    pub(super) fn leave(&self) {
        if !self.is_leaving.replace(true) {
            self.incoming.borrow_mut().clear();
        }
    }

    /// Whether the initiator has left, or is to leave: what need not be finished is given up.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.get()
    }

    /// No reply will come any more but those that are queued.
    pub(super) fn end_replies(&self) {
        self.more_to_come.set(false);
    }

    /// The next batch of replies; `None` when there will be none any more.
    pub(super) async fn next_batch(&self) -> Option<Batch> {
        poll_fn(|_| match self.queue.borrow_mut().pop() {
            Some(batch) => Poll::Ready(Some(batch)),
            None if self.more_to_come.get() => Poll::Pending,
            None => Poll::Ready(None),
        })
        .await
    }

    /// A batch was sent.
    pub(super) fn sent(&self, settles: Cost, emptied: Vec<Bytes>) {
        self.queue.borrow_mut().recycle(emptied);
        self.unsent.set(self.unsent.get() - settles.requests);
        self.share.give(settles.bytes);
        self.note_change();
    }

    /// A reply that ends in the queue: counted until it is sent, with the memory that it gives back then.
    pub(super) fn end_reply(&self, bytes: u64) {
        self.unsent.set(self.unsent.get() + 1);
        self.queue.borrow_mut().end_reply(Cost { requests: 1, bytes });
        self.note_change();
    }
}

impl<D: Disk> Session<'_, D> {
    /// What commands are answered by: with the unit's size as it is now.
    pub(super) fn facts(&self) -> Option<Facts> {
        let unit = self.unit?;
        Some(Facts { blocks: self.blocks.get(), ..unit.facts.clone() })
    }
}
