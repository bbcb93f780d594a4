//! Opening an image, and the thread that makes its calls that wait, one after the other: a cluster that does not answer holds
//! that thread, and nobody for longer than the time that they give it.

use super::calls::{Calls, Done, Request};
use super::cluster::{Cluster, Pool};
use super::fate::{Fate, REFUSED, UNLOCKED};
use super::library::{Missing, end_without_them, library};
use super::lock::{self, Claim, LockError, Taken};
use super::raw::RawImage;
use futures_channel::oneshot;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// How long a caller waits for a call of an image.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often the cluster is asked whether the lock is still this client's.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time for monitors to answer, in seconds, in the form of the option.
const CONNECT_SECONDS: &str = "15";

/// Options of the connection. Without a cache of its own, librbd keeps nothing that Nitro believes to be written; its calls must not
/// wait, and it must not give up a write that may still be carried out. Versions that lack one of them do not need it.
const OPTIONS: &[(&str, &str)] = &[
    ("client_mount_timeout", CONNECT_SECONDS),
    ("rados_osd_op_timeout", "0"),
    ("rbd_cache", "false"),
    ("rbd_persistent_cache_mode", "disabled"),
    ("rbd_non_blocking_aio", "true"),
    ("rbd_blocklist_on_break_lock", "true"),
    ("rbd_blacklist_on_break_lock", "true"),
    ("admin_socket", ""),
];

/// Which image, and how it is reached.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// What it is called in messages.
    pub what: String,
    /// The configuration file; `None`: `$CEPH_CONF` or the usual places.
    pub conf: Option<String>,
    /// The user without `client.`; `None`: `admin`.
    pub id: Option<String>,
    /// The name of the pool.
    pub pool: String,
    /// The namespace in the pool.
    pub namespace: Option<String>,
    /// The name of the image.
    pub image: String,
    /// The name of one of its snapshots.
    pub snapshot: Option<String>,
    /// Opened for writing; not for a snapshot.
    pub writable: bool,
}

