//! What requests to a device cost, learned from the times that it was busy with them.

use std::time::Duration;

/// The time that a request takes, and that each of its bytes adds, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// The time of a request without its bytes.
    pub request_ns: f64,
    /// The time of a byte.
    pub byte_ns: f64,
}

impl Costs {
    /// What is assumed of a device of which nothing is known: a gap of 256 KiB costs as much as a request if it has to
    /// seek, one of 16 KiB otherwise.
    #[must_use]
    pub const fn assumed(rotational: bool) -> Self {
        let gap_bytes = if rotational { 256 << 10 } else { 16 << 10 };
        let request_ns = if rotational { 8e6 } else { 1e5 };
        Self { request_ns, byte_ns: request_ns / gap_bytes as f64 }
    }

    /// The cost of a request of that many bytes, in nanoseconds.
    #[must_use]
    pub fn of(&self, bytes: u64) -> f64 {
        self.request_ns + self.byte_ns * bytes as f64
    }
}

/// A period in which a device always had a request ends with this many of them, if it does not end before.
const REQUESTS_MAX: u32 = 32;
/// What an earlier period still counts when another one has ended.
const KEPT: f64 = 0.99;
/// A period that lasts this many times as long as expected counts as one that lasts as long as that: once, a disk spins
/// up, or a network stalls.
const OUTLIER: f64 = 8.0;
/// The least time that a request takes, in nanoseconds: clocks are coarse, and those of simulations may stand still.
const REQUEST_NS_MIN: f64 = 1000.0;
/// The weight of what is assumed of requests and bytes, in periods of one request.
const ASSUMED_WEIGHT: f64 = 0.5;
/// The same where all kinds of requests are seen, and what is assumed is only to hold until then.
const ASSUMED_AT_FIRST: f64 = 0.02;
/// The same of the assumption that a period takes no time of its own.
const FIRST_WEIGHT: f64 = 5.0;

/// Learns the costs of a device by least squares: the time of a period in which the device was busy, over the requests
/// and the bytes that ended in it. Requests that wait for one another share the time, so that queues count once. Older
/// periods count less and less.
///
/// A period has a time of its own, too: an array of disks begins several requests at the same time, and each further one
/// costs less than the first. If a device serves one request after the other, this time is nothing.
///
/// What the periods do not tell, for instance the cost of a byte if all requests are equally long, follows the
/// proportions that are assumed.
#[derive(Debug, Clone)]
pub struct CostEstimator {
    assumed: Costs,
    assumed_weight: f64,
    sums: Sums,
    under_way: u32,
    period: Period,
}

/// The current period.
#[derive(Debug, Clone, Copy, Default)]
struct Period {
    begun: Duration,
    /// Requests, and those that only continued others.
    requests: u32,
    continuing: u32,
    bytes: u64,
    /// A request failed or was given up: the time says nothing.
    is_spoilt: bool,
}

/// Sums of products over all periods: 1, `n` requests, `y` bytes, `d` nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    one: f64,
    n: f64,
    y: f64,
    d: f64,
    nn: f64,
    ny: f64,
    yy: f64,
    nd: f64,
    yd: f64,
}

impl Period {
    const fn all(&self) -> u32 {
        self.requests + self.continuing
    }
}

impl CostEstimator {
    /// Nothing is known of the device, except whether it has to seek.
    #[must_use]
    pub fn new(rotational: bool) -> Self {
        let assumed = Costs::assumed(rotational);
        let (sums, period) = (Sums::default(), Period::default());
        Self { assumed, assumed_weight: ASSUMED_WEIGHT, sums, under_way: 0, period }
    }

    /// As [`new`](Self::new), for requests of all kinds: what they tell outweighs what is assumed, even if it is little.
    #[must_use]
    pub fn of_all_requests(rotational: bool) -> Self {
        Self { assumed_weight: ASSUMED_AT_FIRST, ..Self::new(rotational) }
    }

    /// Notes that a request begins.
    pub fn begin(&mut self, now: Duration) {
        if self.under_way == 0 {
            self.period = Period { begun: now, ..Period::default() };
        }
        self.under_way += 1;
    }

    /// Notes that a request has ended; `None`: it failed, or nobody waits for it any more.
    pub fn end(&mut self, now: Duration, bytes: Option<u64>) {
        self.end_of(now, bytes, false);
    }

