//! The state that the reader, the commands and the writer of one connection share.

use super::command::Complete;
use super::data::Incoming;
use super::manage::Management;
use super::order::TaskSet;
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
    /// Number of commands without a response: those in the window, and those for immediate delivery.
    pub(super) in_window: Cell<u32>,
    pub(super) immediate: Cell<u32>,
    /// Size of the unit in blocks, as of the last command.
    pub(super) blocks: Cell<u64>,
    /// Commands that wait for data, by their tags.
    pub(super) incoming: RefCell<HashMap<u32, Incoming>>,
    /// The commands that have not ended, in the order that their task attributes require.
    pub(super) tasks: RefCell<TaskSet>,
    /// Commands whose data have arrived and that wait for other commands, in the order of arrival.
    pub(super) held: RefCell<Vec<Complete>>,
    /// Commands that are being executed, by their tags. The value is true if the command was aborted.
    pub(super) running: RefCell<HashMap<u32, Rc<Cell<bool>>>>,
    /// Task management requests that wait for commands to end.
    pub(super) managing: RefCell<Vec<Management>>,
    pub(super) next_transfer: Cell<u32>,
    /// The rest of the response to a text request.
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
            tasks: RefCell::default(),
            held: RefCell::default(),
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

    /// Whether a command with this tag has not ended.
    pub(super) fn is_known(&self, tag: u32) -> bool {
        self.incoming.borrow().contains_key(&tag)
            || self.running.borrow().contains_key(&tag)
            || self.held.borrow().iter().any(|held| held.asker.tag == tag)
    }

    /// Waits until the connection's pace permits another PDU, in this poll or a later one, and not too many replies are
    /// unsent.
    pub(super) async fn turn(&self) {
        let unsent_max = 2 * (self.limits().tasks_max + self.limits().immediate_max);
        poll_fn(|_| {
            let may = self.unsent.get() < unsent_max && self.connection.pace.may_begin();
            if may { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Takes memory for a command. `false`: there is none at once, and other commands of the connection wait for data
    /// or for the end of commands. The reader must not wait for memory then, since it has to receive these data, or
    /// they may wait for this command.
    pub(super) async fn take(&self, bytes: u64) -> bool {
        use futures_util::FutureExt as _;
        if self.incoming.borrow().is_empty() && self.held.borrow().is_empty() {
            self.connection.share.take(bytes).await;
            return true;
        }
        self.connection.share.take(bytes).now_or_never().is_some()
    }

    /// Restarts the initiator's turn if it has to send data; otherwise ends the turn.
    pub(super) fn note_owed(&self) {
        let owed = self.incoming.borrow().values().map(|incoming| u64::from(incoming.owed_bytes())).sum();
        let is_owed = !self.incoming.borrow().is_empty();
        self.connection.share.set_turn(Turn::Payload, is_owed.then_some(owed));
    }

    /// Ends a reply in the queue. When it is sent, `bytes` of memory are released.
    pub(super) fn end_reply(&self, bytes: u64) {
        self.unsent.set(self.unsent.get() + 1);
        self.connection.end_reply(Cost::request(bytes));
    }
}

impl<D: Disk> Session<'_, D> {
    /// The properties of the unit, with its present size.
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

    /// Aborts commands if another session has requested it. Ends the connection if another session has replaced this
    /// one.
    fn look(&self, context: &Context<'_>, is_reading: bool) -> Option<End> {
        let unit = self.unit?;
        unit.nexus.register(context.waker());
        self.obey();
        (is_reading && unit.nexus.has_ended()).then_some(End::Replaced)
    }

    /// Drops the commands that wait for data or for other commands.
    fn left(&self) {
        self.incoming.borrow_mut().clear();
        self.held.borrow_mut().clear();
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
