//! How much the device has to do at a time while others wait: what is queued there cannot be reordered any more.

/// The time after which a request that is next should have been served: enough for a hard disk to choose among some.
const TARGET_NS_ROTATIONAL: f64 = 200e6;
const TARGET_NS: f64 = 4e6;
/// The number of requests after which the depth is adjusted.
const WINDOW: u32 = 16;
/// Requests that take this multiple of the target reduce the depth to that part; others raise it by a part of the target.
const SLOW: f64 = 2.0;
const REDUCED: f64 = 0.8;
const RAISED: f64 = 1.0 / 16.0;
/// The least part of the target.
const LEAST: f64 = 0.25;

/// The depth of a device's queue, as the time that the requests in it cost.
#[derive(Debug)]
pub(crate) struct Depth {
    target_ns: f64,
    allowed_ns: f64,
    count: u32,
    latency_ns: f64,
}

impl Depth {
    pub(crate) const fn new(rotational: bool) -> Self {
        let target_ns = if rotational { TARGET_NS_ROTATIONAL } else { TARGET_NS };
        Self { target_ns, allowed_ns: target_ns, count: 0, latency_ns: 0.0 }
    }

    /// Whether another request may begin, if those under way cost `under_way_ns`.
    pub(crate) fn allows(&self, under_way_ns: f64) -> bool {
        under_way_ns < self.allowed_ns
    }

    /// A request ended after `latency_ns` while others waited: additive increase, multiplicative decrease.
    pub(crate) fn observe(&mut self, latency_ns: f64) {
        self.count += 1;
        self.latency_ns += latency_ns;
        if self.count < WINDOW {
            return;
        }
        let mean = self.latency_ns / f64::from(self.count);
        (self.count, self.latency_ns) = (0, 0.0);
        self.allowed_ns = if mean > SLOW * self.target_ns {
            (self.allowed_ns * REDUCED).max(LEAST * self.target_ns)
        } else {
            (self.allowed_ns + RAISED * self.target_ns).min(self.target_ns)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_device_gets_less_at_a_time_and_a_fast_one_more_again() {
        let mut depth = Depth::new(true);
        assert!(depth.allows(199e6) && !depth.allows(200e6));
        (0..10 * WINDOW).for_each(|_| depth.observe(900e6));
        assert!(depth.allows(49e6) && !depth.allows(51e6), "{depth:?}");
        (0..20 * WINDOW).for_each(|_| depth.observe(20e6));
        assert!(depth.allows(199e6), "{depth:?}");
    }
}
