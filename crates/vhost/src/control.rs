//! The control connection.

use crate::device::{Device, Incarnation};
use crate::error::VhostError;
use crate::host::Host;
use crate::queue::Shared;
use crate::request::ID_BYTES;
use crate::wake::{Answer, Stop};
use futures_util::FutureExt as _;
use nitro_frontend::{Disk, RequestMemory, Requester};
use parking_lot::Mutex;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, recv, recvmsg, send, shutdown,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use vhost::vhost_user::{BackendReqHandler, Error};

/// A message begins with its number, flags and the length of what follows (u32 each).
const HEADER_BYTES: usize = 12;
/// `VHOST_USER_SET_BACKEND_REQ_FD`: the socket for messages of the device's own comes with it.
const SET_BACKEND_SOCKET: u32 = 21;
/// `VHOST_USER_BACKEND_CONFIG_CHANGE_MSG`, and the flags of a message that wants no reply (version 1).
const CONFIG_CHANGE: u32 = 2;
const VERSION: u32 = 1;

/// How a device is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the guest is called by `GET_ID`: the first 20 bytes of it.
    pub name: String,
    /// What the requests of all connections share.
    pub memory: Arc<RequestMemory>,
    /// The process.
    pub incarnation: Incarnation,
    /// How long a queue looks for requests before it asks for a kick, at most; zero: not at all.
    pub busy_poll_max: Duration,
}

/// A connection, as others act on it.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    size_bytes: Arc<AtomicU64>,
    /// The client has introduced itself.
    begun: AtomicBool,
    /// It is to end in order.
    stopped: AtomicBool,
    has_run: AtomicBool,
    on_begin: OnBegin,
    queues: Mutex<Vec<Weak<Stop>>>,
    backend: Mutex<Option<OwnedFd>>,
}

/// What is called when the client has introduced itself.
struct OnBegin(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for OnBegin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnBegin")
    }
}

impl Control {
    /// Of a connected socket. `on_begin` is called when the client has introduced itself.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(socket: OwnedFd, on_begin: impl Fn() + Send + Sync + 'static) -> io::Result<Self> {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(false)?;
        Ok(Self {
            socket,
            size_bytes: Arc::default(),
            begun: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            has_run: AtomicBool::new(false),
            on_begin: OnBegin(Box::new(on_begin)),
            queues: Mutex::default(),
            backend: Mutex::default(),
        })
    }

    /// Whether the client has introduced itself.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Has the connection end: its requests are finished, and what was written is flushed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.hang_up();
    }

    /// Has the connection end at once; requests are given up.
    pub fn cut(&self) {
        self.hang_up();
        self.queues.lock().iter().filter_map(Weak::upgrade).for_each(|stop| stop.cut());
    }

    /// The disk has another size: the guest is told, if it can be.
    pub fn resized(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::SeqCst);
        self.tell_config_change();
    }

    fn tell_config_change(&self) {
        let backend = self.backend.lock();
        let Some(backend) = backend.as_ref() else { return };
        let message = [CONFIG_CHANGE, VERSION, 0].map(u32::to_ne_bytes).concat();
        // A client whose buffer is full does not read what it is told.
        if let Err(error) = send(backend, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            tracing::debug!(%error, "a guest cannot be told of its disk's size");
        }
    }

    fn hang_up(&self) {
        // The client may be gone already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    pub(crate) fn begin(&self) {
        if !self.begun.swap(true, Ordering::SeqCst) {
            (self.on_begin.0)();
        }
    }

    /// Has a queue end with the connection.
    pub(crate) fn watch(&self, stop: &Arc<Stop>) {
        self.has_run.store(true, Ordering::SeqCst);
        let mut queues = self.queues.lock();
        queues.retain(|stop| stop.strong_count() > 0);
        queues.push(Arc::downgrade(stop));
    }

    /// Whether a queue has run in this connection.
    pub(crate) fn has_run(&self) -> bool {
        self.has_run.load(Ordering::SeqCst)
    }

    /// Waits for the next message and gives its number; `None`: there will be none. Takes a copy of the socket that a message brings
    /// for the device's own messages, which the protocol's library keeps to itself.
    fn next(&self) -> io::Result<Option<u32>> {
        let mut header = [0_u8; HEADER_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::WAITALL;
        let (got, _) = rustix::io::retry_on_intr(|| recv(&self.socket, &mut header[..], flags))?;
        if got < HEADER_BYTES {
            return Ok(None);
        }
        let code = header.first_chunk().copied().map_or(0, u32::from_ne_bytes);
        if code == SET_BACKEND_SOCKET {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut buffers = [IoSliceMut::new(&mut header)];
            let flags = RecvFlags::PEEK | RecvFlags::CMSG_CLOEXEC;
            recvmsg(&self.socket, &mut buffers, &mut ancillary, flags)?;
            let files = ancillary.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(files) => Some(files),
                _ => None,
            });
            *self.backend.lock() = files.flatten().next();
            return Ok(Some(code));
        }
        Ok(Some(code))
    }
}

