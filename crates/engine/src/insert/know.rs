//! What has to be known about a content before it is appended: its bytes, its fingerprint, its class, where an index on
//! flash has it, and its stored form. Any number of workers find this out at the same time.

use super::queue::{Content, Job};
use super::worker::{Worker, payload};
use crate::cache::Cache;
use crate::domain::Named;
use crate::fingerprints::{ContentPlace, FingerprintIndex};
use crate::kept::Kept;
use bytes::Bytes;
use futures_util::future::{FutureExt, LocalBoxFuture, ready};
use futures_util::stream::{FuturesUnordered, StreamExt};
use nitro_cache::admission::Provenance;
use nitro_port::buf::is_zero;
use nitro_port::codec::Encoding;
use nitro_port::{Clock, Device, Urgency};
use nitro_units::{ExtentKey, Fingerprint};

/// Maximum number of concurrent look-ups of one worker in an index on flash.
const LOOKUPS_MAX: usize = 64;
/// New look-ups are begun, several at once, when at most this number is in progress: this wakes the index thread less
/// often.
const LOOKUPS_MIN: usize = LOOKUPS_MAX / 2;

/// What is known about a content.
pub(super) struct Known {
    pub(super) extent: Kept,
    pub(super) zero: bool,
    pub(super) named: Option<Named>,
    /// Its provenance, with its class.
    pub(super) from: Provenance,
    /// Its place according to the index on flash.
    pub(super) place: Option<ContentPlace>,
    /// The index on flash was not searched, because the index in RAM has the content.
    pub(super) was_in_ram: bool,
    /// Its stored form, if it was made already.
    pub(super) stored: Option<(Encoding, Bytes)>,
}

/// What is to be done with a job next.
pub(super) enum Next {
    /// There is nothing to insert any more.
    Nothing,
    /// It waits in the queue again.
    Staged,
    /// It is inserted.
    Insert(Known),
}

/// A job whose turn to be inserted may come.
pub(super) struct Prepared {
    pub(super) job: Job,
    pub(super) next: Next,
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Determines what has to be known about a job's content before its insertion.
    async fn know<I: FingerprintIndex>(&self, job: &Job, index: &I) -> Next {
        if !self.device_health.is_caching() {
            return Next::Nothing;
        }
        let Some((extent, fingerprint)) = self.content(job).await else { return Next::Nothing };
        if matches!(job.content, Content::Merge(_)) && self.stage_merged(job, &extent) {
            return Next::Staged;
        }
        let zero = is_zero(extent.bytes());
        let named = self.name(job.key, extent.bytes(), zero, fingerprint);
        let used = Provenance { used: job.token.is_used(), ..job.from };
        let from = self.classified(job.key, used, extent.bytes());
        let mut known = Known { extent, zero, named, from, place: None, was_in_ram: false, stored: None };
        if let Some(named) = named.as_ref().filter(|_| I::IS_THERE && !zero) {
            known.was_in_ram = self.manager.lock().lookup_fingerprint(&named.within).is_some();
            if !known.was_in_ram {
                known.place = index.find(&named.within).await;
            }
        }
        Next::Insert(known)
    }

    /// Lets a merged extent wait with the other staged contents; returns whether it does.
    fn stage_merged(&self, job: &Job, extent: &Kept) -> bool {
        if !self.queue.stages() || !job.flights.complete(job.key.index(), &job.token, extent) {
            return false;
        }
        let (token, flights) = (job.token.clone(), job.flights.clone());
        let content = Content::Whole(extent.clone(), None);
        match self.queue.push(Job { key: job.key, content, from: job.from, token, flights, room: job.room.clone() }) {
            Ok(void) => {
                self.metrics.fills_voided.add(void);
                true
            }
            // The queue is closed: it is inserted at once.
            Err(_) => false,
        }
    }

