//! Virtual machines: their sockets, and the course of one connection.

use super::Served;
use super::connections::{Admission, sleep};
use super::place::Places;
use super::reactors::{QueueHost, Reactors};
use super::sockets::{accept, bind};
use crate::export::{ExportList, VolumeExport};
use futures_channel::oneshot;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use nitro_config::{Address, VhostAddress, VolumeConfig};
use nitro_console::error::Error;
use nitro_device::net::{Accepted, Access, ListenAddress, Listener};
use nitro_frontend::Disks;
use nitro_nbd::ServerOptions;
use nitro_vhost::{Control, Incarnation, Options, VhostError, converse};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Stack of a thread that answers a virtual machine's control messages.
const STACK_BYTES: usize = 256 << 10;

/// The sockets of virtual machines.
pub(super) struct VhostSockets {
    pub(super) addresses: Vec<VhostAddress>,
    access: Access,
    /// The sockets that existed at the start, with the names of their volumes.
    first: Vec<(String, Listener)>,
}

impl VhostSockets {
    pub(super) fn bind(places: &Places, volumes: &BTreeMap<String, VolumeConfig>) -> Result<Self, Error> {
        let access = places.listen_access;
        let each = places.vhost.iter().flat_map(|address| {
            let given = Address::Vhost(address.clone());
            let offered = volumes.iter().filter(move |(_, volume)| volume.is_offered_on(&given));
            offered.map(move |(name, _)| (address, name))
        });
        let listen = |(address, volume): (&VhostAddress, &String)| {
            let socket = ListenAddress::Unix(address.socket_of(volume));
            Ok((volume.clone(), bind(&socket, access)?))
        };
        let first = each.map(listen).collect::<Result<_, Error>>()?;
        Ok(Self { addresses: places.vhost.clone(), access, first })
    }

    /// Passes virtual machines to the reactors, as long as it is polled. Volumes that are added later get sockets in
    /// the folders.
    pub(super) async fn accept(&self, served: &Served, reactors: &Reactors) {
        let assign = |name: &str| {
            let name = name.to_owned();
            move |client, admission| reactors.assign_vhost(client, admission, name.clone())
        };
        let mut known: BTreeSet<_> = self.first.iter().map(|(name, _)| name.clone()).collect();
        let mut accepting = FuturesUnordered::new();
        for (name, listener) in &self.first {
            accepting.push(Either::Left(accept(listener, served, assign(name))));
        }
        let folders = || self.addresses.iter().filter(|address| matches!(address, VhostAddress::Folder(_)));
        loop {
            let grown = served.grown.listen();
            for export in served.all().iter().filter(|export| known.insert(export.name.clone())) {
                let name = &export.name;
                for address in folders().filter(|address| export.is_offered_on(&Address::Vhost((*address).clone()))) {
                    match bind(&ListenAddress::Unix(address.socket_of(name)), self.access) {
                        Ok(listener) => {
                            let assign = assign(name);
                            let later = async move { accept(&listener, served, assign).await };
                            accepting.push(Either::Right(later));
                        }
                        Err(error) => tracing::error!("volume {name}: {error}"),
                    }
                }
            }
            // Accepting never ends.
            let all = async {
                while accepting.next().await.is_some() {}
                std::future::pending::<()>().await;
            };
            select(pin!(all), grown).await;
        }
    }

    pub(super) fn close(&mut self) {
        self.first.clear();
    }
}

/// The URI of a volume for virtual machines.
pub(super) fn vhost_uri(address: &VhostAddress, volume: &str) -> String {
    let path = address.socket_of(volume);
    format!("vhost:{}", std::path::absolute(&path).unwrap_or_else(|_: std::io::Error| PathBuf::from(&path)).display())
}

/// How virtual machines are served.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// How long a queue is polled before the server waits for a notification.
    pub(super) busy_poll_max: Duration,
    pub(super) incarnation: Incarnation,
}

/// Ends a connection with the task that watches it.
struct CutWhenDropped(Arc<Control>);

