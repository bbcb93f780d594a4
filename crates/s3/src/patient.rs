//! A store that does not answer is asked again, until it does.

use crate::counters::S3Metrics;
use crate::error::StoreError;
use crate::store::{Put, Store};
use bytes::Bytes;
use futures_util::future::{Either, select};
use nitro_port::Clock;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Pauses between attempts: each is up to twice the one before, by chance.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long the first attempt may take, and how long any.
const ATTEMPT_MIN: Duration = Duration::from_secs(15);
const ATTEMPT_MAX: Duration = Duration::from_secs(240);
/// How often a request is made that is refused, as credentials may be renewed meanwhile.
const REFUSED_MAX: u32 = 3;
/// The most reads under way.
const GETS_MAX: usize = 64;

/// Whose put made the object of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Ours,
    Others,
}

/// A store, asked with patience. What is refused fails; everything else is asked again without end.
pub(crate) struct Patient<S, C> {
    store: S,
    clock: C,
    label: String,
    pub(crate) metrics: Arc<S3Metrics>,
    random: Cell<u64>,
    /// When requests began to fail, since none has succeeded.
    away: Cell<Option<Duration>>,
    /// The last refusal that is in the log.
    said: RefCell<String>,
    gets: Semaphore,
}

impl<S: Store, C: Clock> Patient<S, C> {
    pub(crate) fn new(store: S, clock: C, label: &str, seed: u64) -> Self {
        Self {
            store,
            clock,
            label: label.to_owned(),
            metrics: Arc::default(),
            random: Cell::new(seed),
            away: Cell::new(None),
            said: RefCell::default(),
            gets: Semaphore::new(GETS_MAX),
        }
    }

    /// A random number (SplitMix64).
    pub(crate) fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.random.set(state);
        let z = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// What log lines call the volume.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// A conditional put, asked once, with the time that the first attempt has.
    pub(crate) async fn put_new_once(&self, name: &str, data: Bytes) -> Result<Put, StoreError> {
        self.metrics.puts.add(1);
        self.metrics.put_bytes.add(data.len() as u64);
        self.attempt(self.store.put_new(name, data), ATTEMPT_MIN).await
    }

    /// One attempt, which may take so long.
    async fn attempt<T>(
        &self,
        request: impl Future<Output = Result<T, StoreError>>,
        limit: Duration,
    ) -> Result<T, StoreError> {
        match select(pin!(request), pin!(self.clock.sleep(limit))).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => Err(StoreError::Unsure(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    pub(crate) async fn pause(&self, at_most: Duration) {
        let part = self.random() % 1000;
        self.clock.sleep(at_most / 2 + at_most * part as u32 / 2000).await;
    }

    async fn persist<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        what: &str,
        request: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let (mut pause, mut limit, mut refused) = (PAUSE_MIN, ATTEMPT_MIN, 0);
        loop {
            let begun = self.clock.now();
            let answer = self.attempt(request(), limit).await;
            if self.clock.now().saturating_sub(begun) >= limit {
                limit = (limit * 2).min(ATTEMPT_MAX);
            }
            match answer {
                Ok(value) => {
                    if let Some(since) = self.away.take() {
                        let seconds = (self.clock.now().saturating_sub(since)).as_secs();
                        tracing::info!("{}: the store answers again, after {seconds} s", self.label);
                    }
                    return Ok(value);
                }
                Err(StoreError::Refused(why)) => {
                    refused += 1;
                    if refused >= REFUSED_MAX {
                        if *self.said.borrow() != why {
                            tracing::error!("{}: {what}: {why}", self.label);
                            self.said.borrow_mut().clone_from(&why);
                        }
                        return Err(StoreError::Refused(why));
                    }
                    pause = pause.max(Duration::from_secs(1));
                }
                Err(StoreError::Unsure(why)) => {
                    if self.away.get().is_none() {
                        self.away.set(Some(self.clock.now()));
                        tracing::warn!("{}: {what}: {why}; trying again until it succeeds", self.label);
                    }
                }
            }
            self.metrics.retries.add(1);
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Puts an object of a new name.
    pub(crate) async fn put(&self, name: &str, data: Bytes) -> Result<(), StoreError> {
        let put = || {
            self.metrics.puts.add(1);
            self.metrics.put_bytes.add(data.len() as u64);
            self.store.put(name, data.clone())
        };
        self.persist("put", put).await
    }

    /// Puts an object if there is none of that name. The data differ from those of all other writers.
    pub(crate) async fn claim(&self, name: &str, data: Bytes) -> Result<Claim, StoreError> {
        let mut pause = PAUSE_MIN;
        loop {
            let put = || {
                self.metrics.puts.add(1);
                self.metrics.put_bytes.add(data.len() as u64);
                self.store.put_new(name, data.clone())
            };
            match self.persist("put", put).await? {
                Put::Created => return Ok(Claim::Ours),
                // An earlier attempt may have done it, whose answer was lost.
                Put::Exists => match self.get(name, 0..data.len() as u64 + 1).await? {
                    Some(found) if found == data => return Ok(Claim::Ours),
                    Some(_) => return Ok(Claim::Others),
                    // Another put is under way, which may fail.
                    None => {}
                },
            }
            self.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    pub(crate) async fn get(&self, name: &str, part: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        // It is never closed.
        let _permit = self.gets.acquire().await;
        let get = || {
            self.metrics.gets.add(1);
            self.store.get(name, part.clone())
        };
        let got = self.persist("get", get).await?;
        self.metrics.got_bytes.add(got.as_ref().map_or(0, |data| data.len() as u64));
        Ok(got)
    }

    pub(crate) async fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>, StoreError> {
        let list = || {
            self.metrics.lists.add(1);
            self.store.list(folder, after)
        };
        self.persist("list", list).await
    }

    pub(crate) async fn delete(&self, names: &[String]) -> Result<(), StoreError> {
        let delete = || {
            self.metrics.deletes.add(1);
            self.store.delete(names)
        };
        self.persist("delete", delete).await
    }
}
