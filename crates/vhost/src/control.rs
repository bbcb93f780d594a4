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

/// Bytes of a message's header: its number, flags and the length of its payload (u32 each).
const HEADER_BYTES: usize = 12;
/// `VHOST_USER_SET_BACKEND_REQ_FD`, which passes the socket for messages from the device to the client.
const SET_BACKEND_SOCKET: u32 = 21;
/// `VHOST_USER_BACKEND_CONFIG_CHANGE_MSG`, and the flags of a message that needs no reply (version 1).
const CONFIG_CHANGE: u32 = 2;
const VERSION: u32 = 1;

/// The options of serving a device.
#[derive(Debug, Clone)]
pub struct Options {
    /// The serial number of the device, which `VIRTIO_BLK_T_GET_ID` returns: at most 20 bytes, the rest is left out.
    pub serial: String,
    /// The memory that the requests of all connections share.
    pub memory: Arc<RequestMemory>,
    /// Identifies the server's process in in-flight regions.
    pub incarnation: Incarnation,
    /// Longest time for which a queue polls for requests before it waits for a kick; zero: it does not poll.
    pub busy_poll_max: Duration,
}

/// The handle of a connection, by which other threads end it or notify its client.
#[derive(Debug)]
pub struct Control {
    socket: UnixStream,
    size_bytes: Arc<AtomicU64>,
    /// The client has sent `SET_OWNER`.
    begun: AtomicBool,
    /// [`stop`](Control::stop) was called.
    stopped: AtomicBool,
    has_run: AtomicBool,
    on_begin: OnBegin,
    queues: Mutex<Vec<Weak<Stop>>>,
    backend: Mutex<Option<OwnedFd>>,
}

/// The function that is called when the client has sent `SET_OWNER`.
struct OnBegin(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for OnBegin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnBegin")
    }
}

impl Control {
    /// Makes the handle of a connected socket. `on_begin` is called once, when the client has sent `SET_OWNER`.
    ///
    /// # Errors
    /// The operating system's error.
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

    /// Whether the client has sent `SET_OWNER`.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Ends the connection in order: requests in flight are finished, and the disk is flushed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.hang_up();
    }

    /// Ends the connection at once; requests in flight are dropped.
    pub fn cut(&self) {
        self.hang_up();
        self.queues.lock().iter().filter_map(Weak::upgrade).for_each(|stop| stop.cut());
    }

    /// Notes the disk's new size, and notifies the guest if the client has passed a socket for that.
    pub fn resized(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::SeqCst);
        self.tell_config_change();
    }

    fn tell_config_change(&self) {
        let backend = self.backend.lock();
        let Some(backend) = backend.as_ref() else { return };
        let message = [CONFIG_CHANGE, VERSION, 0].map(u32::to_ne_bytes).concat();
        // If the buffer of the socket is full, the client does not read its messages: this must not block.
        if let Err(error) = send(backend, &message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            tracing::debug!(%error, "cannot notify a guest of its disk's size");
        }
    }

    fn hang_up(&self) {
        // The client may have closed the socket already.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    pub(crate) fn begin(&self) {
        if !self.begun.swap(true, Ordering::SeqCst) {
            (self.on_begin.0)();
        }
    }

    /// Adds a queue, which [`cut`](Self::cut) ends.
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

    /// Waits for the next message and returns its number; `None` at the end of the stream. Keeps a copy of the socket
    /// for messages to the client, since crate `vhost` does not expose its own.
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

/// Serves a disk to one client until the client disconnects, an error occurs or the connection is stopped; blocks the
/// thread. Then stops the queues and finishes their requests.
///
/// # Errors
/// [`VhostError`]: the socket failed, a message was refused, or the client's memory is gone.
pub fn converse<D: Disk + Send + Sync + 'static, H: Host>(
    control: &Arc<Control>,
    disk: Arc<D>,
    requester: Requester,
    host: &H,
    options: &Options,
) -> Result<(), VhostError> {
    control.size_bytes.store(disk.info().size_bytes, Ordering::SeqCst);
    let mut id = [0; ID_BYTES];
    id.iter_mut().zip(options.serial.bytes()).for_each(|(place, byte)| *place = byte);
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
    if device.mapper.has_lost() {
        return Err(VhostError::MemoryLost);
    }
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
        if device.lock().is_ok_and(|device| device.mapper.has_lost()) {
            return Err(VhostError::MemoryLost);
        }
        if code == SET_BACKEND_SOCKET {
            // A guest that reconnects may know another size.
            control.tell_config_change();
        }
    }
}

/// Flushes the disk and notes that in the in-flight region, so that the guest can continue with the next server.
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
                // An error means that the region is invalid; the connection ends anyway.
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

/// Gives the answer when it is dropped, however its task ends.
struct Done(Arc<Answer<()>>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.give(());
    }
}
