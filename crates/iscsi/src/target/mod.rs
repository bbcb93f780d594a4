//! The state that the sessions of a target share.

mod kept;
mod modes;
mod nexus;
mod reservation;

pub(crate) use modes::SharedModes;
pub(crate) use nexus::{Nexus, Port};
pub(crate) use reservation::{PrOutList, Reservations};

use crate::scsi::{Action, Command, Modes, PrIn, PrOut, Sense, Status};
use futures_util::future::{BoxFuture, OptionFuture};
use nitro_port::range_lock::RangeLock;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// What was stored for each target by its name, or why it cannot be read.
pub type StoredStates = HashMap<String, io::Result<Vec<u8>>>;

/// Storage of reservations that are kept over a restart of the server (APTPL, SPC-5 §5.14.5).
pub trait Keeper: Send + Sync + fmt::Debug {
    /// Loads the states of all targets; called once, before the first initiator is served.
    ///
    /// # Errors
    /// The storage cannot be read at all.
    fn load(&self) -> io::Result<StoredStates>;

    /// Stores the state of a target durably; `None` removes it. Must not block the caller's thread.
    ///
    /// # Errors
    /// The state cannot be written or removed.
    fn store(&self, target: &str, state: Option<Vec<u8>>) -> BoxFuture<'static, io::Result<()>>;
}

/// The targets that initiators have logged in to.
#[derive(Debug, Default)]
pub struct Targets {
    all: Mutex<HashMap<String, Arc<Target>>>,
    keeper: Option<Arc<dyn Keeper>>,
    /// The stored states of targets that nobody has logged in to yet.
    stored: Mutex<StoredStates>,
    /// The last session's handle (TSIH).
    session: AtomicU16,
}

impl Targets {
    /// No targets yet. Reservations can be kept over a restart of the server only with a keeper.
    ///
    /// # Errors
    /// The keeper's storage cannot be read.
    pub fn new(keeper: Option<Arc<dyn Keeper>>) -> io::Result<Self> {
        let stored = keeper.as_ref().map_or_else(|| Ok(HashMap::new()), |keeper| keeper.load())?;
        Ok(Self { keeper, stored: Mutex::new(stored), ..Self::default() })
    }

    /// Whether reservations can be kept over a restart of the server.
    pub(crate) fn keeps(&self) -> bool {
        self.keeper.is_some()
    }

    /// Finds a target by its name; at the first call, with its stored reservations.
    pub(crate) fn open(&self, name: &str) -> io::Result<Arc<Target>> {
        let mut all = self.all.lock();
        if let Some(target) = all.get(name) {
            return Ok(Arc::clone(target));
        }
        let mut stored = self.stored.lock();
        let reservations = match stored.get(name) {
            None => Reservations::default(),
            Some(Ok(bytes)) => kept::parse(bytes)?,
            Some(Err(error)) => return Err(io::Error::new(error.kind(), error.to_string())),
        };
        stored.remove(name);
        let target = Arc::new(Target {
            name: name.to_owned(),
            keeper: self.keeper.clone(),
            is_reserved: AtomicBool::new(reservations.is_reserved()),
            state: Mutex::new(State { reservations, nexuses: Vec::new() }),
            storing: futures_util::lock::Mutex::new(()),
            writes: RangeLock::default(),
            modes: SharedModes::default(),
        });
        all.insert(name.to_owned(), Arc::clone(&target));
        Ok(target)
    }

    /// A handle for a new session; never 0.
    pub(crate) fn session_handle(&self) -> u16 {
        self.session.fetch_add(1, Ordering::Relaxed) % (u16::MAX - 1) + 1
    }
}

/// A target, and its logical unit.
#[derive(Debug)]
pub(crate) struct Target {
    name: String,
    keeper: Option<Arc<dyn Keeper>>,
    /// Whether there is a reservation. If not, commands do not lock the state.
    is_reserved: AtomicBool,
    state: Mutex<State>,
    /// Held while reservations are made, changed and stored: one after the other.
    storing: futures_util::lock::Mutex<()>,
    /// Makes COMPARE AND WRITE atomic: no other write to its blocks runs between its comparison and its end (SBC-4
    /// §5.3).
    pub(crate) writes: RangeLock,
    /// The mode parameters of the unit.
    pub(crate) modes: SharedModes,
}

#[derive(Debug)]
struct State {
    reservations: Reservations,
    nexuses: Vec<Arc<Nexus>>,
}

impl State {
    /// Adds a unit attention condition to the sessions of `ports`, except `but`.
    fn attend(&self, but: &Nexus, ports: &[Port], sense: Sense) {
        let others = self.nexuses.iter().filter(|nexus| !std::ptr::eq(&***nexus, but));
        others.filter(|nexus| ports.contains(&nexus.port)).for_each(|nexus| nexus.attend(sense));
    }
}

