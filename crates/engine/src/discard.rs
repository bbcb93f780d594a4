//! TRIM: whether the SSD is told of evicted units, and what that costs.

use parking_lot::Mutex;
use std::fmt;
use std::time::Duration;

/// Whether the SSD is told of evicted units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Discard {
    /// Never.
    #[default]
    Off,
    /// Of each.
    Evicted,
    /// Of each, as long as the device accepts it and it takes no longer than writing a unit.
    IfCheap,
}

/// Discards and writes of units that are measured before they are compared.
const MEASURED_MIN: u32 = 16;

/// Operations and their time.
#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    count: u32,
    total: Duration,
}

impl Measured {
    fn add(&mut self, took: Duration) {
        (self.count, self.total) = (self.count.saturating_add(1), self.total.saturating_add(took));
    }

    fn mean(&self) -> Option<Duration> {
        (self.count >= MEASURED_MIN).then(|| self.total / self.count)
    }
}

/// Why evicted units are not discarded any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Refused,
    Dear { discard: Duration, write: Duration },
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => write!(f, "the device refuses it"),
            Self::Dear { discard, write } => {
                let ms = |time: &Duration| time.as_secs_f64() * 1000.0;
                write!(f, "a discard takes {:.1} ms, the write of a unit {:.1} ms", ms(discard), ms(write))
            }
        }
    }
}

#[derive(Debug, Default)]
struct State {
    discards: Measured,
    writes: Measured,
    ended: Option<Ended>,
}

/// The discards of a cache.
#[derive(Debug)]
pub(crate) struct Discards {
    how: Discard,
    state: Mutex<State>,
}

impl Discards {
    pub(crate) fn new(how: Discard) -> Self {
        Self { how, state: Mutex::default() }
    }

    /// Whether evicted units are discarded now.
    pub(crate) fn are_on(&self) -> bool {
        match self.how {
            Discard::Off => false,
            Discard::Evicted => true,
            Discard::IfCheap => self.state.lock().ended.is_none(),
        }
    }

    /// A unit was discarded, or the device refused it. Returns why there are to be no more, the first time.
    pub(crate) fn note(&self, is_done: bool, took: Duration) -> Option<String> {
        if self.how != Discard::IfCheap {
            return None;
        }
        let mut state = self.state.lock();
        if is_done {
            state.discards.add(took);
        }
        let ended = match (is_done, state.discards.mean(), state.writes.mean()) {
            (false, ..) => Ended::Refused,
            (true, Some(discard), Some(write)) if discard > write => Ended::Dear { discard, write },
            _ => return None,
        };
        state.ended.replace(ended).is_none().then(|| ended.to_string())
    }

    /// A whole unit was written.
    pub(crate) fn wrote(&self, took: Duration) {
        if self.how == Discard::IfCheap {
            self.state.lock().writes.add(took);
        }
    }

    /// `evicted`, `off`, or `off: ` and the reason.
    pub(crate) fn told(&self) -> String {
        match (self.are_on(), self.state.lock().ended) {
            (true, _) => "evicted".to_owned(),
            (false, None) => "off".to_owned(),
            (false, Some(ended)) => format!("off: {ended}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_costs_more_than_a_write_ends() {
        let discards = Discards::new(Discard::IfCheap);
        (0..MEASURED_MIN).for_each(|_| discards.wrote(2 * MS));
        assert!((0..MEASURED_MIN).all(|_| discards.note(true, MS).is_none()));
        assert_eq!((discards.are_on(), discards.told().as_str()), (true, "evicted"));
        let ends: Vec<_> = (0..100).filter_map(|_| discards.note(true, 4 * MS)).collect();
        assert!(ends.len() == 1 && ends[0].contains("the write of a unit 2.0 ms"), "{ends:?}");
        assert!(!discards.are_on() && discards.told().starts_with("off: a discard takes"));
    }

    #[test]
    fn a_device_that_refuses_is_asked_once_unless_it_is_told_to_be() {
        for (how, goes_on) in [(Discard::IfCheap, false), (Discard::Evicted, true)] {
            let discards = Discards::new(how);
            assert_eq!(discards.note(false, MS).is_some(), !goes_on);
            assert_eq!(discards.are_on(), goes_on);
        }
        assert_eq!(Discards::new(Discard::Off).told(), "off");
    }
}