/// Why an image cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Ceph's libraries are not installed, or too old.
    #[error(transparent)]
    Library(#[from] Missing),
    /// The thread cannot be started.
    #[error("its thread cannot be started")]
    Thread(#[source] io::Error),
    /// The configuration file cannot be read.
    #[error("Ceph's configuration cannot be read")]
    Configuration(#[source] io::Error),
    /// There is no connection to the cluster.
    #[error("the cluster cannot be reached")]
    Connect(#[source] io::Error),
    /// The pool cannot be opened.
    #[error("the pool {0:?} cannot be opened")]
    Pool(String, #[source] io::Error),
    /// The image cannot be opened.
    #[error("the image {0:?} cannot be opened")]
    Image(String, #[source] io::Error),
    /// The image has no such snapshot.
    #[error("the image has no snapshot {0:?}")]
    NoSnapshot(String),
    /// What the cluster says of the image cannot be read.
    #[error("it cannot be examined")]
    Examine(#[source] io::Error),
}

/// What an image is recognised by, and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The cluster's UUID.
    pub fsid: String,
    /// The number of the pool.
    pub pool: i64,
    /// The image's id in the pool, or in the namespace.
    pub id: String,
    /// The number of the snapshot.
    pub snapshot: Option<u64>,
    /// Size in bytes when it was opened.
    pub size_bytes: u64,
}

type Job = Box<dyn FnOnce(&RawImage) + Send>;

/// An open image of a Ceph cluster. Its lock is released when it has been dropped: see [`wait_closed`].
pub struct Image {
    // Dropped before the sender: the thread closes the image, which may take time.
    raw: Arc<RawImage>,
    jobs: mpsc::Sender<Job>,
    facts: Facts,
    fate: Arc<Fate>,
    watch: Arc<Watch>,
}

/// What the thread watches for.
#[derive(Debug, Default)]
struct Watch {
    /// The image has to have its lock.
    lock: AtomicBool,
    /// The size that was last seen.
    size_bytes: AtomicU64,
}

impl Image {
    /// Opens an image on a thread of its own. Dropping the receiver lets the thread close what it opens.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn open(options: ImageOptions) -> Result<oneshot::Receiver<Result<Self, OpenError>>, OpenError> {
        let (opened, opening) = oneshot::channel();
        let name = format!("rbd {}", options.image);
        let run = move || match connect(&options) {
            Ok((raw, facts)) => {
                let raw = Arc::new(raw);
                let fate = Arc::new(Fate::new(&options.what));
                let (jobs, waiting) = mpsc::channel();
                let watch = Arc::new(Watch { size_bytes: facts.size_bytes.into(), ..Watch::default() });
                let (tended, watched) = (Arc::clone(&fate), Arc::clone(&watch));
                let image = Self { raw: Arc::clone(&raw), jobs, facts, fate, watch };
                // Nobody waits any more: the image is dropped, and closed below.
                drop(opened.send(Ok(image)));
                tend(&raw, &waiting, &tended, &watched);
                drop(raw);
                CLOSING.end();
            }
            Err(error) => drop(opened.send(Err(error))),
        };
        std::thread::Builder::new().name(name).spawn(run).map_err(OpenError::Thread)?;
        Ok(opening)
    }

    /// What it is recognised by.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Why it may not be used any more: another client has broken its lock. `None`: it may.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.fate.lost()
    }

    pub(super) fn fate(&self) -> &Arc<Fate> {
        &self.fate
    }

    /// Makes a call on the image's thread, after those that were made before. Blocks, but not for longer than `patience`; what
    /// is not answered in time is done nevertheless once the cluster answers.
    fn ask<T: Send + 'static>(
        &self,
        patience: Duration,
        call: impl FnOnce(&RawImage) -> T + Send + 'static,
    ) -> io::Result<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        // The caller may have given up.
        let job: Job = Box::new(move |raw| drop(answer.send(call(raw))));
        let ended = || io::Error::other("its thread has ended");
        self.jobs.send(job).map_err(|_| ended())?;
        answered.recv_timeout(patience).map_err(|error| match error {
            mpsc::RecvTimeoutError::Timeout => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("the cluster has not answered for {} s", patience.as_secs()),
            ),
            mpsc::RecvTimeoutError::Disconnected => ended(),
        })
    }

    /// Takes the exclusive lock; from then on, the image is lost if it loses the lock. Blocks, but not for longer than `patience`.
    ///
    /// # Errors
    /// Another client has it, the image has none, or the cluster does not answer.
    pub fn take_lock(&self, claim: Claim, patience: Duration) -> Result<Taken, LockError> {
        let watch = Arc::clone(&self.watch);
        self.ask(patience, move |raw| {
            let taken = lock::take(raw, &claim)?;
            watch.lock.store(true, Ordering::SeqCst);
            Ok(taken)
        })?
    }

    /// The address of the client that has the lock, and was heard of lately. May block for a few seconds.
    ///
    /// # Errors
    /// The image has no lock, or the cluster does not answer.
    pub fn owner(&self) -> Result<Option<String>, LockError> {
        self.ask(ANSWER_MAX, lock::living_owner)?
    }

    /// Its size in bytes now. May block for a few seconds, as the calls below.
    ///
    /// # Errors
    /// The cluster does not answer, or refuses this client.
    pub fn size(&self) -> io::Result<u64> {
        self.ask(ANSWER_MAX, RawImage::size)?
    }

    /// A text of its metadata.
    ///
    /// # Errors
    /// As for [`size`](Self::size).
    pub fn metadata(&self, key: &'static str) -> io::Result<Option<String>> {
        self.ask(ANSWER_MAX, |raw| raw.metadata(key))?
    }

    /// Sets a text of its metadata, durably.
    ///
    /// # Errors
    /// As for [`size`](Self::size).
    pub fn set_metadata(&self, key: &'static str, value: String) -> io::Result<()> {
        self.ask(ANSWER_MAX, move |raw| raw.set_metadata(key, &value))?
    }

    /// Removes a text from its metadata, durably.
    ///
    /// # Errors
    /// As for [`size`](Self::size).
    pub fn remove_metadata(&self, key: &'static str) -> io::Result<()> {
        self.ask(ANSWER_MAX, |raw| raw.remove_metadata(key))?
    }
}

