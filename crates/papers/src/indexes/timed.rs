//! Operations one at a time, each with its latency.

use crate::load::{Entries, Latencies, mix};
use nitro_index::{Error, FlashIndex, Value};
use nitro_model::SleepClock;
use nitro_port::Clock;
use std::time::{Duration, Instant};

/// A table with look-ups and insertions.
pub(crate) trait KeyValue {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error>;

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;
}

impl<I: FlashIndex> KeyValue for I {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        FlashIndex::get(self, key).await
    }

    async fn insert(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        FlashIndex::insert(self, key, value).await
    }
}

/// Measures the time of operations: real time, the virtual time of a modelled device, or both.
pub(crate) struct Watch {
    /// The start, if real time counts.
    begun: Option<Instant>,
    /// The clock of a modelled device; its operations take no real time.
    device: Option<SleepClock>,
}

impl Watch {
    pub(crate) fn real() -> Self {
        Self { begun: Some(Instant::now()), device: None }
    }

    pub(crate) fn modelled(device: SleepClock) -> Self {
        Self { begun: Some(Instant::now()), device: Some(device) }
    }

    /// Only the time of the modelled device: the same in every run.
    pub(crate) const fn modelled_alone(device: SleepClock) -> Self {
        Self { begun: None, device: Some(device) }
    }

    fn now(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| begun.elapsed())
            + self.device.as_ref().map_or(Duration::ZERO, Clock::now)
    }

    /// Runs an operation; returns its result and its duration.
    pub(crate) async fn time<T>(&self, operation: impl Future<Output = T>) -> (T, Duration) {
        let begun = self.now();
        let done = operation.await;
        (done, self.now() - begun)
    }
}

/// Entries drawn from a range, as in CLAM's load: its hit rate is the part of the range that the table still holds.
#[derive(Clone, Copy)]
pub(crate) struct Draws {
    pub(crate) entries: Entries,
    pub(crate) range: u64,
}

impl Draws {
    /// The range in which a share of the look-ups is found, in a table that holds the last `held` insertions.
    pub(crate) fn hitting(entries: Entries, held: u64, share: f64) -> Self {
        Self { entries, range: (held as f64 / -(1.0 - share).ln()).round() as u64 }
    }

    /// The entry number of draw `n`.
    pub(crate) fn draw(self, n: u64) -> u64 {
        mix(n.wrapping_add(0x5EED_0000_0000)) % self.range
    }
}

/// A load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) draws: Draws,
    /// The number of operations, or of pairs.
    pub(crate) count: u64,
    /// The number of the first draw.
    pub(crate) first: u64,
    /// The share of look-ups among the operations. `None`: each draw is looked up, then inserted.
    pub(crate) lookups: Option<f64>,
}

/// The results of a load.
pub(crate) struct Timed {
    pub(crate) lookups: Latencies,
    pub(crate) inserts: Latencies,
    /// The number of look-ups, and of those that found their key.
    pub(crate) looked: u64,
    pub(crate) hits: u64,
    pub(crate) inserted: u64,
    /// Look-ups that returned a wrong value.
    pub(crate) wrong: u64,
}

impl Timed {
    /// The share of look-ups that found their key.
    pub(crate) fn hit_share(&self) -> f64 {
        self.hits as f64 / self.looked.max(1) as f64
    }

    /// The mean time of all operations in microseconds.
    pub(crate) fn mean_us(&self) -> f64 {
        let sum = self.lookups.mean_us() * self.looked as f64 + self.inserts.mean_us() * self.inserted as f64;
        sum / (self.looked + self.inserted).max(1) as f64
    }
}

/// Runs a load, one operation at a time.
pub(crate) async fn load(table: &impl KeyValue, load: Load, watch: &Watch, show: impl Fn(u64)) -> Result<Timed, Error> {
    let Load { draws, count, first, lookups } = load;
    let entries = draws.entries;
    let (looked, inserted) = (Latencies::default(), Latencies::default());
    let mut timed = Timed { lookups: looked, inserts: inserted, looked: 0, hits: 0, inserted: 0, wrong: 0 };
    for n in first..first + count {
        let number = draws.draw(n);
        let (key, value) = (entries.key(number), entries.value(number));
        let chance = (mix(n ^ 0xC0FF_EE00) >> 11) as f64 / (1u64 << 53) as f64;
        if lookups.is_none_or(|share| chance < share) {
            let (found, took) = watch.time(table.get(&key)).await;
            let found = found?;
            timed.lookups.add(took);
            timed.looked += 1;
            timed.hits += u64::from(found.is_some());
            timed.wrong += u64::from(found.is_some_and(|found| found[..] != value[..]));
        }
        if lookups.is_none_or(|share| chance >= share) {
            let (entered, took) = watch.time(table.insert(&key, &value)).await;
            entered?;
            timed.inserts.add(took);
            timed.inserted += 1;
        }
        if n % 64 == 0 {
            show(n - first);
        }
    }
    Ok(timed)
}