impl Target {
    /// Begins a session. Ends another one of the same initiator and ISID (session reinstatement, RFC 7143 §6.3.5).
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

    /// Removes a session and its SPC-2 reservation (SPC-2 §5.5.1).
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

    /// Whether reservations permit a command of a session.
    pub(crate) fn allows(&self, nexus: &Nexus, action: &Action) -> bool {
        !self.is_reserved.load(Ordering::SeqCst) || self.state.lock().reservations.allow(&nexus.port, action)
    }

    /// RESERVE and RELEASE (SPC-2 §7.22, §7.17).
    pub(crate) async fn reserve(&self, nexus: &Nexus, reserve: bool) -> Status {
        // A persistent reservation that is being stored must not find another one when it takes effect.
        let _storing = self.storing.lock().await;
        let mut state = self.state.lock();
        let done = state.reservations.reserve_plainly(&nexus.port, reserve);
        self.note(&state);
        if done { Status::Good } else { Status::ReservationConflict }
    }

    /// PERSISTENT RESERVE IN.
    pub(crate) fn reservations_in(&self, action: PrIn) -> Vec<u8> {
        self.state.lock().reservations.report(action, self.keeper.is_some())
    }

    /// PERSISTENT RESERVE OUT. A change that is to be kept is stored before it takes effect.
    pub(crate) async fn reservations_out(&self, nexus: &Nexus, command: &Command, list: &[u8]) -> Status {
        let Action::PrOut { action, scope, kind, .. } = command.action else { return Status::Check(Sense::INTERNAL) };
        let list = match PrOutList::parse(action, list, self.keeper.is_some()) {
            Ok(list) => list,
            Err(sense) => return Status::Check(sense),
        };
        let _storing = self.storing.lock().await;
        let change = |reservations: &Reservations| {
            let mut changed = reservations.clone();
            changed.change(&nexus.port, action, scope, kind, &list).map(|effects| (changed, effects))
        };
        let stored = {
            let before = self.state.lock().reservations.clone();
            match change(&before) {
                Ok((after, _)) => self.store(&before, &after),
                Err(status) => return status,
            }
        };
        if let Some(Err(error)) = OptionFuture::from(stored).await {
            tracing::error!("target {}: cannot store its reservations: {error}", self.name);
            return Status::Check(Sense::INTERNAL);
        }
        let mut state = self.state.lock();
        // Meanwhile an SPC-2 reservation may have ended, with its session: that permits more, not less.
        let (changed, effects) = match change(&state.reservations) {
            Ok(changed) => changed,
            Err(status) => return status,
        };
        state.reservations = changed;
        self.note(&state);
        effects.attentions.iter().for_each(|(ports, sense)| state.attend(nexus, ports, *sense));
        if action == PrOut::PreemptAndAbort {
            let preempted = state.nexuses.iter().filter(|other| effects.preempted.contains(&other.port));
            preempted.filter(|other| !std::ptr::eq(&***other, nexus)).for_each(|other| other.abort());
        }
        Status::Good
    }

    /// Stores reservations that are kept over a restart; `None`: there is nothing to store.
    fn store(&self, before: &Reservations, after: &Reservations) -> Option<BoxFuture<'static, io::Result<()>>> {
        let keeper = self.keeper.as_ref().filter(|_| before.is_kept() || after.is_kept())?;
        Some(keeper.store(&self.name, after.is_kept().then(|| kept::to_bytes(after))))
    }

    /// Tells the other sessions that a session has changed mode parameters (SPC-5 §6.13).
    pub(crate) fn note_modes_changed(&self, by: &Nexus) {
        let state = self.state.lock();
        let others = state.nexuses.iter().filter(|nexus| !std::ptr::eq(&***nexus, by));
        others.for_each(|nexus| nexus.attend(Sense::MODE_CHANGED));
    }

    /// Resets the unit: ends the SPC-2 reservation, restores the default mode parameters, and aborts the commands of
    /// other sessions (SAM-5 §6.3.3, SPC-5 §7.5.2).
    pub(crate) fn reset(&self, by: &Nexus) {
        let mut state = self.state.lock();
        state.reservations.reset();
        self.note(&state);
        self.modes.set(Modes::default());
        for nexus in &state.nexuses {
            // The requesting session aborts its own commands. It gets the unit attention condition, too.
            if !std::ptr::eq(&**nexus, by) {
                nexus.abort();
            }
            nexus.attend(Sense::WAS_RESET);
        }
    }
}
