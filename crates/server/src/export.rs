//! The engine's volumes as NBD exports.

mod list;
mod throttle;

pub use list::ExportList;
pub use throttle::{Throttle, WaitCounters};

use crate::origins::{Guard, Identity, Uuid, aside};
use crate::record::{Arrival, VolumeRecorder};
use crate::serve::{CacheDevice, CacheEntry, Count, OriginDevice, VolumeDetector};
use crate::spans::{Asked as SpanAsked, OpenSpan, Outcome, VolumeSpans};
use bytes::Bytes;
use event_listener::Event;
use nitro_cache::admission::Source;
use nitro_cache::class::Asked;
use nitro_config::{Address, Certified, Emulation, VolumeConfig};
use nitro_console::logging::{EACH, Repeats};
use nitro_console::size::Size;
use nitro_device::CompioClock;
use nitro_engine::{CachedRun, Change, Classifier, ErrorKind, Rest, Volume, WriteMode};
use nitro_frontend::{Caller, Disk, DiskError, DiskInfo, Pieces, Requester, Run, StatusOf, UnitIdentity, ZeroFlags};
use nitro_iscsi::AllowList;
use nitro_port::latch::Latch;
use nitro_port::{Allocation, Device};
use nitro_trace::Op;
use nitro_units::ClassId;
use parking_lot::RwLock;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// When the server ends, it does not wait for an origin that has not answered for this time.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Maximum number of lost ranges in an error message.
const RANGES_MAX: usize = 8;

/// The volumes that the program serves.
pub type ServedVolume = Volume<CacheDevice, OriginDevice, CompioClock>;
/// The caches in front of them.
pub type ServedCache = nitro_engine::Cache<CacheDevice, CompioClock>;

/// What the identifiers of a volume's units are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// The volume's UUID, which it keeps when its name, its cache or its path changes.
    pub uuid: Uuid,
    /// Initiators know it by what earlier programs made of its name.
    pub is_named: bool,
}

/// What a volume has besides its configuration.
pub struct Own {
    /// See [`VolumeExport::guard`].
    pub guard: Option<Arc<Guard>>,
    /// See [`VolumeExport::identity`].
    pub identity: Arc<dyn Identity>,
    /// See [`VolumeExport::unit`].
    pub unit: Unit,
    /// See [`VolumeExport::block_bytes`].
    pub block_bytes: u32,
}

/// A volume under its name.
pub struct VolumeExport {
    pub name: String,
    pub description: String,
    /// The domain within which it shares cached contents.
    pub dedup_domain: Option<String>,
    pub volume: Arc<ServedVolume>,
    /// Its cache.
    pub entry: Arc<CacheEntry>,
    /// The path of its origin.
    pub origin: PathBuf,
    /// The hard disk that is emulated for its origin.
    pub emulate_disk: Option<Emulation>,
    /// Its names and numbers for initiators and virtual machines.
    pub names: Arc<UnitIdentity>,
    /// The iSCSI initiators that may log in.
    pub iscsi_allowed: RwLock<AllowList>,
    /// Certificates of the NBD clients that may use it. Empty: all clients.
    pub nbd_clients: RwLock<Vec<Certified>>,
    /// The addresses on which it is offered. Empty: all.
    pub sockets: RwLock<Vec<Address>>,
    /// Its origin's mark; `None`: there is no cache that could hold its newest data.
    pub guard: Option<Arc<Guard>>,
    /// Its open origin.
    pub identity: Arc<dyn Identity>,
    /// What the identifiers of its units are made of.
    pub unit: Unit,
    /// Bytes of its logical blocks: 512 or 4096.
    pub block_bytes: u32,
    /// Its clients are asked to disconnect.
    pub gone: Latch,
    /// Clients that did not disconnect are disconnected.
    pub cut: Latch,
    /// It has another size than before.
    pub resized: Event,
    /// It is not served any more: its workers have to end.
    pub ended: Latch,
    /// A command is changing how it is served.
    pub busy: AtomicBool,
    /// It was in write-back when it was detached from its cache.
    pub was_write_back: AtomicBool,
    pub clients: Count,
    /// Where its requests wait before they begin.
    pub throttle: Throttle,
    /// Its `weight` and its `reservation`, as far as they are set.
    shares: RwLock<(Option<u32>, Option<u8>)>,
    /// The recorder of its requests, if they are recorded.
    pub recorder: OnceLock<VolumeRecorder>,
    /// The spans of its requests, if they are exported.
    pub(crate) spans: OnceLock<VolumeSpans>,
    /// The detector of the classes of its blocks.
    pub detector: Option<Arc<VolumeDetector>>,
    /// The age of dirty data when it was last determined.
    oldest_dirty: DirtyAge,
    /// Requests that failed.
    failures: Repeats,
}

