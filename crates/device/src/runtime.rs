//! The async runtime: one reactor for each thread, each with its own io_uring.

use crate::error::Error;
use crate::file::Turn;
use compio::driver::ProactorBuilder;
use compio::runtime::{Runtime, RuntimeBuilder};
use futures_util::future::{Either, select};
use nitro_port::Clock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::Shutdown;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Entries of a submission queue: more than are ever queued between two polls, so that a batch is one system call.
const RING_ENTRIES: u32 = 1024;
/// The maximum number of tasks that run between two polls. A served connection gathers its ready requests in one task,
/// so more polls would only mean more system calls: 16 has 10 % fewer IOPS than 256, over NBD at depth 64.
const TASKS_PER_POLL: usize = 256;
/// Capacity for wake-ups from other threads; beyond it, the waker waits.
const REMOTE_WAKES: usize = 1024;
/// The number of worker threads that the kernel may start for one reactor's blocking requests (regular files and block
/// devices). A few devices that hang can take more than the kernel's default, four for each processor.
const KERNEL_WORKERS_MAX: u32 = 1024;
/// The number of threads that a reactor without io_uring may start.
const POOL_THREADS_MAX: usize = 1024;
/// The interval at which a reactor asks the kernel for completions without a notification. On Linux 6.18, one in 200
/// runs of 100,000 sequential requests waited forever for a read of a file, without any other event that would have
/// woken it.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// What [`lower_priority`] adds to a thread's nice value: where processors are short, such a thread gets about a tenth of
/// the time of another.
const BACKGROUND_NICE: i32 = 10;
/// The time for which a dropped reactor waits for abandoned requests, and the interval of its checks.
const REQUESTS_WAIT: Duration = Duration::from_secs(5);
const REQUESTS_TURN: Duration = Duration::from_micros(200);

/// A single-threaded reactor: an executor with its own ring.
pub struct Reactor {
    runtime: Rc<Runtime>,
}

impl Reactor {
    /// A reactor for the calling thread, with the fastest interface that the kernel grants: a ring that runs
    /// completions only on request (`DEFER_TASKRUN`, Linux 6.1); else one with cooperative completions; else a plain
    /// ring; else `epoll` and threads if io_uring is forbidden.
    ///
    /// # Errors
    /// Not even polling can be set up, for lack of file descriptors or memory.
    pub fn new() -> Result<Self, Error> {
        let mut deferred = proactor();
        // The flag shows that completions are pending: without it, a poll that need not sleep would not run them.
        deferred.single_issuer(true).defer_taskrun(true).taskrun_flag(true);
        let mut cooperative = proactor();
        cooperative.coop_taskrun(true);
        let mut polling = proactor();
        polling.driver_type(compio::driver::DriverType::Poll);
        build(&deferred)
            .or_else(|_| build(&cooperative))
            .or_else(|_| build(&proactor()))
            .or_else(|_| build(&polling))
            .map(|runtime| {
                let reactor = Self { runtime: Rc::new(runtime) };
                IS_IO_URING.set(reactor.is_io_uring());
                reactor
            })
            .map_err(|e| Error::from_io(e, "start", "the reactor"))
    }

    /// Whether requests go through io_uring.
    #[must_use]
    pub fn is_io_uring(&self) -> bool {
        self.runtime.driver_type().is_iouring()
    }

    /// Runs `future`, and the tasks spawned meanwhile, on this thread until `future` ends.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(async {
            match select(pin!(future), pin!(heartbeat())).await {
                Either::Left((output, _)) => output,
                Either::Right((never, _)) => match never {},
            }
        })
    }
}

/// Wakes the reactor at intervals.
async fn heartbeat() -> Infallible {
    loop {
        compio::time::sleep(HEARTBEAT).await;
    }
}

/// A closed ring releases its requests some time later; until then, the kernel reads and writes their memory. Therefore
/// the reactor waits for its requests.
impl Drop for Reactor {
    fn drop(&mut self) {
        let begun = Instant::now();
        end_sockets();
        self.block_on(async {
            while Request::count() > 0 && begun.elapsed() < REQUESTS_WAIT {
                compio::time::sleep(REQUESTS_TURN).await;
            }
        });
        if Request::count() > 0 {
            // A device hangs: its requests keep their memory and the ring until the process ends.
            std::mem::forget(Rc::clone(&self.runtime));
        }
    }
}

thread_local! {
    static IS_IO_URING: Cell<bool> = const { Cell::new(true) };
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
    static SOCKETS: RefCell<Vec<Weak<OwnedFd>>> = const { RefCell::new(Vec::new()) };
}

/// Registers a socket whose requests end with the reactor of this thread.
pub(crate) fn adopt_socket(socket: &Arc<OwnedFd>) {
    SOCKETS.with_borrow_mut(|sockets| {
        if sockets.len() == sockets.capacity() {
            sockets.retain(|socket| socket.strong_count() > 0);
        }
        sockets.push(Arc::downgrade(socket));
    });
}

/// Shuts down all connections and listeners of this thread's reactor, whose tasks would otherwise wait forever.
fn end_sockets() {
    for socket in SOCKETS.take().iter().filter_map(Weak::upgrade) {
        // The peer may have closed the connection already.
        let _ = rustix::net::shutdown(&socket, Shutdown::Both);
    }
}

