//! What the reader, the commands and the writer of one connection share.

use super::data::Incoming;
use super::manage::Management;
use super::{Scene, Unit};
use crate::error::IscsiError;
use crate::limits::Limits;
use crate::scsi::Facts;
use crate::server::{End, ServerOptions};
use bytes::Bytes;
use nitro_frontend::{Connection, Cost, Disk, Protocol, Turn};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The state of one connection in the full feature phase.
pub(super) struct Session<'a, D> {
    pub(super) scene: &'a Scene,
    pub(super) unit: Option<&'a Unit<D>>,
    pub(super) options: &'a ServerOptions,
    pub(super) connection: Connection,
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
    pub(super) aborts: Cell<u64>,
    unsent: Cell<u32>,
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
            connection: Connection::new(&options.memory),
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
            aborts: Cell::new(unit.map_or(0, |unit| unit.nexus.aborts())),
            unsent: Cell::new(0),
        }
    }

    pub(super) fn limits(&self) -> &'a Limits {
        &self.options.limits
    }

    /// Waits until another PDU may be looked at in this poll, or in the next one, and the initiator has taken enough of what it was
    /// sent.
    pub(super) async fn turn(&self) {
        let unsent_max = 2 * (self.limits().tasks_max + self.limits().immediate_max);
        poll_fn(|_| {
            let may = self.unsent.get() < unsent_max && self.connection.pace.may_begin();
            if may { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes memory for a command. While others of its commands wait for data, it must be there at once: the reader cannot wait for
    /// what only it can bring to an end.
    pub(super) async fn take(&self, bytes: u64) -> bool {
        use futures_util::FutureExt as _;
        if self.incoming.borrow().is_empty() {
            self.connection.share.take(bytes).await;
            return true;
        }
        self.connection.share.take(bytes).now_or_never().is_some()
    }

    /// Has the initiator's time run while it owes data.
    pub(super) fn note_owed(&self) {
        let owed = self.incoming.borrow().values().map(|incoming| u64::from(incoming.owed_bytes())).sum();
        let is_owed = !self.incoming.borrow().is_empty();
        self.connection.share.set_turn(Turn::Payload, is_owed.then_some(owed));
    }

    /// A reply that ends in the queue: counted until it is sent, with the memory that it gives back then.
    pub(super) fn end_reply(&self, bytes: u64) {
        self.unsent.set(self.unsent.get() + 1);
        self.connection.end_reply(Cost::request(bytes));
    }
}

impl<D: Disk> Session<'_, D> {
    /// What commands are answered by: with the unit's size as it is now.
    pub(super) fn facts(&self) -> Option<Facts> {
        let unit = self.unit?;
        Some(Facts { blocks: self.blocks.get(), ..unit.facts.clone() })
    }
}

impl<D> Protocol for Session<'_, D> {
    type End = End;
    type Error = IscsiError;

    const STOPPED: End = End::Stopped;

    fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Does what other sessions want. Whoever logged in again does not read here any more.
    fn look(&self, context: &Context<'_>, is_reading: bool) -> Option<End> {
        let unit = self.unit?;
        unit.nexus.register(context.waker());
        self.obey();
        (is_reading && unit.nexus.has_ended()).then_some(End::Replaced)
    }

    /// Commands that wait for data are given up.
    fn left(&self) {
        self.incoming.borrow_mut().clear();
    }

    fn sent(&self, settles: Cost) {
        self.unsent.set(self.unsent.get() - settles.requests);
    }

    fn overdue(&self, _is_reading: bool) -> IscsiError {
        IscsiError::Overdue
    }

    fn unsent(&self, source: io::Error) -> IscsiError {
        IscsiError::Io(source)
    }
}
