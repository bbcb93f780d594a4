//! Handling of an origin that does not answer: a request that was given up continues in the background, since its
//! writes could still arrive. Until it has ended, its extents are neither read nor written by other requests.

use super::Volume;
use super::write::Zeroing;
use crate::error::Error;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use nitro_cache::admission::Provenance;
use nitro_port::{Clock, Device, DeviceError, ErrorKind, Operation, Origin};
use nitro_units::{ClassId, ExtentRange};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum number of requests of a volume that were given up and have not ended: beyond it, the volume's requests fail
/// at once.
const GIVEN_UP_MAX: usize = 256;
pub(crate) const GIVEN_UP_BYTES_MAX: u64 = 64 << 20;

/// The rest of a request that was answered with an error: the thread that began the request has to poll it to its end.
/// It ends when the origin answers, if ever; if it is dropped earlier, the extents of its write stay locked.
pub type Rest = LocalBoxFuture<'static, ()>;

/// A request that changes a volume, or makes changes durable.
#[derive(Debug, Clone)]
pub enum Change {
    /// See [`Volume::write`].
    Write {
        /// First byte.
        offset: u64,
        /// The data.
        data: Bytes,
        /// Durable before the answer.
        fua: bool,
    },
    /// See [`Volume::flush`].
    Flush,
    /// See [`Volume::trim`].
    Trim {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Durable before the answer.
        fua: bool,
    },
    /// See [`Volume::write_zeroes`].
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// The origin may release storage.
        may_unmap: bool,
        /// Fail if it would take long.
        fast: bool,
        /// Durable before the answer.
        fua: bool,
    },
}

impl Change {
    /// Bytes that it keeps in RAM.
    fn held_bytes(&self) -> u64 {
        if let Self::Write { data, .. } = self { data.len() as u64 } else { 0 }
    }

    fn timed_out(&self) -> Error {
        let (operation, offset, len) = match self {
            Self::Write { offset, data, .. } => (Operation::Write, *offset, data.len() as u64),
            Self::Flush => (Operation::Flush, 0, 0),
            Self::Trim { offset, len, .. } => (Operation::Discard, *offset, *len),
            Self::WriteZeroes { offset, len, .. } => (Operation::WriteZeroes, *offset, *len),
        };
        timed_out(operation, offset, len)
    }
}

fn timed_out(operation: Operation, offset: u64, len: u64) -> Error {
    Error::Origin(DeviceError::new(ErrorKind::TimedOut, operation, offset, len))
}

/// The context of a request: its class, and whether its caller still waits for it.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestContext {
    class: ClassId,
    /// The class by the pattern of the requests.
    pattern: ClassId,
    /// Set when the request was given up; `None`: it cannot be given up.
    given_up: Option<Arc<AtomicBool>>,
}

impl RequestContext {
    /// The context of a request that cannot be given up.
    pub(super) fn patient(class: ClassId) -> Self {
        Self { class, ..Self::default() }
    }

    pub(super) fn limited(class: ClassId) -> Self {
        Self { class, given_up: Some(Arc::default()), ..Self::default() }
    }

    /// The same with another class by the pattern of the requests.
    pub(super) fn with_pattern(self, pattern: ClassId) -> Self {
        Self { pattern, ..self }
    }

    /// The class of the request.
    pub(super) const fn class(&self) -> ClassId {
        self.class
    }

    /// The provenance of content that the request writes.
    pub(super) fn provenance(&self) -> Provenance {
        Provenance { pattern: self.pattern, ..Provenance::written(self.class) }
    }