    /// The fingerprint by which an extent is deduplicated, if deduplication is on.
    pub(crate) fn name(&self, key: ExtentKey, extent: &[u8], zero: bool, known: Option<Fingerprint>) -> Option<Named> {
        let plain = self.settings.manager.dedup.then(|| match (zero, known) {
            (true, _) => self.zero_fingerprint,
            (false, Some(known)) => known,
            (false, None) => self.hash().of(extent),
        })?;
        Some(Named { plain, within: self.domain(key.object()).within(&plain) })
    }

    /// The extent's bytes, and their fingerprint if known; `None`: there is nothing to insert any more.
    async fn content(&self, job: &Job) -> Option<(Kept, Option<Fingerprint>)> {
        if job.token.is_void() {
            self.metrics.fills_voided.add(1);
            return None;
        }
        match &job.content {
            Content::Whole(extent, fingerprint) => Some((extent.clone(), *fingerprint)),
            Content::Merge(merge) => {
                let old = self.fetch(&[(job.key, merge.base)], Urgency::Normal).await.pop().flatten()?;
                Some((merge.patch.over(&old), None))
            }
        }
    }
}

/// A job with its number in the order of insertion.
type Numbered = (u64, Job, Next);

/// Jobs whose contents are being looked up in an index on flash.
pub(super) struct Looking<'a, F, C, I> {
    cache: &'a Cache<F, C>,
    index: &'a I,
    jobs: FuturesUnordered<LocalBoxFuture<'a, Numbered>>,
    /// No further job will follow.
    is_last: bool,
}

impl<'a, F: Device, C: Clock, I: FingerprintIndex> Looking<'a, F, C, I> {
    pub(super) fn new(cache: &'a Cache<F, C>, index: &'a I) -> Self {
        Self { cache, index, jobs: FuturesUnordered::new(), is_last: false }
    }

    /// A job of which everything is known, with its number; `None`: no further job will follow.
    pub(super) async fn next(&mut self, worker: &mut Worker<'a, F, C>) -> Option<(u64, Prepared)> {
        let (number, job, next) = self.known(worker).await?;
        let next = match next {
            Next::Insert(known) => Next::Insert(worker.compressed(known)),
            other => other,
        };
        Some((number, Prepared { job, next }))
    }

    async fn known(&mut self, worker: &mut Worker<'a, F, C>) -> Option<Numbered> {
        if !I::IS_THERE {
            let (number, job) = worker.next_job().await?;
            let known = self.cache.know(&job, self.index).await;
            return Some((number, job, known));
        }
        let wanted = if self.jobs.len() <= LOOKUPS_MIN { LOOKUPS_MAX } else { 0 };
        while !self.is_last && self.jobs.len() < wanted {
            let job = match self.jobs.is_empty() {
                true => worker.next_job().await,
                false => match worker.next_job().now_or_never() {
                    Some(job) => job,
                    None => break,
                },
            };
            let Some((number, job)) = job else {
                self.is_last = true;
                break;
            };
            let (cache, index) = (self.cache, self.index);
            let mut looking: LocalBoxFuture<'a, _> = Box::pin(async move {
                let known = cache.know(&job, index).await;
                (number, job, known)
            });
            // What is not to be read is known at once, and holds nothing up.
            match looking.as_mut().now_or_never() {
                Some(known) => self.jobs.push(Box::pin(ready(known))),
                None => self.jobs.push(looking),
            }
        }
        self.jobs.next().await
    }
}

impl<F: Device, C: Clock> Worker<'_, F, C> {
    /// Compresses a content that will probably be stored, if other workers append meanwhile. A single worker compresses
    /// what it appends, and nothing else.
    fn compressed(&mut self, mut known: Known) -> Known {
        if known.zero || known.was_in_ram || known.place.is_some() || !self.cache.queue.is_shared() {
            return known;
        }
        let is_stored = |named: &Named| self.cache.manager.lock().has_fingerprint(&named.within);
        if !known.named.as_ref().is_some_and(is_stored) {
            self.compressor.use_codec(self.cache.live.compression());
            known.stored = Some(payload(&mut self.compressor, &known.extent, false));
        }
        known
    }
}