/// Serves a disk to one client until it leaves, fails, or the connection is stopped; blocks the thread. Queues are stopped at the end,
/// and their requests finished.
///
/// # Errors
/// [`VhostError`]: the socket failed, or the client breaks the protocol.
pub fn converse<D: Disk + Send + Sync + 'static, H: Host>(
    control: &Arc<Control>,
    disk: Arc<D>,
    requester: Requester,
    host: &H,
    options: &Options,
) -> Result<(), VhostError> {
    control.size_bytes.store(disk.info().size_bytes, Ordering::SeqCst);
    let mut id = [0; ID_BYTES];
    id.iter_mut().zip(options.name.bytes()).for_each(|(place, byte)| *place = byte);
    let shared = Arc::new(Shared {
        disk,
        requester,
        id,
        memory: Arc::clone(&options.memory),
        size_bytes: Arc::clone(&control.size_bytes),
        has_lost: AtomicBool::new(false),
        busy_poll_max: options.busy_poll_max,
    });
    let device = Device::new(shared, host.clone(), Arc::clone(control), options.incarnation);
    let device = Arc::new(std::sync::Mutex::new(device));
    let result = talk(control, &device);
    let mut device = match device.lock() {
        Ok(device) => device,
        Err(poisoned) => poisoned.into_inner(),
    };
    device.stop_all();
    if control.stopped.load(Ordering::SeqCst) {
        settle(&device, host);
    }
    result
}

fn talk<D: Disk + Send + Sync + 'static, H: Host>(
    control: &Arc<Control>,
    device: &Arc<std::sync::Mutex<Device<D, H>>>,
) -> Result<(), VhostError> {
    let socket = control.socket.try_clone().map_err(VhostError::Socket)?;
    let mut handler = BackendReqHandler::from_stream(socket, Arc::clone(device));
    loop {
        let code = match control.next() {
            Ok(Some(code)) => code,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(VhostError::Socket(error)),
        };
        match handler.handle_request() {
            Ok(()) => {}
            Err(Error::Disconnected | Error::PartialMessage | Error::SocketBroken(_)) => return Ok(()),
            Err(Error::SocketRetry(_)) => {}
            Err(source) => return Err(VhostError::Protocol { code, source }),
        }
        if code == SET_BACKEND_SOCKET {
            // A guest that comes back may have known another size.
            control.tell_config_change();
        }
    }
}

/// Makes what was written durable, so that the guest may go on with the next server.
fn settle<D: Disk + Send + Sync + 'static, H: Host>(device: &Device<D, H>, host: &H) {
    let answer = Arc::<Answer<()>>::default();
    let (shared, unflushed) = (Arc::clone(&device.shared), Arc::clone(&device.unflushed));
    if shared.has_lost.load(Ordering::SeqCst) {
        return;
    }
    let done = Done(Arc::clone(&answer));
    let task = Box::new(move || {
        async move {
            let mark = unflushed.mark();
            if shared.disk.flush(shared.requester).await.is_ok() {
                // The region may be gone with the client.
                let _ = unflushed.flushed(mark);
            }
            drop(done);
        }
        .boxed_local()
    });
    if host.spawn(0, task) {
        answer.wait();
    }
}

/// Answers however its task ends.
struct Done(Arc<Answer<()>>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.give(());
    }
}
