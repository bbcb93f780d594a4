//! What the sessions of a target share.

mod guard;
mod kept;
mod nexus;
mod reservation;

pub(crate) use guard::RangeLock;
pub(crate) use nexus::{Nexus, Port};
pub(crate) use reservation::{PrOutList, Reservations};

use crate::scsi::{Action, Command, PrIn, PrOut, Sense, Status};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Where reservations are kept that are to outlive the server (APTPL, SPC-5 §5.14.5).
pub trait Keeper: Send + Sync + fmt::Debug {
    /// What was stored last for a target; `None`: nothing.
    ///
    /// # Errors
    /// It cannot be read.
    fn load(&self, target: &str) -> io::Result<Option<Vec<u8>>>;

    /// Stores durably what is to be loaded after a restart; `None`: nothing.
    ///
    /// # Errors
    /// It cannot be written.
    fn store(&self, target: &str, state: Option<&[u8]>) -> io::Result<()>;
}

/// The targets that initiators have logged in to.
#[derive(Debug, Default)]
pub struct Targets {
    all: Mutex<HashMap<String, Arc<Target>>>,
    keeper: Option<Arc<dyn Keeper>>,
    /// The last session's handle (TSIH).
    session: AtomicU16,
}

impl Targets {
    /// Without any. Reservations outlive the server only with a keeper.
    #[must_use]
    pub fn new(keeper: Option<Arc<dyn Keeper>>) -> Self {
        Self { keeper, ..Self::default() }
    }

    /// Whether reservations can outlive the server.
    pub(crate) fn keeps(&self) -> bool {
        self.keeper.is_some()
    }

    /// A target by its name.
    pub(crate) fn open(&self, name: &str) -> io::Result<Arc<Target>> {
        let mut all = self.all.lock();
        if let Some(target) = all.get(name) {
            return Ok(Arc::clone(target));
        }
        let kept = self.keeper.as_ref().map_or(Ok(None), |keeper| keeper.load(name))?;
        let reservations = kept.map_or(Ok(Reservations::default()), |bytes| kept::parse(&bytes))?;
        let target = Arc::new(Target {
            name: name.to_owned(),
            keeper: self.keeper.clone(),
            is_reserved: AtomicBool::new(reservations.is_reserved()),
            state: Mutex::new(State { reservations, nexuses: Vec::new() }),
            writes: RangeLock::default(),
        });
        all.insert(name.to_owned(), Arc::clone(&target));
        Ok(target)
    }

    /// A handle for a session; never 0.
    pub(crate) fn session_handle(&self) -> u16 {
        self.session.fetch_add(1, Ordering::Relaxed) % (u16::MAX - 1) + 1
    }
}

/// A target, and its logical unit.
#[derive(Debug)]
pub(crate) struct Target {
    name: String,
    keeper: Option<Arc<dyn Keeper>>,
    /// Whether somebody has a reservation: else no command needs the state.
    is_reserved: AtomicBool,
    state: Mutex<State>,
    /// Keeps writes apart from what is compared and written.
    pub(crate) writes: RangeLock,
}

#[derive(Debug)]
struct State {
    reservations: Reservations,
    nexuses: Vec<Arc<Nexus>>,
}

impl State {
    /// Tells sessions of a condition: those of `ports`, but for one.
    fn attend(&self, but: &Nexus, ports: &[Port], sense: Sense) {
        let others = self.nexuses.iter().filter(|nexus| !std::ptr::eq(&***nexus, but));
        others.filter(|nexus| ports.contains(&nexus.port)).for_each(|nexus| nexus.attend(sense));
    }
}

impl Target {
    /// A session begins. One of the same initiator and ISID ends (session reinstatement, RFC 7143 §6.3.5).
    pub(crate) fn enter(&self, port: Port) -> Arc<Nexus> {
        let mut state = self.state.lock();
        let (old, others) = std::mem::take(&mut state.nexuses).into_iter().partition(|nexus| nexus.port == port);
        state.nexuses = others;
        for nexus in old {
            nexus.end();
            state.reservations.leave(&nexus.port);
        }
        let nexus = Arc::new(Nexus::new(port));
        state.nexuses.push(Arc::clone(&nexus));
        self.note(&state);
        nexus
    }