/// The age of the oldest dirty data. Determining it means examining every dirty extent.
#[derive(Debug, Default)]
struct DirtyAge {
    seconds: AtomicU64,
    is_known: AtomicBool,
}

/// Up to this number of dirty extents, the age is determined for each status request.
const DIRTY_LOOKED_AT: u64 = 1 << 16;

impl VolumeExport {
    pub fn new(
        name: &str,
        config: &VolumeConfig,
        volume: Arc<ServedVolume>,
        entry: &Arc<CacheEntry>,
        own: Own,
    ) -> Result<Self, nitro_console::error::Error> {
        let iscsi_allowed = RwLock::new(config.iscsi_allowed()?);
        let names =
            Arc::new(config.identity(name, Some(own.unit).filter(|unit| !unit.is_named).map(|unit| unit.uuid.0))?);
        let tree = volume.origin().tree();
        // The address space of files has no file system in it: their sizes are known.
        let detector = match tree {
            Some(_) => None,
            None => entry.detector(volume.size_bytes(), own.block_bytes, config.detect_scan),
        };
        let by_size = tree.and_then(|tree| entry.classifier_of_files(tree));
        volume.classify_by(by_size.or_else(|| detector.clone().map(|detector| detector as Arc<dyn Classifier>)));
        let export = Self {
            name: name.to_owned(),
            description: config.description.clone(),
            dedup_domain: config.dedup_domain.clone(),
            volume,
            entry: Arc::clone(entry),
            origin: config.origin.clone(),
            emulate_disk: config.emulate_disk,
            names,
            iscsi_allowed,
            nbd_clients: RwLock::new(config.nbd_clients.clone()),
            sockets: RwLock::new(config.sockets.clone()),
            guard: own.guard,
            identity: own.identity,
            unit: own.unit,
            block_bytes: own.block_bytes,
            gone: Latch::default(),
            cut: Latch::default(),
            resized: Event::new(),
            ended: Latch::default(),
            busy: AtomicBool::new(false),
            was_write_back: AtomicBool::new(false),
            clients: Count::default(),
            throttle: Throttle::new(config.rates()),
            shares: RwLock::default(),
            recorder: OnceLock::new(),
            spans: OnceLock::new(),
            detector,
            oldest_dirty: DirtyAge::default(),
            failures: Repeats::default(),
        };
        export.set_shares(config);
        Ok(export)
    }

    /// Changes what it may have of its store's disk.
    pub fn set_shares(&self, config: &VolumeConfig) {
        *self.shares.write() = (config.weight, config.reservation);
        self.volume.origin().set_terms(config.terms());
    }

    /// Its `weight` and its `reservation`, as far as they are set.
    pub fn shares(&self) -> (Option<u32>, Option<u8>) {
        *self.shares.read()
    }

    /// Checks that the text that names its origin still leads to it.
    ///
    /// # Errors
    /// Another file or device is there now.
    pub async fn check_name(&self) -> Result<(), nitro_console::error::Error> {
        let identity = Arc::clone(&self.identity);
        if aside(move || identity.is_at_its_name()).await? {
            return Ok(());
        }
        let what = format!("volume {}", self.name);
        let why = format!("{} leads to another file or device than the one that is served", self.origin.display());
        Err(nitro_console::error::Error::new(what, why)
            .or("put the served one back, or remove the volume and add it again to serve the other one"))
    }

    /// Refuses every request to an origin that must not be used any more: also what the cache has of it may be outdated, or lost.
    fn check_lost(&self) -> Result<(), DiskError> {
        match self.identity.lost() {
            None => Ok(()),
            // A state of the volume, which was logged when it began.
            Some(_) => Err(DiskError::Io),
        }
    }

