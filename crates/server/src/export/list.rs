//! The exports from the view of one connection.

use super::VolumeExport;
use crate::peers::Turn;
use crate::serve::Served;
use event_listener::Event;
use futures_util::FutureExt;
use futures_util::future::select;
use nitro_config::Address;
use nitro_device::net::Peer;
use nitro_frontend::{Caller, DiskName, Disks, Opened, Requester, UnitIdentity};
use nitro_port::latch::Latch;
use nitro_units::ClassId;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All exports from the view of one connection.
pub struct ExportList<'a> {
    served: &'a Served,
    peer: Peer,
    /// The listening socket to which the client has connected; `None`: that of a single volume.
    socket: Option<Arc<Address>>,
    /// The client's turn to have a secret checked.
    turn: Cell<Option<Turn<'a>>>,
    /// The export that the client has opened.
    opened: RefCell<Option<ClientGuard>>,
    found: Event,
    has_begun: Cell<bool>,
    on_begin: Box<dyn Fn() + 'a>,
}

/// A client of an export; it is counted while this exists.
struct ClientGuard(Arc<VolumeExport>);

impl ClientGuard {
    fn new(export: Arc<VolumeExport>) -> Self {
        export.clients.enter();
        Self(export)
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.0.clients.leave();
    }
}

impl<'a> ExportList<'a> {
    /// `on_begin` is called when the client has chosen an export permanently.
    pub fn new(served: &'a Served, peer: Peer, socket: Option<Arc<Address>>, on_begin: impl Fn() + 'a) -> Self {
        Self {
            served,
            peer,
            socket,
            turn: Cell::default(),
            opened: RefCell::default(),
            found: Event::new(),
            has_begun: Cell::new(false),
            on_begin: Box::new(on_begin),
        }
    }

    /// An export by its name, which may have a class, if it is offered to this connection.
    fn find(&self, name: &str) -> Option<(Arc<VolumeExport>, Option<ClassId>)> {
        let plain = || self.served.volume(name).map(|export| (export, None));
        let classed = || {
            let (name, class) = name.rsplit_once(CLASS_SEPARATOR)?;
            let export = self.served.volume(name)?;
            let class = export.entry.classes.table().named(class).ok()?;
            Some((export, Some(class)))
        };
        plain().or_else(classed).filter(|(export, _)| self.is_offered(export))
    }

    fn is_offered(&self, export: &VolumeExport) -> bool {
        self.socket.as_ref().is_none_or(|socket| export.is_offered_on(socket))
    }

    /// Whether the client has chosen an export permanently: the handshake is over.
    pub fn has_begun(&self) -> bool {
        self.has_begun.get()
    }

    /// Waits until `latch` of the client's export is set.
    pub async fn wait(&self, latch: impl Fn(&VolumeExport) -> &Latch) {
        loop {
            let found = self.found.listen();
            let export = self.opened.borrow().as_ref().map(|opened| Arc::clone(&opened.0));
            match export {
                // It may yet open another one.
                Some(export) => drop(select(latch(&export).wait().boxed_local(), found).await),
                None => found.await,
            }
            let set = self.opened.borrow().as_ref().is_some_and(|opened| latch(&opened.0).is_set());
            if set {
                return;
            }
        }
    }
}

/// The separator between a volume's name and a class in the name of an export.
const CLASS_SEPARATOR: &str = "?class=";

/// The number of the next client.
static CLIENTS: AtomicU64 = AtomicU64::new(0);

impl Disks for ExportList<'_> {
    type Disk = VolumeExport;

    fn list(&self) -> Vec<DiskName> {
        let entry = |e: &Arc<VolumeExport>| DiskName { name: e.name.clone(), description: e.description.clone() };
        self.served.volumes.read().iter().filter(|export| self.is_offered(export)).map(entry).collect()
    }

    fn units(&self) -> Vec<Arc<UnitIdentity>> {
        let volumes = self.served.volumes.read();
        volumes.iter().filter(|export| self.is_offered(export)).map(|export| Arc::clone(&export.names)).collect()
    }

    fn open(&self, name: &str) -> Option<Opened<VolumeExport>> {
        let (disk, class) = self.find(name)?;
        *self.opened.borrow_mut() = Some(ClientGuard::new(Arc::clone(&disk)));
        self.found.notify(usize::MAX);
        let client = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Some(Opened { disk, requester: Requester { client, class } })
    }

    fn admits(&self, name: &str, caller: Caller<'_>) -> bool {
        self.find(name).is_some_and(|(export, _)| export.admits(caller))
    }

    async fn before_secret(&self, claim: &str) {
        self.turn.set(Some(self.served.attempts.turn(self.peer, claim).await));
    }

    fn note_secret(&self, is_right: bool) {
        if let Some(turn) = self.turn.take() {
            turn.note(is_right);
        }
    }

    fn begin(&self, _: &Arc<VolumeExport>) {
        self.has_begun.set(true);
        (self.on_begin)();
    }
}