    /// As [`end`](Self::end), for a request that began where an earlier one of the same stream ended: it costs its bytes
    /// alone.
    pub fn end_continuing(&mut self, now: Duration, bytes: Option<u64>) {
        self.end_of(now, bytes, true);
    }

    fn end_of(&mut self, now: Duration, bytes: Option<u64>, is_continuing: bool) {
        self.under_way = self.under_way.saturating_sub(1);
        match bytes {
            Some(bytes) => {
                self.period.requests += u32::from(!is_continuing);
                self.period.continuing += u32::from(is_continuing);
                self.period.bytes = self.period.bytes.saturating_add(bytes);
            }
            None => self.period.is_spoilt = true,
        }
        if self.under_way == 0 || self.period.all() >= REQUESTS_MAX {
            let period = std::mem::replace(&mut self.period, Period { begun: now, ..Period::default() });
            if !period.is_spoilt {
                self.learn(&period, now.saturating_sub(period.begun));
            }
        }
    }

    fn learn(&mut self, period: &Period, lasted: Duration) {
        if period.all() == 0 {
            return;
        }
        let all = f64::from(period.all());
        let (n, y) = (f64::from(period.requests), period.bytes as f64);
        let (period_ns, Costs { request_ns, byte_ns }) = self.fitted();
        let expected = period_ns + request_ns * n + byte_ns * y;
        let d = (lasted.as_nanos() as f64).min(OUTLIER * expected).max(REQUEST_NS_MIN * all);
        // The time of a period of many requests varies more.
        let weight = 1.0 / all;
        let s = &mut self.sums;
        let sums = [
            (&mut s.one, 1.0),
            (&mut s.n, n),
            (&mut s.y, y),
            (&mut s.d, d),
            (&mut s.nn, n * n),
            (&mut s.ny, n * y),
            (&mut s.yy, y * y),
            (&mut s.nd, n * d),
            (&mut s.yd, y * d),
        ];
        for (sum, product) in sums {
            *sum = *sum * KEPT + weight * product;
        }
    }

    /// The costs as far as they are known.
    #[must_use]
    pub fn costs(&self) -> Costs {
        self.fitted().1
    }