    /// Waits for ever if another host may serve the volume by now: an answer could be outdated, and an error would tell the client
    /// of a failure where the other host answers. Its connection is going to be closed.
    async fn held(&self) {
        if !self.volume.origin().may_answer() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether it is offered on a listening socket.
    pub fn is_offered_on(&self, socket: &Address) -> bool {
        let sockets = self.sockets.read();
        sockets.is_empty() || sockets.contains(socket)
    }

    /// Whether a client may use it.
    pub fn admits(&self, caller: Caller<'_>) -> bool {
        match caller {
            Caller::Initiator { .. } => self.iscsi_allowed.read().allows(caller),
            Caller::Certified { identities } => {
                let clients = self.nbd_clients.read();
                clients.is_empty() || clients.iter().any(|client| client.is_one_of(identities))
            }
        }
    }

    /// Bytes of dirty data.
    pub fn dirty_bytes(&self) -> u64 {
        self.volume.dirty_extents() * u64::from(self.volume.cache().settings().manager.extent_bytes)
    }

    /// Determines the age of the oldest dirty data, for [`dirty_age_seconds`](Self::dirty_age_seconds).
    pub fn sample_dirty_age(&self) {
        self.oldest_dirty.seconds.store(self.volume.oldest_dirty().as_secs(), Ordering::Relaxed);
        self.oldest_dirty.is_known.store(true, Ordering::Relaxed);
    }

    /// Age of the oldest dirty data in seconds, 0 if there are none; `None`: there are many, and the age was not
    /// determined recently.
    pub fn dirty_age_seconds(&self) -> Option<f64> {
        if self.volume.dirty_extents() <= DIRTY_LOOKED_AT {
            return Some(self.volume.oldest_dirty().as_secs_f64());
        }
        let is_known = self.oldest_dirty.is_known.load(Ordering::Relaxed);
        is_known.then(|| self.oldest_dirty.seconds.load(Ordering::Relaxed) as f64)
    }

    /// The error that says why the origin is not up to date after `error`: how much data only the cache has, and which
    /// ranges are lost.
    pub fn left_behind(&self, error: &nitro_engine::Error) -> nitro_console::error::Error {
        let what = format!("volume {}", self.name);
        let lost = self.volume.lost_ranges();
        let place = self
            .entry
            .path
            .as_deref()
            .map_or_else(|| "the cache".into(), |path| format!("the cache {}", path.display()));
        let stays = format!("{} of dirty data stay in {place}", Size(self.dirty_bytes()));
        if lost.is_empty() {
            let failed = nitro_console::error::Error::with_sources(&what, error).into_parts().0;
            let why = failed.strip_prefix(&format!("{what}: ")).unwrap_or(&failed);
            let way_out = if error.is_of_cache() {
                "check the SSD (dmesg, smartctl), and repeat this; until then keep the cache"
            } else {
                "see that its origin takes writes (room, permissions), and repeat this; until then keep the cache"
            };
            return nitro_console::error::Error::new(what, format_args!("{why}; {stays}")).or(way_out);
        }
        let bytes: u64 = lost.iter().map(|range| range.end - range.start).sum();
        let ranges: Vec<_> = lost
            .iter()
            .take(RANGES_MAX)
            .map(|range| format!("{} at {}", range.end - range.start, range.start))
            .collect();
        let more = match lost.len().saturating_sub(RANGES_MAX) {
            0 => String::new(),
            more => format!(", and {more} more ranges"),
        };
        let why = format!(
            "{stays}; {} of them cannot be read from there any more: bytes {}{more}",
            Size(bytes),
            ranges.join(", ")
        );
        nitro_console::error::Error::new(what, why)
            .or("overwrite those ranges, or discard them: nitro volume remove --force-discard-dirty")
    }

    /// Removes the origin's mark if it is not needed any more.
    pub async fn unmark(&self) -> Result<(), nitro_console::error::Error> {
        let Some(guard) = &self.guard else { return Ok(()) };
        if !self.volume.origin().may_answer() {
            let why = "another host may serve it by now: its mark is left as it is";
            let error = nitro_console::error::Error::new(format_args!("volume {}", self.name), why);
            return Err(error.or("start the server again: it claims the volume anew"));
        }
        let volume = Arc::clone(&self.volume);
        // What is in the write log comes back at a restart, also if the origin has got it.
        guard.lower_if(move || volume.dirty_extents() == 0 && !volume.is_in_log()).await
    }

    /// Brings the origin up to date, unless it does not answer.
    pub async fn destage_all(&self) -> Result<(), nitro_engine::Error> {
        let volume = Arc::clone(&self.volume);
        go_on(self.volume.while_it_answers(async move { volume.destage_all().await }).await)
    }

    /// See [`Volume::set_mode`]; fails if the origin does not answer.
    pub async fn set_mode(&self, mode: WriteMode) -> Result<(), nitro_engine::Error> {
        let volume = Arc::clone(&self.volume);
        go_on(self.volume.while_it_answers(async move { volume.set_mode(mode).await }).await)
    }

    /// How long the server waits at its end for an origin that does not answer.
    pub fn silence_max(&self) -> Duration {
        self.volume.cache().live().origin_timeout.map_or(SILENCE_MAX, |timeout| timeout.max(SILENCE_MAX))
    }

    /// In write-through, destages the dirty data that an earlier server left in the cache.
    pub async fn settle(&self) -> Result<(), nitro_console::error::Error> {
        if self.volume.read_only() || self.volume.mode() == WriteMode::WriteBack {
            return Ok(());
        }
        if self.volume.dirty_extents() > 0 {
            tracing::info!("volume {}: {} of dirty data are written back", self.name, Size(self.dirty_bytes()));
            self.volume.destage_all().await.map_err(|e| self.left_behind(&e))?;
        }
        self.unmark().await
    }
}

/// The answer to a request. The rest of a request that was given up continues in the background.
fn go_on<T>((result, rest): (Result<T, nitro_engine::Error>, Option<Rest>)) -> Result<T, nitro_engine::Error> {
    rest.into_iter().for_each(nitro_device::spawn_local);
    result
}

/// Records a request without data.
fn note(recording: Option<Recording<'_>>, op: Op, offset: u64, len: u32) {
    if let Some((recorder, arrival)) = recording {
        recorder.other(arrival, op, offset, len);
    }
}

/// What a span says that a read asks for.
fn asked_to_read(class: ClassId, offset: u64, len: u32) -> SpanAsked {
    SpanAsked { operation: "read", class, offset, len: len.into() }
}

/// What a span says that a change asks for.
fn asked_by(class: ClassId, change: &Change) -> SpanAsked {
    let (operation, offset, len) = match change {
        Change::Write { offset, data, .. } => ("write", *offset, data.len() as u64),
        Change::Flush => ("flush", 0, 0),
        Change::Trim { offset, len, .. } => ("trim", *offset, *len),
        Change::WriteZeroes { offset, len, .. } => ("write_zeroes", *offset, *len),
    };
    SpanAsked { operation, class, offset, len }
}

/// Ends the span of a request, if it has one.
fn end(span: Option<Box<OpenSpan>>, outcome: Result<Outcome, DiskError>) {
    if let Some(span) = span {
        span.end(outcome);
    }
}

/// The recorder of a request.
type Recording<'a> = (&'a VolumeRecorder, Arrival);

