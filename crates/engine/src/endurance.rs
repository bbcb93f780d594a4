//! The wear of the SSD: the bytes written to it, and a budget for them. Once a minute, the bytes written are compared
//! with the budget, and the cache manager is told how much to restrain writes.

use nitro_cache::{Budget, Thrift};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Time between two comparisons.
const STEP: Duration = Duration::from_secs(60);
const DAY: f64 = 24.0 * 3600.0;

/// The endurance of the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endurance {
    /// Bytes that may be written to it in a day. Unused bytes are saved, up to the budget of a day; a new cache starts
    /// with the budget of a day.
    pub bytes_per_day: u64,
    /// Total bytes for which it is rated.
    pub rated_bytes: u64,
}

/// The wear of an SSD.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnduranceStatus {
    /// Bytes written in a day, at the mean rate of the last day, or of the time since the start; `None`: that is less than an hour.
    pub written_per_day: Option<f64>,
    /// The configured endurance.
    pub endurance: Option<Endurance>,
    /// Unused budget, which may be written in addition; negative: the budget is exceeded by so many bytes.
    pub saved_bytes: f64,
    /// How much the write budget restrains insertion: from 1 (nothing is refused) to nearly 0.
    pub openness: f64,
}

/// A rate of a day is not told from less time than this, in seconds: the minutes after a start are like no others.
const OBSERVED_MIN_S: f64 = 3540.0;

/// The mean rate of the last day.
#[derive(Debug, Default)]
struct Rate {
    bytes: f64,
    seconds: f64,
}

impl Rate {
    fn note(&mut self, bytes: u64, elapsed: Duration) {
        let left = (-elapsed.as_secs_f64() / DAY).exp();
        self.bytes = self.bytes * left + bytes as f64;
        self.seconds = self.seconds * left + elapsed.as_secs_f64();
    }

    fn per_day(&self) -> Option<f64> {
        (self.seconds >= OBSERVED_MIN_S).then(|| self.bytes / self.seconds * DAY)
    }
}

#[derive(Debug)]
struct State {
    budget: Option<(Endurance, Budget)>,
    rate: Rate,
    /// The time of the last comparison.
    at: Duration,
    written: u64,
}

/// The write budget of one cache.
#[derive(Debug)]
pub(crate) struct Spending {
    state: Mutex<State>,
    sparing: AtomicBool,
}

impl Spending {
    /// Starts at `now`; `is_new`: the cache is empty, and starts with the budget of a day.
    pub(crate) fn new(endurance: Option<Endurance>, is_new: bool, now: Duration) -> Self {
        let budget = endurance.map(|endurance| {
            let day = endurance.bytes_per_day;
            (endurance, Budget::new(if is_new { day } else { 0 }, day))
        });
        let state = State { budget, rate: Rate::default(), at: now, written: 0 };
        Self { state: Mutex::new(state), sparing: AtomicBool::new(false) }
    }

    /// Sets another budget, with nothing saved yet.
    pub(crate) fn set(&self, endurance: Option<Endurance>) {
        let budget = endurance.map(|endurance| (endurance, Budget::new(0, endurance.bytes_per_day)));
        self.state.lock().budget = budget;
        self.sparing.store(false, Relaxed);
    }

    /// Whether writes are restrained at present.
    pub(crate) fn is_sparing(&self) -> bool {
        self.sparing.load(Relaxed)
    }

    /// Compares the total of `written` bytes with the budget; returns how much to restrain writes, if a step has
    /// passed.
    pub(crate) fn step(&self, now: Duration, written: u64) -> Option<Thrift> {
        let mut state = self.state.lock();
        let elapsed = now.saturating_sub(state.at);
        if elapsed < STEP {
            return None;
        }
        let bytes = written.saturating_sub(state.written);
        (state.at, state.written) = (now, written);
        state.rate.note(bytes, elapsed);
        let (endurance, budget) = state.budget.as_mut()?;
        budget.step(endurance.bytes_per_day as f64 * elapsed.as_secs_f64() / DAY, bytes);
        let thrift = budget.thrift();
        self.sparing.store(thrift != Thrift::NONE, Relaxed);
        Some(thrift)
    }

    pub(crate) fn status(&self, now: Duration, written: u64) -> EnduranceStatus {
        let state = self.state.lock();
        let mut rate = Rate { ..state.rate };
        rate.note(written.saturating_sub(state.written), now.saturating_sub(state.at));
        EnduranceStatus {
            written_per_day: rate.per_day(),
            endurance: state.budget.map(|(endurance, _)| endurance),
            saved_bytes: state.budget.map_or(0.0, |(_, budget)| budget.saved_bytes()),
            openness: state.budget.map_or(1.0, |(_, budget)| budget.openness()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn minutes(count: u64) -> Duration {
        STEP * count as u32
    }

    #[test]
    fn a_rate_is_that_of_the_last_day() {
        let spending = Spending::new(None, true, minutes(0));
        assert_eq!(spending.status(minutes(0), 0).written_per_day, None);
        assert_eq!(spending.status(minutes(58), 50 * MIB).written_per_day, None, "not from less than an hour");
        let half_a_day = spending.status(minutes(720), 50 * MIB).written_per_day.unwrap();
        assert!((half_a_day / MIB as f64 - 100.0).abs() < 1.0, "{half_a_day}");
        for minute in 1..=10_000 {
            assert_eq!(spending.step(minutes(minute), minute * MIB), None, "there is no budget");
        }
        let days = spending.status(minutes(10_000), 10_000 * MIB).written_per_day.unwrap();
        assert!((days / (1440 * MIB) as f64 - 1.0).abs() < 0.01, "{days}");
    }

    /// Demand of 100 MiB a minute that gives way as it is told to, under a budget of 20: after the day's budget that a new cache may
    /// use at once, each day brings what it may.
    #[test]
    fn a_new_cache_fills_at_once_and_then_keeps_within_its_budget() {
        let endurance = Endurance { bytes_per_day: 1440 * 20 * MIB, rated_bytes: 1 << 50 };
        let spending = Spending::new(Some(endurance), true, minutes(0));
        let (mut written, mut at_day) = (0, Vec::new());
        for minute in 1..=7 * 1440 {
            written += (100.0 * MIB as f64 * spending.status(minutes(minute - 1), written).openness) as u64;
            assert!(spending.step(minutes(minute), written).is_some());
            if minute % 1440 == 0 {
                at_day.push(written as f64 / endurance.bytes_per_day as f64);
            }
        }
        assert!(spending.is_sparing());
        assert!((1.5..2.1).contains(&at_day[0]), "{at_day:?}");
        let later: Vec<f64> = at_day.windows(2).map(|days| days[1] - days[0]).collect();
        assert!(later[2..].iter().all(|day| (0.95..1.05).contains(day)), "{later:?}");
        assert!(written <= 8 * endurance.bytes_per_day, "{at_day:?}");
        // One that was there before has saved nothing yet.
        assert_eq!(Spending::new(Some(endurance), false, minutes(0)).status(minutes(0), 0).saved_bytes, 0.0);
    }
}