impl Drop for CutWhenDropped {
    fn drop(&mut self) {
        self.0.cut();
    }
}

/// Serves one virtual machine. A separate thread answers its control messages.
pub(super) async fn serve(
    client: Accepted,
    admission: Admission,
    served: &Served,
    options: &ServerOptions,
    host: &QueueHost,
    name: String,
    settings: Settings,
) {
    let (peer, connections) = (client.peer(), &served.connections);
    let admission = Arc::new(admission);
    let dismissed = Arc::clone(admission.dismissed());
    // Each volume has a socket of its own, made only where the volume is offered.
    let list = ExportList::new(served, client.peer_identity(), None, || {});
    let (Some(opened), Ok(export)) = (list.open(&name), served.named(&name)) else {
        return connections.log_cut(&peer, format_args!("volume {name} is not served any more"));
    };
    let control = match Control::new(client.into(), move || admission.begin()) {
        Ok(control) => Arc::new(control),
        Err(error) => return connections.log_cut(&peer, format_args!("cannot set its connection up: {error}")),
    };
    let Settings { busy_poll_max, incarnation } = settings;
    let options = Options {
        serial: export.names.short_serial.clone(),
        memory: Arc::clone(&options.memory),
        incarnation,
        busy_poll_max,
    };
    let _cut = CutWhenDropped(Arc::clone(&control));
    let (done, ended) = oneshot::channel();
    let talking = {
        let (control, host) = (Arc::clone(&control), host.clone());
        move || {
            let result = converse(&control, opened.disk, opened.requester, &host, &options);
            // Nobody waits for a client that was cut off.
            let _ = done.send(result);
        }
    };
    let thread = std::thread::Builder::new().name("nitro-vhost".to_owned()).stack_size(STACK_BYTES);
    if let Err(error) = thread.spawn(talking) {
        return connections.log_cut(&peer, format_args!("cannot start its thread: {error}"));
    }
    let dawdling = async {
        select(pin!(sleep(connections.handshake_max())), pin!(dismissed.wait())).await;
        if control.has_begun() {
            std::future::pending::<()>().await;
        }
    };
    let stop = async {
        select(pin!(connections.stop.wait()), pin!(list.wait(|export| &export.gone))).await;
    };
    let is_stopped = async { matches!(select(pin!(stop), pin!(dawdling)).await, Either::Left(_)) };
    let ended = match select(ended, select(pin!(is_stopped), pin!(tell_sizes(&control, &export)))).await {
        Either::Left((result, _)) => return note_end(served, &peer, result),
        Either::Right((Either::Left((true, _)), ended)) => ended,
        Either::Right((Either::Left((false, _)), _)) => return connections.log_cut(&peer, "it sent no message"),
        Either::Right((Either::Right((never, _)), _)) => match never {},
    };
    control.stop();
    let cut = async {
        select(pin!(connections.cut.wait()), pin!(list.wait(|export| &export.cut))).await;
    };
    match select(ended, pin!(cut)).await {
        Either::Left((result, _)) => note_end(served, &peer, result),
        Either::Right(_) => connections.log_cut(&peer, "its requests did not end in time"),
    }
}

/// Informs a guest when its disk gets another size.
async fn tell_sizes(control: &Control, export: &VolumeExport) -> Infallible {
    let mut told = None;
    loop {
        let resized = export.resized.listen();
        let size_bytes = export.volume.size_bytes();
        // The first size is part of the configuration that the guest reads.
        if told.replace(size_bytes).is_some_and(|told| told != size_bytes) {
            control.resized(size_bytes);
        }
        resized.await;
    }
}

fn note_end(served: &Served, peer: &str, result: Result<Result<(), VhostError>, oneshot::Canceled>) {
    match result {
        Ok(Ok(())) => tracing::debug!(peer, "a virtual machine disconnected"),
        Ok(Err(error)) => served.connections.log_cut(peer, Error::with_sources("vhost-user", &error)),
        Err(oneshot::Canceled) => served.connections.log_cut(peer, "its thread failed"),
    }
}