impl VolumeExport {
    /// A request's class: the client's, otherwise that of the rules, otherwise the volume's.
    fn class(&self, from: Requester, asked: &Asked) -> ClassId {
        let ruled = || self.entry.classes.of_request(asked);
        from.class.or_else(ruled).unwrap_or_else(|| self.volume.class())
    }

    /// The class of a read.
    fn class_of_read(&self, from: Requester, offset: u64, len: u32) -> ClassId {
        self.class(from, &Asked { offset, len: len.into(), source: Source::Read })
    }

    /// The class of anything that changes the volume.
    fn class_of_change(&self, from: Requester, offset: u64, len: u64) -> ClassId {
        self.class(from, &Asked { offset, len, source: Source::Write })
    }

    /// The recorder for a request of a class that arrives now, if requests are recorded.
    fn recording(&self, class: ClassId) -> Option<Recording<'_>> {
        self.recorder.get().map(|recorder| (recorder, recorder.arrival(class)))
    }

    /// Reads a range in a span.
    async fn read_in(&self, span: Box<OpenSpan>, class: ClassId, offset: u64, len: u32) -> Result<Pieces, DiskError> {
        let recording = self.recording(class);
        let found = self.volume.read_found(class, offset, len.into()).await.map_err(|e| self.told(&e));
        span.end(found.as_ref().map(|(_, is_hit)| Outcome::of_read(*is_hit)).map_err(|error| *error));
        let (data, _) = found?;
        if let Some((recorder, arrival)) = recording {
            recorder.read(arrival, offset, len, data.clone());
        }
        self.held().await;
        Ok(data)
    }

    async fn change(&self, class: ClassId, change: Change) -> Result<(), DiskError> {
        self.held().await;
        self.check_lost()?;
        let span = self.spans.get().and_then(|spans| spans.begin(asked_by(class, &change)));
        // Boxed: it is large, and would be moved with each future around it.
        let done = go_on(Box::pin(self.volume.change_as(class, change)).await).map_err(|e| self.told(&e));
        end(span, done.map(|()| Outcome::Done));
        // Also where it failed: the next owner may take it.
        self.held().await;
        done
    }

    /// The error that a client gets. Failures of devices are logged.
    fn told(&self, error: &nitro_engine::Error) -> DiskError {
        match error.kind() {
            ErrorKind::OutOfRange => DiskError::OutOfRange,
            ErrorKind::ReadOnly => DiskError::ReadOnly,
            ErrorKind::NoSpace => DiskError::NoSpace,
            ErrorKind::Unsupported => DiskError::Unsupported,
            // A state of the volume, which was logged when it began.
            ErrorKind::Io if matches!(error, nitro_engine::Error::Destage(_)) => DiskError::Io,
            ErrorKind::Io
            | ErrorKind::Setting
            | ErrorKind::Format
            | ErrorKind::Poisoned
            | ErrorKind::Lost
            | ErrorKind::Devices
            | ErrorKind::Log => {
                if let Some(left_out) = self.failures.next() {
                    let what = format_args!("volume {}: a request failed", self.name);
                    tracing::warn!(target: EACH, "{}{left_out}", nitro_console::error::Error::with_sources(what, error));
                }
                DiskError::Io
            }
        }
    }

    /// The origin's allocation map. The origin answers only for whole blocks; clients ask for any bytes.
    async fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Run>, DiskError> {
        let geometry = self.volume.origin().geometry();
        let block = u64::from(geometry.block_bytes);
        let start = offset / block * block;
        let end = (offset + len).next_multiple_of(block).min(self.volume.size_bytes());
        let runs = self.volume.allocation(start, end - start).await.map_err(|e| self.told(&e))?;
        let mut before = offset - start;
        let cut = |run: Allocation| {
            let skipped = before.min(run.len);
            before -= skipped;
            Run { len: run.len - skipped, hole: run.hole, zero: run.hole, ..Run::default() }
        };
        Ok(runs.into_iter().map(cut).collect())
    }
}