    pub(super) fn give_up(&self) {
        if let Some(given_up) = &self.given_up {
            given_up.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.as_ref().is_some_and(|given_up| given_up.load(Ordering::SeqCst))
    }

    /// To be called before a request changes anything: it fails if the request was given up.
    pub(super) fn check(&self, offset: u64, len: u64) -> Result<(), Error> {
        if self.is_given_up() { Err(timed_out(Operation::Write, offset, len)) } else { Ok(()) }
    }
}

/// The requests that an origin has not answered.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<Unanswered>);

#[derive(Debug, Default)]
struct Unanswered {
    next: u64,
    /// When each began.
    begun: BTreeMap<u64, Duration>,
    /// When the first request that was given up began, if nothing has been answered since.
    given_up: Option<Duration>,
    /// Requests that were given up and have not ended, and the bytes that they hold.
    left: (usize, u64),
}

/// A request that was given up, until it has ended.
struct Left {
    waits: Arc<Waits>,
    bytes: u64,
}

impl Drop for Left {
    fn drop(&mut self) {
        let (count, bytes) = &mut self.waits.0.lock().left;
        (*count, *bytes) = (*count - 1, *bytes - self.bytes);
    }
}

/// An unanswered request, until it is dropped.
struct Wait<'a> {
    waits: &'a Waits,
    number: u64,
    answered: bool,
}

impl Wait<'_> {
    /// The origin has answered.
    fn end(mut self) {
        self.answered = true;
    }
}

