//! Records the requests of clients: their times, addresses, and fingerprints of their contents, but no data. Clients
//! never wait for the recorder: requests that it cannot keep up with are omitted and counted.

mod entry;
mod scribe;

use entry::{Content, Entry};
use nitro_console::error::Error;
use nitro_files as files;
use nitro_frontend::Pieces;
use nitro_trace::{ObjectName, Op};
use nitro_units::ClassId;
use parking_lot::Mutex;
use scribe::Scribe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// Requests, and bytes of their data, that may wait to be recorded.
const WAITING_MAX: usize = 1 << 14;
const WAITING_BYTES_MAX: u64 = 64 << 20;

/// A message to the recorder.
enum Message {
    Request(Entry),
    /// An object's name.
    Named(u32, ObjectName),
    End,
}

/// Counters of the recorder.
#[derive(Debug, Default)]
struct Counts {
    recorded: AtomicU64,
    dropped: AtomicU64,
    /// Bytes of data that wait.
    waiting_bytes: AtomicU64,
    /// The file cannot be written any more.
    failed: AtomicBool,
}

/// A recording in progress.
pub struct Recorder {
    path: PathBuf,
    sender: SyncSender<Message>,
    counts: Arc<Counts>,
    objects: AtomicU32,
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

/// The refusal to overwrite a recording.
pub fn exists(path: &Path) -> Error {
    Error::new(format_args!("recording {}", path.display()), "it exists")
        .or("choose another name, or move the old recording away")
}

impl Recorder {
    /// Begins a file, which must not exist.
    pub fn start(path: &Path) -> Result<Self, Error> {
        let what = format!("recording {}", path.display());
        let file = files::create_new(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => exists(path),
            _ => Error::new(&what, e).or("name a file in a folder that can be written to"),
        })?;
        let counts = Arc::new(Counts::default());
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let scribe = Scribe::new(file, Arc::clone(&counts)).map_err(|e| Error::new(&what, e))?;
        let thread = thread::Builder::new()
            .name("nitro-record".to_owned())
            .spawn(move || write(scribe, &receiver).map_err(|e| Error::new(what, e).or("see what was recorded before")))
            .map_err(|e| Error::new("threads", e).or("raise the limit of threads"))?;
        Ok(Self { path: path.to_owned(), sender, counts, objects: AtomicU32::new(0), thread: Mutex::new(Some(thread)) })
    }

    /// Begins to record a volume with extents of `extent_bytes`.
    pub fn follow(&self, name: ObjectName, extent_bytes: u32) -> VolumeRecorder {
        let object = self.objects.fetch_add(1, Ordering::Relaxed);
        // Refused only when the thread has ended, which shows at the end.
        let _ = self.sender.send(Message::Named(object, name));
        VolumeRecorder { object, extent_bytes, sender: self.sender.clone(), counts: Arc::clone(&self.counts) }
    }

    /// The file, the number of requests recorded, and the number omitted.
    pub fn progress(&self) -> (&Path, u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (&self.path, count(&self.counts.recorded), count(&self.counts.dropped))
    }

    /// Ends the file.
    pub fn finish(&self) -> Result<(), Error> {
        let Some(thread) = self.thread.lock().take() else { return Ok(()) };
        let _ = self.sender.send(Message::End);
        thread.join().map_err(|_| Error::new("recording", "its thread panicked").or("please report it"))??;
        let (path, recorded, dropped) = self.progress();
        tracing::info!("{recorded} requests recorded in {}, {dropped} left out", path.display());
        Ok(())
    }
}

fn write(mut scribe: Scribe, receiver: &Receiver<Message>) -> Result<(), nitro_trace::TraceError> {
    loop {
        let written = match receiver.recv_timeout(scribe.patience()) {
            Ok(Message::Request(entry)) => scribe.add(entry),
            Ok(Message::Named(object, name)) => {
                scribe.name(object, &name);
                Ok(())
            }
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => scribe.end_group(),
            Ok(Message::End) | Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return scribe.finish(),
        };
        if let Err(error) = written {
            tracing::error!("the recording was stopped, the volumes are still served: {error}");
            scribe.fail();
            return Err(error);
        }
    }
}

/// Records one volume.
pub struct VolumeRecorder {
    object: u32,
    extent_bytes: u32,
    sender: SyncSender<Message>,
    counts: Arc<Counts>,
}

/// The time of a request's arrival, and its class.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Nanoseconds of the Unix epoch.
    time_ns: u64,
    class: ClassId,
}

impl VolumeRecorder {
    /// The arrival of a request of a class at this moment.
    pub fn arrival(&self, class: ClassId) -> Arrival {
        let time_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Arrival { time_ns, class }
    }

    /// A read, with what it read.
    pub fn read(&self, arrival: Arrival, offset: u64, len: u32, data: Pieces) {
        self.record(arrival, Op::Read, offset, len, data);
    }

    /// A write, with what it wrote.
    pub fn write(&self, arrival: Arrival, offset: u64, data: bytes::Bytes) {
        let len = data.len() as u32;
        self.record(arrival, Op::Write, offset, len, Pieces::from_iter([data]));
    }

    /// A request without data.
    pub fn other(&self, arrival: Arrival, op: Op, offset: u64, len: u32) {
        self.record(arrival, op, offset, len, Pieces::new());
    }

    fn record(&self, arrival: Arrival, op: Op, offset: u64, len: u32, data: Pieces) {
        let bytes: u64 = data.iter().map(|piece| piece.len() as u64).sum();
        let waiting = self.counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let content = Content { data, extent_bytes: self.extent_bytes };
        let Arrival { time_ns, class } = arrival;
        let entry = Entry { time_ns, op, object: self.object, offset, len, class, content };
        let fits = waiting + bytes <= WAITING_BYTES_MAX && !self.counts.failed.load(Ordering::Relaxed);
        if !fits || self.sender.try_send(Message::Request(entry)).is_err() {
            self.counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