impl Disk for VolumeExport {
    fn info(&self) -> DiskInfo {
        let volume = &self.volume;
        let extent_bytes = volume.cache().settings().manager.extent_bytes;
        let geometry = volume.origin().geometry();
        DiskInfo {
            description: self.description.clone(),
            read_only: volume.read_only(),
            rotational: geometry.rotational,
            block_bytes: self.block_bytes,
            block_preferred_bytes: extent_bytes.max(4096),
            ..DiskInfo::new(volume.size_bytes())
        }
    }

    fn keeps_writes(&self) -> bool {
        self.volume.keeps_writes()
    }

    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn try_read(&self, from: Requester, offset: u64, len: u32) -> Option<Result<Pieces, DiskError>> {
        if let Err(error) = self.check_lost() {
            return Some(Err(error));
        }
        let class = self.class_of_read(from, offset, len);
        let recording = self.recording(class);
        let spans = self.spans.get();
        let span = spans.and_then(|spans| spans.prepare(asked_to_read(class, offset, len)));
        if !self.throttle.may_begin() {
            return None;
        }
        let data = self.volume.try_read_as(class, offset, len.into())?;
        // After the data: what was theirs before the end of the lease was theirs alone.
        if !self.volume.origin().may_answer() {
            return None;
        }
        self.throttle.charge(len.into());
        // A request that is not answered here is counted when it is read.
        if spans.is_some_and(VolumeSpans::counts) {
            end(span, Ok(Outcome::Hit));
        }
        if let Some((recorder, arrival)) = recording {
            recorder.read(arrival, offset, len, data.clone());
        }
        Some(Ok(data))
    }