/// Whether requests of this thread's reactor go through io_uring.
pub(crate) fn is_io_uring() -> bool {
    IS_IO_URING.get()
}

/// A file or socket with a request. The request is counted until the kernel has answered, even if its task was dropped
/// earlier: until then, the kernel may access memory of this process.
pub(crate) struct Lent {
    fd: Arc<OwnedFd>,
    _request: Request,
    _turn: Option<Turn>,
}

impl Lent {
    pub(crate) fn new(fd: &Arc<OwnedFd>) -> Self {
        Self { fd: Arc::clone(fd), _request: Request::new(), _turn: None }
    }

    /// As [`new`](Self::new), with the turn of the request.
    pub(crate) fn with(fd: &Arc<OwnedFd>, turn: Turn) -> Self {
        Self { _turn: Some(turn), ..Self::new(fd) }
    }
}

impl AsFd for Lent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A request in progress; dropped when the kernel has answered.
struct Request(());

impl Request {
    fn new() -> Self {
        REQUESTS.set(REQUESTS.get() + 1);
        Self(())
    }

    /// The number of requests of this thread that are in progress.
    fn count() -> usize {
        REQUESTS.get()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // The thread may be ending, without its counter.
        let _ = REQUESTS.try_with(|requests| requests.set(requests.get() - 1));
    }
}

fn proactor() -> ProactorBuilder {
    let mut builder = ProactorBuilder::new();
    builder.capacity(RING_ENTRIES).thread_pool_limit(POOL_THREADS_MAX);
    builder
}

fn build(proactor: &ProactorBuilder) -> io::Result<Runtime> {
    RuntimeBuilder::new()
        .with_proactor(proactor.clone())
        .event_interval(TASKS_PER_POLL)
        .sync_queue_size(REMOTE_WAKES)
        .local_queue_size(REMOTE_WAKES)
        .build()
        .inspect(allow_workers)
}

/// Raises the kernel's limit of worker threads for blocking requests. Older kernels keep their limit.
#[expect(unsafe_code, reason = "no safe wrapper exists")]
fn allow_workers(runtime: &Runtime) {
    /// `IORING_REGISTER_IOWQ_MAX_WORKERS` of `linux/io_uring.h` (Linux 5.15).
    const MAX_WORKERS: libc::c_uint = 19;
    if !runtime.driver_type().is_iouring() {
        return;
    }
    // The limits of bounded workers (files, block devices) and unbounded ones (sockets); 0 leaves a limit unchanged.
    let mut limits: [libc::c_uint; 2] = [KERNEL_WORKERS_MAX, 0];
    let count: libc::c_uint = 2;
    // SAFETY: the ring's descriptor is open while the runtime is borrowed; the call reads and writes two unsigned ints.
    let registered = unsafe {
        libc::syscall(libc::SYS_io_uring_register, runtime.as_raw_fd(), MAX_WORKERS, limits.as_mut_ptr(), count)
    };
    if registered < 0 {
        let error = io::Error::last_os_error();
        tracing::debug!(%error, "the kernel keeps its limit of worker threads");
    }
}

/// Starts a thread called `name` with its own reactor, and runs the future that `make` returns on it. The future need
/// not be `Send`.
///
/// # Errors
/// The thread or its reactor cannot be started.
pub fn spawn_thread<M, F>(name: &str, make: M) -> Result<ReactorThread<F::Output>, Error>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future,
    F::Output: Send + 'static,
{
    let (started, start) = mpsc::sync_channel(1);
    let handle = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let reactor = match Reactor::new() {
                Ok(reactor) => reactor,
                Err(error) => {
                    let _ = started.send(Some(error));
                    return None;
                }
            };
            // The spawner waits for this message, so the channel is open.
            let _ = started.send(None);
            Some(reactor.block_on(async move { make().await }))
        })
        .map_err(|e| Error::from_io(e, "start", name))?;
    match start.recv() {
        Ok(Some(error)) => Err(error),
        // If the thread panicked before the message, `join` returns the panic.
        Ok(None) | Err(_) => Ok(ReactorThread { handle }),
    }
}

/// Lowers the priority of the calling thread by [`BACKGROUND_NICE`], for work for which no client waits: the threads
/// that serve clients then get the processor first. The system's refusal changes nothing but speed.
pub fn lower_priority() {
    if let Err(error) = rustix::process::nice(BACKGROUND_NICE) {
        tracing::debug!(%error, "the thread keeps its priority");
    }
}

/// A running thread of [`spawn_thread`].
pub struct ReactorThread<T> {
    handle: JoinHandle<Option<T>>,
}

impl<T> ReactorThread<T> {
    /// Waits for the thread's future to end; blocks the calling thread.
    ///
    /// # Errors
    /// The panic's payload, if the thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        self.handle.join()?.ok_or_else(|| Box::new("the reactor did not start") as Box<dyn Any + Send>)
    }

    /// Whether the thread's future has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Runs `future` in the background on the current thread's reactor.
///
/// # Panics
/// Outside a [`Reactor`].
pub fn spawn_local<F: Future<Output = ()> + 'static>(future: F) {
    compio::runtime::spawn(future).detach();
}

/// Real time, with the timers of the current thread's reactor.
#[derive(Debug, Clone, Copy)]
pub struct CompioClock {
    start: Instant,
}

impl CompioClock {
    /// A clock that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for CompioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for CompioClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        compio::time::sleep(duration).await;
    }
}