    /// A session is over: its plain reservation is, too (SPC-2 §5.5.1).
    pub(crate) fn leave(&self, nexus: &Arc<Nexus>) {
        let mut state = self.state.lock();
        let before = state.nexuses.len();
        state.nexuses.retain(|other| !Arc::ptr_eq(other, nexus));
        if state.nexuses.len() < before {
            state.reservations.leave(&nexus.port);
        }
        self.note(&state);
    }

    fn note(&self, state: &State) {
        self.is_reserved.store(state.reservations.is_reserved(), Ordering::SeqCst);
    }

    /// Whether a command of a session may be carried out, as far as reservations go.
    pub(crate) fn allows(&self, nexus: &Nexus, action: &Action) -> bool {
        !self.is_reserved.load(Ordering::SeqCst) || self.state.lock().reservations.allow(&nexus.port, action)
    }

    /// RESERVE and RELEASE (SPC-2 §7.22, §7.17).
    pub(crate) fn reserve(&self, nexus: &Nexus, reserve: bool) -> Status {
        let mut state = self.state.lock();
        let done = state.reservations.reserve_plainly(&nexus.port, reserve);
        self.note(&state);
        if done { Status::Good } else { Status::ReservationConflict }
    }

    /// PERSISTENT RESERVE IN.
    pub(crate) fn reservations_in(&self, action: PrIn) -> Vec<u8> {
        self.state.lock().reservations.report(action, self.keeper.is_some())
    }

    /// PERSISTENT RESERVE OUT.
    pub(crate) fn reservations_out(&self, nexus: &Nexus, command: &Command, list: &[u8]) -> Status {
        let Action::PrOut { action, scope, kind, .. } = command.action else { return Status::Check(Sense::INTERNAL) };
        let list = match PrOutList::parse(action, list, self.keeper.is_some()) {
            Ok(list) => list,
            Err(sense) => return Status::Check(sense),
        };
        let mut state = self.state.lock();
        let mut changed = state.reservations.clone();
        let effects = match changed.change(&nexus.port, action, scope, kind, &list) {
            Ok(effects) => effects,
            Err(status) => return status,
        };
        if let Err(status) = self.keep(&state.reservations, &changed) {
            return status;
        }
        state.reservations = changed;
        self.note(&state);
        effects.attentions.iter().for_each(|(ports, sense)| state.attend(nexus, ports, *sense));
        if action == PrOut::PreemptAndAbort {
            let preempted = state.nexuses.iter().filter(|other| effects.preempted.contains(&other.port));
            preempted.filter(|other| !std::ptr::eq(&***other, nexus)).for_each(|other| other.abort());
        }
        Status::Good
    }

    /// Stores what is to outlive the server, before anybody relies on it.
    fn keep(&self, before: &Reservations, after: &Reservations) -> Result<(), Status> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        if !before.is_kept() && !after.is_kept() {
            return Ok(());
        }
        let bytes = after.is_kept().then(|| kept::to_bytes(after));
        keeper.store(&self.name, bytes.as_deref()).map_err(|error| {
            tracing::error!("target {}: cannot keep its reservations: {error}", self.name);
            Status::Check(Sense::INTERNAL)
        })
    }

    /// A reset of the unit: plain reservations end, other sessions' commands are aborted (SAM-5 §6.3.3).
    pub(crate) fn reset(&self, by: &Nexus) {
        let mut state = self.state.lock();
        state.reservations.reset();
        self.note(&state);
        for nexus in &state.nexuses {
            // Whoever asked for it aborts its own commands, and is told, too.
            if !std::ptr::eq(&**nexus, by) {
                nexus.abort();
            }
            nexus.attend(Sense::WAS_RESET);
        }
    }

    /// CLEAR TASK SET: other sessions' commands are aborted.
    pub(crate) fn clear(&self, by: &Nexus) {
        for nexus in self.state.lock().nexuses.iter().filter(|nexus| !std::ptr::eq(&***nexus, by)) {
            nexus.abort();
            nexus.attend(Sense::COMMANDS_CLEARED);
        }
    }
}