impl Waits {
    fn begin(&self, now: Duration) -> Wait<'_> {
        let mut all = self.0.lock();
        all.next += 1;
        let number = all.next;
        all.begun.insert(number, now);
        Wait { waits: self, number, answered: false }
    }

    /// Whether the limit of given-up requests is reached, so that no request may begin.
    fn is_full(&self) -> bool {
        let (count, bytes) = self.0.lock().left;
        count >= GIVEN_UP_MAX || bytes >= GIVEN_UP_BYTES_MAX
    }

    fn leave(self: &Arc<Self>, bytes: u64) -> Left {
        let (count, sum) = &mut self.0.lock().left;
        (*count, *sum) = (*count + 1, *sum + bytes);
        Left { waits: Arc::clone(self), bytes }
    }

    fn oldest(&self) -> Option<Duration> {
        let all = self.0.lock();
        all.begun.values().copied().chain(all.given_up).min()
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut all = self.waits.0.lock();
        let begun = all.begun.remove(&self.number);
        all.given_up = if self.answered { None } else { all.given_up.or(begun) };
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// How long the origin has not answered: zero if no request is outstanding.
    pub fn origin_owes(&self) -> Duration {
        self.waits.oldest().map_or(Duration::ZERO, |since| self.cache.clock.now().saturating_sub(since))
    }

    /// Waits until the origin has not answered for `limit`.
    pub async fn origin_silent(&self, limit: Duration) {
        loop {
            match limit.saturating_sub(self.origin_owes()) {
                Duration::ZERO => return,
                left => self.cache.clock.sleep(left).await,
            }
        }
    }

    /// A request to the origin, from now until the origin has answered.
    pub(super) fn answered<T>(&self, request: impl Future<Output = T>) -> impl Future<Output = T> {
        let wait = self.waits.begin(self.cache.clock.now());
        // Not async: that future would contain the request twice.
        request.map(move |result| {
            wait.end();
            result
        })
    }

    /// Runs a request; answers with an error of kind [`TimedOut`](ErrorKind::TimedOut) when it has waited for
    /// [`origin_timeout`](crate::EngineSettings::origin_timeout), if there is one, and the origin has not answered
    /// anything for this time. The rest of the request is then returned. If the limit of given-up requests is reached,
    /// the request is not begun.
    ///
    /// # Errors
    /// Those of the method for the change.
    pub async fn change(self: &Arc<Self>, change: Change) -> (Result<(), Error>, Option<Rest>) {
        self.change_as(self.class(), change).await
    }

    /// As [`change`](Self::change), by a request of that class.
    ///
    /// # Errors
    /// As [`change`](Self::change).
    pub async fn change_as(self: &Arc<Self>, class: ClassId, change: Change) -> (Result<(), Error>, Option<Rest>) {
        if self.cache.live.origin_timeout().is_some() {
            // Boxed, as is all but a write: this future is allocated and moved for each write.
            return Box::pin(self.change_in_time(class, change)).await;
        }
        let context = RequestContext::patient(class).with_pattern(self.pattern_of(class, &change));
        let result = match change {
            Change::Write { offset, data, fua } => self.write_with(offset, data, fua, &context).await,
            change => Box::pin(self.apply(change, &context)).await,
        };
        (result, None)
    }

    /// The class of a change by the pattern of the requests: only writes have one.
    fn pattern_of(&self, class: ClassId, change: &Change) -> ClassId {
        match change {
            Change::Write { offset, data, .. } => self.pattern(Provenance::written(class), *offset, data.len() as u64),
            Change::Flush | Change::Trim { .. } | Change::WriteZeroes { .. } => ClassId::UNCLASSIFIED,
        }
    }

    async fn change_in_time(self: &Arc<Self>, class: ClassId, change: Change) -> (Result<(), Error>, Option<Rest>) {
        let context = RequestContext::limited(class).with_pattern(self.pattern_of(class, &change));
        let (volume, timed_out) = (Arc::clone(self), change.timed_out());
        if self.waits.is_full() {
            self.metrics.errors.add(1);
            return (Err(timed_out), None);
        }
        let (limited, held_bytes) = (context.clone(), change.held_bytes());
        let request = async move { volume.apply(change, &limited).await };
        match self.in_time(request.boxed_local()).await {
            Ok(result) => (result, None),
            Err(request) => {
                context.give_up();
                self.flights.given_up();
                self.metrics.errors.add(1);
                let left = self.waits.leave(held_bytes);
                let rest = async move {
                    let _left = left;
                    drop(request.await);
                };
                (Err(timed_out), Some(rest.boxed_local()))
            }
        }
    }

    /// As [`change`](Self::change), for a command that ends when the origin is up to date.
    pub async fn while_it_answers<T: 'static>(
        self: &Arc<Self>,
        request: impl Future<Output = Result<T, Error>> + 'static,
    ) -> (Result<T, Error>, Option<Rest>) {
        match self.in_time(request.boxed_local()).await {
            Ok(result) => (result, None),
            Err(request) => (Err(timed_out(Operation::Write, 0, 0)), Some(request.map(drop).boxed_local())),
        }
    }

    /// Runs a request until it ends, or returns it at the time limit.
    async fn in_time<T: 'static>(
        &self,
        mut request: LocalBoxFuture<'static, T>,
    ) -> Result<T, LocalBoxFuture<'static, T>> {
        let Some(timeout) = self.cache.live.origin_timeout() else { return Ok(request.await) };
        let begun = self.cache.clock.now();
        loop {
            // An origin that answers, however slowly, is waited for.
            let waited = self.cache.clock.now().saturating_sub(begun).min(self.origin_owes());
            let left = timeout.saturating_sub(waited);
            if left.is_zero() {
                self.metrics.origin_timeouts.add(1);
                return Err(request);
            }
            let slept = pin!(self.cache.clock.sleep(left));
            if let Either::Left((result, _)) = select(&mut request, slept).await {
                return Ok(result);
            }
        }
    }

    async fn apply(&self, change: Change, context: &RequestContext) -> Result<(), Error> {
        match change {
            Change::Write { offset, data, fua } => self.write_with(offset, data, fua, context).await,
            Change::Flush => self.flush().await,
            Change::Trim { offset, len, fua } => self.trim_with(offset, len, fua, context).await,
            Change::WriteZeroes { offset, len, may_unmap, fast, fua } => {
                self.zero_with(offset, len, Zeroing { may_unmap, fast }, fua, context).await
            }
        }
    }

    /// Waits until no request that was given up writes to any of the extents.
    ///
    /// # Errors
    /// [`Error::Origin`]: this takes too long.
    pub(super) async fn settled(&self, extents: ExtentRange) -> Result<(), Error> {
        let settled = pin!(self.flights.settled_writes(extents));
        let Some(timeout) = self.cache.live.origin_timeout() else {
            settled.await;
            return Ok(());
        };
        match select(settled, pin!(self.cache.clock.sleep(timeout))).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => {
                self.metrics.origin_timeouts.add(1);
                let bytes = extents.bytes(self.extent_bytes());
                Err(timed_out(Operation::Read, bytes.start, bytes.end - bytes.start))
            }
        }
    }
}
