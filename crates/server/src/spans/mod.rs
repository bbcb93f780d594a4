//! Spans of clients' requests, for a collector that accepts OpenTelemetry's protocol (OTLP). One of N requests becomes a
//! span; a thread sends the spans in batches. Clients never wait for it: spans for which the queue has no room are
//! dropped and counted.

mod collector;
mod exporter;
mod otlp;
mod sample;

pub(crate) use sample::random;

use collector::Collector;
use exporter::Exporter;
use nitro_config::OtlpUrl;
use nitro_console::error::Error;
use nitro_frontend::DiskError;
use nitro_units::ClassId;
use parking_lot::Mutex;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The thread's name. A panic there does not end the server.
pub(crate) const SPANS_THREAD: &str = "nitro-spans";
/// Spans that may wait to be sent.
const WAITING_MAX: usize = 1 << 12;

/// The maximum RAM of spans, in bytes, without the thread's stack.
pub(crate) const RAM_BYTES: u64 = (WAITING_MAX * (size_of::<Span>() + size_of::<usize>())) as u64 + exporter::RAM_BYTES;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A read that came from RAM or the SSD.
    Hit,
    /// A read for which the origin was needed.
    Miss,
    /// A request that is no read, and succeeded.
    Done,
}

impl Outcome {
    /// The outcome of a read that succeeded.
    pub(crate) const fn of_read(is_hit: bool) -> Self {
        if is_hit { Self::Hit } else { Self::Miss }
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// The operation's name.
    pub(crate) operation: &'static str,
    pub(crate) class: ClassId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// A request that has ended.
#[derive(Debug, Clone)]
struct Span {
    volume: Arc<str>,
    asked: Asked,
    /// Nanoseconds of the Unix epoch.
    begun_ns: u64,
    ended_ns: u64,
    outcome: Result<Outcome, DiskError>,
}

/// Counters of spans.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    /// The server ends.
    ending: AtomicBool,
}

/// The place where spans wait.
#[derive(Debug, Clone)]
struct Queue {
    sender: SyncSender<Span>,
    counts: Arc<Counts>,
}

impl Queue {
    /// Takes a span, or drops it if there is no room.
    fn put(&self, span: Span) {
        if self.sender.try_send(span).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The export of spans.
#[derive(Debug)]
pub(crate) struct Spans {
    to: OtlpUrl,
    every: NonZeroU32,
    queue: Queue,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Spans {
    /// Starts the thread that sends one of `every` requests to a collector. The collector need not be reachable.
    ///
    /// # Errors
    /// The thread or its runtime cannot be created.
    pub(crate) fn start(to: &OtlpUrl, every: NonZeroU32) -> Result<Self, Error> {
        let no_thread = |e: std::io::Error| Error::new("spans", e).or("raise the limits of threads and of open files");
        let collector = Collector::new(to.clone()).map_err(no_thread)?;
        let counts = Arc::new(Counts::default());
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let exporter = Exporter::new(receiver, collector, Arc::clone(&counts));
        let thread =
            thread::Builder::new().name(SPANS_THREAD.to_owned()).spawn(move || exporter.run()).map_err(no_thread)?;
        tracing::info!("spans of one in {every} requests are sent to {to}");
        Ok(Self { to: to.clone(), every, queue: Queue { sender, counts }, thread: Mutex::new(Some(thread)) })
    }

    /// The spans of a volume.
    pub(crate) fn follow(&self, volume: &str) -> VolumeSpans {
        VolumeSpans { volume: volume.into(), every: self.every, queue: self.queue.clone() }
    }

    /// The collector, and the number of requests of which one becomes a span.
    pub(crate) fn target(&self) -> (&OtlpUrl, u32) {
        (&self.to, self.every.get())
    }

    /// The number of spans sent, and of those dropped.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.queue.counts.sent), count(&self.queue.counts.dropped))
    }

    /// Sends what waits, if the collector accepts it, and ends the thread.
    pub(crate) fn finish(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        self.queue.counts.ending.store(true, Ordering::SeqCst);
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::warn!("the thread that sent spans has panicked");
        }
        let (sent, dropped) = self.progress();
        tracing::info!("{sent} spans were sent, {dropped} were dropped");
    }
}

/// The spans of one volume's requests.
pub(crate) struct VolumeSpans {
    volume: Arc<str>,
    every: NonZeroU32,
    queue: Queue,
}

impl VolumeSpans {
    /// Counts a request that begins now, and begins its span if it is sampled.
    pub(crate) fn begin(&self, asked: Asked) -> Option<Box<OpenSpan>> {
        self.counts().then(|| self.open(asked))
    }

    /// Begins a span if the next request is sampled, without counting a request.
    pub(crate) fn prepare(&self, asked: Asked) -> Option<Box<OpenSpan>> {
        sample::is_next().then(|| self.open(asked))
    }

    /// Counts a request. Returns whether it is sampled.
    pub(crate) fn counts(&self) -> bool {
        sample::count(self.every)
    }

    fn open(&self, asked: Asked) -> Box<OpenSpan> {
        let begun_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let volume = Arc::clone(&self.volume);
        Box::new(OpenSpan { volume, asked, begun_ns, begun: Instant::now(), queue: self.queue.clone() })
    }
}

/// The span of a request that has not ended.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    volume: Arc<str>,
    asked: Asked,
    begun_ns: u64,
    begun: Instant,
    queue: Queue,
}

impl OpenSpan {
    /// Ends the span now.
    pub(crate) fn end(self, outcome: Result<Outcome, DiskError>) {
        let Self { volume, asked, begun_ns, begun, queue } = self;
        let ended_ns = begun_ns.saturating_add(begun.elapsed().as_nanos() as u64);
        queue.put(Span { volume, asked, begun_ns, ended_ns, outcome });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_without_room_are_dropped_and_counted() {
        let counts = Arc::new(Counts::default());
        let (sender, receiver) = sync_channel(2);
        let queue = Queue { sender, counts: Arc::clone(&counts) };
        let spans = VolumeSpans { volume: "vm".into(), every: NonZeroU32::MIN, queue };
        let asked = Asked { operation: "read", class: ClassId::default(), offset: 0, len: 1 };
        for _ in 0..5 {
            spans.begin(asked).unwrap().end(Ok(Outcome::Hit));
        }
        assert_eq!((receiver.try_iter().count(), counts.dropped.load(Ordering::Relaxed)), (2, 3));
        drop(receiver);
        spans.begin(asked).unwrap().end(Ok(Outcome::Hit));
        assert_eq!(counts.dropped.load(Ordering::Relaxed), 4);
    }
}