    /// The time of a period, in nanoseconds, and the costs of what ends in it.
    fn fitted(&self) -> (f64, Costs) {
        let Sums { one, n, y, d, nn, ny, yy, nd, yd } = self.sums;
        let Costs { request_ns: a, byte_ns: b } = self.assumed;
        // The multiple of what is assumed that fits best.
        let fit = a * a * nn + 2.0 * a * b * ny + b * b * yy;
        let scale = if fit > 0.0 { (a * nd + b * yd) / fit } else { 1.0 };
        let (a, b, gap) = (a * scale, b * scale, a / b);
        // Bytes in gaps, so that all are of the same order.
        let (y, ny, yy, yd, b) = (y / gap, ny / gap, yy / gap / gap, yd / gap, b * gap);
        let one = one + FIRST_WEIGHT;
        let weight = self.assumed_weight;
        let (nn, yy) = (nn + weight, yy + weight);
        let (nd, yd) = (nd + weight * a, yd + weight * b);
        // Without the time of a period.
        let (nn, ny, yy) = (nn - n * n / one, ny - n * y / one, yy - y * y / one);
        let (nd, yd) = (nd - n * d / one, yd - y * d / one);
        let determinant = nn * yy - ny * ny;
        let (request_ns, byte_ns) = ((nd * yy - yd * ny) / determinant, (yd * nn - nd * ny) / determinant);
        let (request_ns, byte_ns) = match (request_ns > 0.0, byte_ns > 0.0) {
            (true, true) => (request_ns, byte_ns),
            (true, false) => (nd / nn, 0.0),
            _ => (0.0, yd / yy),
        };
        let period_ns = ((d - n * request_ns - y * byte_ns) / one).max(0.0);
        (period_ns, Costs { request_ns, byte_ns: byte_ns / gap })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    /// Requests of several sizes at a device of these costs that serves one at a time, `at_once` of which wait together.
    fn learned(costs: &Costs, at_once: u32, sizes: impl Fn(u64) -> u64) -> Costs {
        let mut estimator = CostEstimator::new(true);
        let (mut now, mut number) = (Duration::ZERO, 0);
        for _ in 0..400 {
            now += Duration::from_millis(3);
            (0..at_once).for_each(|_| estimator.begin(now));
            for _ in 0..at_once {
                number += 1;
                let bytes = sizes(number);
                now += Duration::from_nanos(costs.of(bytes) as u64);
                estimator.end(now, Some(bytes));
            }
        }
        estimator.costs()
    }

    fn near(found: f64, expected: f64) -> bool {
        // The time that a busy period takes anyway is told apart from its requests by periods of different lengths alone.
        (found / expected - 1.0).abs() < 0.2
    }

    #[test]
    fn costs_are_learned_and_queues_do_not_count_twice() {
        let disk = Costs { request_ns: 12e6, byte_ns: 1e9 / 150e6 };
        for at_once in [1, 7, 50] {
            let found = learned(&disk, at_once, |n| (((n * 0x9E37_79B9) >> 9) % 13 + 1) * 64 * KIB);
            // Of many that wait together, requests and bytes grow alike: what one costs is known, but not what of it is which.
            let usual = 7 * 64 * KIB;
            assert!(near(found.of(usual), disk.of(usual)), "{at_once} at once: {found:?}");
            let is_right = near(found.request_ns, disk.request_ns) && near(found.byte_ns, disk.byte_ns);
            assert!(is_right || at_once > 1, "{found:?}");
        }
    }

    #[test]
    fn what_continues_costs_its_bytes_and_what_interrupts_it_the_seeks() {
        let disk = Costs { request_ns: 9e6, byte_ns: 7.0 };
        let mut estimator = CostEstimator::new(true);
        let mut now = Duration::ZERO;
        for n in 0..2000_u64 {
            estimator.begin(now);
            let is_read = n % 5 == 0;
            let bytes = if is_read { 8 * KIB } else { (n % 3 + 1) * 256 * KIB };
            now += Duration::from_nanos(if is_read { disk.of(bytes) } else { disk.byte_ns * bytes as f64 } as u64);
            match is_read {
                true => estimator.end(now, Some(bytes)),
                false => estimator.end_continuing(now, Some(bytes)),
            }
        }
        let found = estimator.costs();
        assert!(near(found.request_ns, disk.request_ns) && near(found.byte_ns, disk.byte_ns), "{found:?}");
    }

    #[test]
    fn what_a_device_does_at_the_same_time_costs_less() {
        let mut estimator = CostEstimator::new(true);
        let mut now = Duration::ZERO;
        for n in 1..400_u64 {
            let (requests, bytes) = (n % 7 + 1, n * 5 % 9 * 64 * KIB);
            (0..requests).for_each(|_| estimator.begin(now));
            // The first one takes 7 ms, each further one 1 ms more, and a byte 10 ns.
            now += Duration::from_micros(7000 + requests * 1000 + requests * bytes / 100);
            (0..requests).for_each(|_| estimator.end(now, Some(bytes)));
        }
        let Costs { request_ns, byte_ns } = estimator.costs();
        assert!((0.9e6..1.6e6).contains(&request_ns) && near(byte_ns, 10.0), "{request_ns} {byte_ns}");
    }

    #[test]
    fn what_requests_of_one_length_do_not_tell_follows_what_is_assumed() {
        let ratio = |costs: Costs| costs.request_ns / costs.byte_ns;
        let fast = learned(&Costs { request_ns: 1e5, byte_ns: 1.0 }, 1, |_| 64 * KIB);
        assert!(near(ratio(fast), ratio(Costs::assumed(true))), "{fast:?}");
        assert!(near(fast.of(64 * KIB), 1e5 + 65_536.0), "{fast:?}");
        assert_eq!(CostEstimator::new(false).costs(), Costs::assumed(false));
    }

    #[test]
    fn a_stall_and_failures_change_little() {
        let mut estimator = CostEstimator::new(false);
        let mut now = Duration::ZERO;
        let mut serve = |estimator: &mut CostEstimator, micros, bytes| {
            estimator.begin(now);
            now += Duration::from_micros(micros);
            estimator.end(now, bytes);
        };
        for n in 1..200 {
            serve(&mut estimator, 100 + n % 8, Some((n % 8) * 10 * KIB));
        }
        let before = estimator.costs();
        serve(&mut estimator, 10_000_000, None);
        assert_eq!(estimator.costs(), before);
        serve(&mut estimator, 10_000_000, Some(8 * KIB));
        let after = estimator.costs();
        assert!(after.of(8 * KIB) < 1.2 * before.of(8 * KIB), "{before:?} {after:?}");
    }
}