    #[expect(clippy::manual_async_fn, reason = "the arguments of an async fn take room in its future twice")]
    fn read(&self, from: Requester, offset: u64, len: u32) -> impl Future<Output = Result<Pieces, DiskError>> {
        async move {
            self.turn(from, len.into()).await?;
            self.check_lost()?;
            let class = self.class_of_read(from, offset, len);
            if let Some(span) = self.spans.get().and_then(|spans| spans.begin(asked_to_read(class, offset, len))) {
                // Boxed: the future of other reads need not have room for the span.
                return Box::pin(self.read_in(span, class, offset, len)).await;
            }
            let recording = self.recording(class);
            let (data, _) = self.volume.read_found(class, offset, len.into()).await.map_err(|e| self.told(&e))?;
            if let Some((recorder, arrival)) = recording {
                recorder.read(arrival, offset, len, data.clone());
            }
            self.held().await;
            Ok(data)
        }
    }

    async fn write(&self, from: Requester, offset: u64, data: Bytes, fua: bool) -> Result<(), DiskError> {
        self.turn_to_write(from, data.len() as u64).await?;
        let class = self.class_of_change(from, offset, data.len() as u64);
        let recording = self.recording(class).map(|recording| (recording, data.clone()));
        self.change(class, Change::Write { offset, data, fua }).await?;
        if let Some(((recorder, arrival), data)) = recording {
            recorder.write(arrival, offset, data);
        }
        Ok(())
    }

    async fn flush(&self, from: Requester) -> Result<(), DiskError> {
        let class = self.class_of_change(from, 0, 0);
        let recording = self.recording(class);
        self.change(class, Change::Flush).await?;
        note(recording, Op::Flush, 0, 0);
        Ok(())
    }

    async fn trim(&self, from: Requester, offset: u64, len: u32, fua: bool) -> Result<(), DiskError> {
        self.turn(from, 0).await?;
        let class = self.class_of_change(from, offset, len.into());
        let recording = self.recording(class);
        self.change(class, Change::Trim { offset, len: len.into(), fua }).await?;
        note(recording, Op::Trim, offset, len);
        Ok(())
    }

    async fn write_zeroes(&self, from: Requester, offset: u64, len: u32, flags: ZeroFlags) -> Result<(), DiskError> {
        self.turn(from, len.into()).await?;
        let class = self.class_of_change(from, offset, len.into());
        let recording = self.recording(class);
        let ZeroFlags { no_hole, fast, fua } = flags;
        self.change(class, Change::WriteZeroes { offset, len: len.into(), may_unmap: !no_hole, fast, fua }).await?;
        // As a trim, zeroes make the cache forget, and are not inserted.
        note(recording, Op::Trim, offset, len);
        Ok(())
    }

    async fn cache(&self, from: Requester, offset: u64, len: u32) -> Result<(), DiskError> {
        self.turn(from, len.into()).await?;
        self.volume.warm(offset, len.into()).await.map_err(|e| self.told(&e))
    }

    fn leave(&self, from: Requester) {
        self.throttle.leave(from.client);
    }

    async fn status(&self, of: StatusOf, offset: u64, len: u32) -> Result<Vec<Run>, DiskError> {
        self.held().await;
        if of == StatusOf::Allocation {
            return self.allocation(offset, len.into()).await;
        }
        let runs = self.volume.cached_runs(offset, len.into()).await.map_err(|e| self.told(&e))?;
        let told = |run: CachedRun| Run { len: run.len, cached: run.cached, dirty: run.dirty, ..Run::default() };
        Ok(runs.into_iter().map(told).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// glibc's malloc serves up to this size from a list of the thread (`tcache`), several times as fast as above it.
    const FAST_ALLOCATION_BYTES: usize = 1032;

    /// The size in bytes of the future that a function returns.
    fn size<A, F>(_: impl Fn(A) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_futures_that_each_request_allocates_are_small() {
        let change =
            size(|(volume, change): (&'static Arc<ServedVolume>, _)| volume.change_as(ClassId::default(), change));
        assert!(change <= FAST_ALLOCATION_BYTES, "{change} bytes are allocated for each write");
        let write = size(|(origin, data): (&'static OriginDevice, _)| origin.write(0, data));
        let read = size(|origin: &'static OriginDevice| origin.read(0, 1));
        assert!(write <= 256 && read <= 256, "the origin's futures take {write} and {read} bytes");
    }

    /// With the 80 bytes that NBD adds, a hit's future takes 512.
    #[test]
    fn the_future_of_a_read_is_small() {
        let bytes = size(|export: &'static VolumeExport| export.read(Requester::default(), 0, 1));
        assert!(bytes <= 432, "{bytes} bytes are allocated and moved for each request");
    }
}