impl Calls for Image {
    fn begin(&self, request: Request, done: Done) {
        self.raw.begin(request, done);
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        CLOSING.begin();
    }
}

/// Connects to the cluster and opens the image.
fn connect(options: &ImageOptions) -> Result<(RawImage, Facts), OpenError> {
    let cluster = Cluster::new(library()?, options.id.as_deref()).map_err(OpenError::Configuration)?;
    cluster.read_configuration(options.conf.as_deref()).map_err(OpenError::Configuration)?;
    for (option, value) in OPTIONS {
        if let Err(error) = cluster.set(option, value) {
            tracing::debug!("{}: {option} = {value}: {error}", options.what);
        }
    }
    cluster.connect().map_err(OpenError::Connect)?;
    let pool = Pool::open(cluster, &options.pool, options.namespace.as_deref())
        .map_err(|e| OpenError::Pool(options.pool.clone(), e))?;
    let snapshot = options.snapshot.as_deref();
    let raw = RawImage::open(pool, &options.image, snapshot, options.writable && snapshot.is_none());
    let raw = raw.map_err(|(pool, error)| match snapshot {
        Some(name) if error.kind() == io::ErrorKind::NotFound && pool.has(&options.image) => {
            OpenError::NoSnapshot(name.to_owned())
        }
        _ => OpenError::Image(options.image.clone(), error),
    })?;
    let facts = examine(&raw, snapshot).map_err(OpenError::Examine)?;
    Ok((raw, facts))
}

fn examine(raw: &RawImage, snapshot: Option<&str>) -> io::Result<Facts> {
    Ok(Facts {
        fsid: raw.pool().cluster().fsid()?,
        pool: raw.pool().id(),
        id: raw.id()?,
        snapshot: snapshot.map(|name| raw.snapshot_id(name)).transpose()?,
        size_bytes: raw.size()?,
    })
}

/// Makes the calls of an image until it is dropped, and sees in between that it is still the one that was opened.
fn tend(raw: &RawImage, waiting: &mpsc::Receiver<Job>, fate: &Fate, watch: &Watch) {
    loop {
        match waiting.recv_timeout(HEARTBEAT) {
            Ok(job) => job(raw),
            Err(mpsc::RecvTimeoutError::Timeout) => look(raw, fate, watch),
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn look(raw: &RawImage, fate: &Fate, watch: &Watch) {
    if fate.lost().is_some() {
        return;
    }
    if watch.lock.load(Ordering::SeqCst) {
        match raw.is_owner() {
            Ok(true) => {}
            Ok(false) => fate.lose(UNLOCKED),
            Err(error) if error.raw_os_error() == Some(libc::ESHUTDOWN) => fate.lose(REFUSED),
            // Whether it is lost will show when the cluster answers.
            Err(error) => tracing::debug!("{}: its lock: {error}", fate.what()),
        }
    }
    if let Ok(size_bytes) = raw.size() {
        let before = watch.size_bytes.swap(size_bytes, Ordering::SeqCst);
        if size_bytes > before {
            tracing::info!(
                "{}: it has {size_bytes} bytes now, {before} before: nitro volume resize makes the volume as large",
                fate.what()
            );
        } else if size_bytes < before {
            tracing::error!(
                "{}: it has {size_bytes} bytes now, {before} before: what was cut off cannot be read or written",
                fate.what()
            );
        }
    }
}

/// Images that are being closed.
struct Closing {
    count: Mutex<usize>,
    ended: Condvar,
}

static CLOSING: Closing = Closing { count: Mutex::new(0), ended: Condvar::new() };

impl Closing {
    fn begin(&self) {
        *self.count.lock() += 1;
    }

    fn end(&self) {
        *self.count.lock() -= 1;
        self.ended.notify_all();
    }
}

/// Waits until the images that were dropped are closed, and their locks released; for at most `patience`. Returns whether
/// they are. To be called at the end of the process. Blocks.
pub fn wait_closed(patience: Duration) -> bool {
    let mut count = CLOSING.count.lock();
    let is_closed = !CLOSING.ended.wait_while_for(&mut count, |count| *count > 0, patience).timed_out();
    if !is_closed {
        end_without_them();
    }
    is_closed
}
