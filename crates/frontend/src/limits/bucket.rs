//! A token bucket: how much may pass by now. It does no I/O and reads no clock.

use std::num::NonZeroU64;
use std::time::Duration;

/// Parts of a token that are counted, so that no rounding adds up: a rate of one token a second adds one part each nanosecond.
const PARTS: i128 = 1_000_000_000;

/// A token bucket. Something may pass as soon as nothing is owed, and then takes as many tokens as it costs, even if there are
/// not so many: the rest is owed. So what costs more than is ever saved up passes, too, and whoever comes after it waits.
/// (In terms of time, this is the generic cell rate algorithm, ITU-T I.371, Annex A.)
///
/// In any span of time, what passes costs at most the tokens of that span, those that may be saved up, and one request.
#[derive(Debug, Clone, Default)]
pub struct Bucket {
    /// Tokens a second; `None`: no limit.
    rate: Option<NonZeroU64>,
    /// The time whose tokens may be saved up.
    burst: Duration,
    /// Saved, or owed if negative, in parts of a token.
    level: i128,
    /// When `level` was right.
    at: Duration,
}

impl Bucket {
    /// Changes rate and burst. What is owed stays owed; what is saved stays saved as far as the new burst allows.
    pub fn set(&mut self, now: Duration, rate: Option<NonZeroU64>, burst: Duration) {
        self.refill(now);
        (self.rate, self.burst) = (rate, burst);
        self.level = if rate.is_some() { self.level.min(self.level_max()) } else { 0 };
    }

    /// When something may pass; `None`: now.
    pub fn due(&mut self, now: Duration) -> Option<Duration> {
        self.refill(now);
        let rate = i128::from(self.rate?.get());
        let owed = -self.level;
        if owed <= 0 {
            return None;
        }
        let nanoseconds = u64::try_from(owed / rate + i128::from(owed % rate > 0)).unwrap_or(u64::MAX);
        Some(now.saturating_add(Duration::from_nanos(nanoseconds)))
    }

    /// Takes what something costs that passes now.
    pub fn take(&mut self, tokens: u64) {
        if self.rate.is_some() {
            self.level = self.level.saturating_sub(i128::from(tokens).saturating_mul(PARTS));
        }
    }

    /// The most that is saved: at least the tokens of a nanosecond, to which times are rounded.
    fn level_max(&self) -> i128 {
        self.parts_of(self.burst.max(Duration::from_nanos(1)))
    }

    /// The tokens of a span of time.
    fn parts_of(&self, span: Duration) -> i128 {
        let rate = self.rate.map_or(0, |rate| i128::from(rate.get()));
        i128::try_from(span.as_nanos()).unwrap_or(i128::MAX).saturating_mul(rate)
    }

    fn refill(&mut self, now: Duration) {
        let span = now.saturating_sub(self.at);
        self.at = self.at.max(now);
        self.level = self.level.saturating_add(self.parts_of(span)).min(self.level_max());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bucket(rate: u64, burst: Duration) -> Bucket {
        let mut bucket = Bucket::default();
        bucket.set(Duration::ZERO, NonZeroU64::new(rate), burst);
        bucket
    }

    /// When `count` requests of `tokens` each pass that all wait from `from` on.
    fn passes(bucket: &mut Bucket, from: Duration, tokens: u64, count: u64) -> Vec<Duration> {
        let mut now = from;
        let pass = |_| {
            while let Some(due) = bucket.due(now) {
                assert!(due > now, "who waits is told a time to come");
                now = due;
            }
            bucket.take(tokens);
            now
        };
        (0..count).map(pass).collect()
    }

    #[test]
    fn requests_pass_at_the_rate_to_the_nanosecond() {
        // A third of a second is no whole number of nanoseconds: the error must not add up.
        let at = passes(&mut bucket(3, Duration::ZERO), Duration::ZERO, 1, 3_000_001);
        assert_eq!((at[0], at[3], at[3_000_000]), (Duration::ZERO, SECOND, SECOND * 1_000_000));
        assert_eq!(at[1], Duration::from_nanos(333_333_334));
    }

    #[test]
    fn what_was_saved_passes_at_once_and_no_more_of_it() {
        for idle in [SECOND * 2, SECOND * 1000] {
            let at = passes(&mut bucket(100, SECOND * 2), idle, 1, 202);
            assert_eq!((at[0], at[200]), (idle, idle), "those of two seconds, and one");
            assert_eq!(at[201], idle + SECOND / 100);
        }
    }

    #[test]
    fn what_is_larger_than_all_that_is_saved_passes_and_is_owed() {
        let at = passes(&mut bucket(1 << 20, SECOND), SECOND * 5, 32 << 20, 3);
        assert_eq!(at, [5, 36, 68].map(|seconds| SECOND * seconds));
    }

    #[test]
    fn no_span_has_more_than_its_tokens_the_saved_ones_and_one_request() {
        for (rate, burst, tokens) in [(7, SECOND, 1), (1000, SECOND / 100, 13), (u64::MAX, SECOND, u64::MAX)] {
            let at = passes(&mut bucket(rate, burst), SECOND * 9, tokens, 300);
            for (first, begin) in at.iter().enumerate() {
                for (more, end) in at[first..].iter().enumerate() {
                    let passed = (more as u128 + 1) * u128::from(tokens) * PARTS as u128;
                    let span = (*end - *begin + burst).as_nanos();
                    let most = span * u128::from(rate) + u128::from(tokens) * PARTS as u128;
                    assert!(passed <= most, "{passed} of {most} with {rate} {burst:?} {tokens}");
                }
            }
        }
    }

    #[test]
    fn a_new_rate_counts_for_what_is_owed() {
        let mut bucket = bucket(10, SECOND);
        bucket.take(100);
        assert_eq!(bucket.due(SECOND), Some(SECOND * 10), "a request of 100 at ten a second");
        bucket.set(SECOND * 2, NonZeroU64::new(80), SECOND);
        assert_eq!(bucket.due(SECOND * 2), Some(SECOND * 3), "80 are still owed");
        bucket.set(SECOND * 2, None, SECOND);
        assert_eq!(bucket.due(SECOND * 2), None);
        bucket.set(SECOND * 100, NonZeroU64::new(1), SECOND);
        assert_eq!(bucket.due(SECOND * 100), None, "what was owed before is forgotten, and nothing was saved");
        bucket.take(1);
        assert_eq!(bucket.due(SECOND * 100), Some(SECOND * 101));
    }

    #[test]
    fn a_smaller_burst_keeps_less_of_what_was_saved() {
        let mut bucket = bucket(100, SECOND * 10);
        bucket.set(SECOND * 50, NonZeroU64::new(100), SECOND);
        assert_eq!(passes(&mut bucket, SECOND * 50, 1, 102)[100..], [SECOND * 50, SECOND * 50 + SECOND / 100]);
    }
}
