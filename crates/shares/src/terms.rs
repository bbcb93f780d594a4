//! What somebody may have of a device's time, and how much of it was had: mClock's tags.

/// What somebody may have of a device's time (mClock, §3.1). All are shares of that time; a weight counts in proportion
/// to the others' weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// The share that it gets whatever others want; 0: none.
    pub reservation: f64,
    /// Its weight among those that wait.
    pub weight: f64,
    /// The share that it does not exceed; infinite: none.
    pub limit: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { reservation: 0.0, weight: 1.0, limit: f64::INFINITY }
    }
}

/// What is caught up later if a request could not begin at the earliest time that its limit or its reservation allowed,
/// in nanoseconds.
const BURST_NS: f64 = 50e6;
/// The maximum that requests which did not wait are charged in advance, in nanoseconds of the device.
const DEBT_NS: f64 = 500e6;

/// mClock's tags, in nanoseconds: of time for reservation and limit, of virtual time for the weight.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tags {
    /// From this time on, the reservation is behind.
    pub(crate) reserved: f64,
    /// The virtual time at which the next request starts.
    pub(crate) start: f64,
    /// Before this time, the next request would exceed the limit.
    pub(crate) limit: f64,
}

impl Tags {
    /// Whoever had nothing waiting begins now, without a claim to what it did not use.
    pub(crate) fn wake(&mut self, virtual_ns: f64, now: f64) {
        self.start = self.start.max(virtual_ns);
        self.reserved = self.reserved.max(now - BURST_NS);
    }

    /// Charges a request that begins `now`. `is_reserved`: by the reservation, which counts no other requests, so that
    /// whatever is had by weight comes in addition to it (mClock, §3.2). `is_limited`: the limit applies.
    pub(crate) fn charge(&mut self, terms: &Terms, cost: f64, (virtual_ns, now): (f64, f64), kind: Charge) {
        let most = virtual_ns + DEBT_NS / terms.weight;
        self.start = (self.start + cost / terms.weight).min(most.max(self.start));
        if kind.is_reserved {
            self.reserved = self.reserved.max(now - BURST_NS) + cost / terms.reservation;
        }
        self.limit = match kind.is_limited && terms.limit.is_finite() {
            true => (self.limit.max(now - BURST_NS) + cost / terms.limit).min(now + DEBT_NS / terms.limit),
            false => self.limit.min(now),
        };
    }
}

/// By what a request begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    pub(crate) is_reserved: bool,
    pub(crate) is_limited: bool,
}
