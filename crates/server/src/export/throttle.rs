//! How fast the requests of a volume's clients begin: by the volume's limits, and slower as the room for its writes runs out.

use super::VolumeExport;
use nitro_device::CompioClock;
use nitro_engine::{Slowed, SlowedBy};
use nitro_frontend::limits::{Gate, Left, Rates};
use nitro_frontend::{DiskError, Requester};
use nitro_units::counters;
use std::time::Duration;

counters! {
    /// How clients waited before their requests began.
    pub struct WaitMetrics / WaitCounters {
        /// Requests that waited for the volume's limits, `iops` and `bandwidth`.
        {waits cause limit} limit_waits,
        /// Writes that were slowed because the room for dirty data ran out.
        {waits cause dirty} dirty_waits,
        /// Writes that were slowed because the journal or the write log ran out of room.
        {waits cause journal} journal_waits,
        /// Writes that were slowed because the RAM of data that wait for the SSD ran out.
        {waits cause ram} ram_waits,
        /// Writes that were slowed because the origin is behind its volume as far as it may be.
        {waits cause point} point_waits,
        /// Microseconds for which requests waited for the volume's limits.
        {waited cause limit} limit_waited_us,
        /// Microseconds for which writes were slowed for lack of room for dirty data.
        {waited cause dirty} dirty_waited_us,
        /// Microseconds for which writes were slowed for lack of room in the journal or the write log.
        {waited cause journal} journal_waited_us,
        /// Microseconds for which writes were slowed for lack of RAM.
        {waited cause ram} ram_waited_us,
        /// Microseconds for which writes were slowed because the origin is behind as far as it may be.
        {waited cause point} point_waited_us,
    }
}

/// Why requests wait before they begin.
#[derive(Debug, Clone, Copy)]
enum Cause {
    Limit,
    Room(SlowedBy),
}

impl WaitMetrics {
    fn waited(&self, cause: Cause, time: Duration) {
        if time.is_zero() {
            return;
        }
        let (waits, waited_us) = match cause {
            Cause::Limit => (&self.limit_waits, &self.limit_waited_us),
            Cause::Room(SlowedBy::Dirty) => (&self.dirty_waits, &self.dirty_waited_us),
            Cause::Room(SlowedBy::Journal) => (&self.journal_waits, &self.journal_waited_us),
            Cause::Room(SlowedBy::Ram) => (&self.ram_waits, &self.ram_waited_us),
            Cause::Room(SlowedBy::Point) => (&self.point_waits, &self.point_waited_us),
        };
        waits.add(1);
        waited_us.add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }
}

/// Where requests of a volume wait before they begin. One gate is for all requests; writes wait at the other one, too, so that
/// reads do not wait behind writes that are slowed.
pub struct Throttle {
    limits: Gate<CompioClock>,
    slowing: Gate<CompioClock>,
    metrics: WaitMetrics,
}

impl Throttle {
    /// With these limits.
    pub(super) fn new(rates: Rates) -> Self {
        let limits = Gate::new(CompioClock::new());
        limits.set(rates);
        Self { limits, slowing: Gate::new(CompioClock::new()), metrics: WaitMetrics::default() }
    }

    /// Changes the limits; requests that wait go by the new ones.
    pub fn set(&self, rates: Rates) {
        self.limits.set(rates);
    }

    /// The limits.
    pub fn rates(&self) -> Rates {
        self.limits.rates()
    }

    /// Lets all requests begin, since the volume's clients are asked to leave; or no longer does.
    pub fn set_over(&self, is_over: bool) {
        self.limits.set_over(is_over);
        self.slowing.set_over(is_over);
    }

    /// Requests that wait for the limits, and writes that are slowed.
    pub fn waiting(&self) -> (usize, usize) {
        (self.limits.waiting(), self.slowing.waiting())
    }

    /// How clients have waited.
    pub fn counters(&self) -> WaitCounters {
        self.metrics.snapshot()
    }

    /// Ends the waiting of a client that has gone.
    pub(super) fn leave(&self, client: u64) {
        self.limits.leave(client);
        self.slowing.leave(client);
    }

    /// Whether a request may begin at once, which [`charge`](Self::charge) is to follow.
    pub(super) fn may_begin(&self) -> bool {
        self.limits.may_pass()
    }

    /// Charges a request that began at once.
    pub(super) fn charge(&self, bytes: u64) {
        self.limits.charge(bytes);
    }

    fn slow_to(&self, slowed: Option<Slowed>) {
        let bytes = slowed.map(|slowed| slowed.bytes_per_second);
        self.slowing.set(Rates { bytes, ..Rates::ANY });
    }
}

/// The error of a request whose client has gone. Nobody gets it.
fn left(_: Left) -> DiskError {
    DiskError::Io
}

impl VolumeExport {
    /// Waits until a request for so many bytes may begin.
    pub(super) async fn turn(&self, from: Requester, bytes: u64) -> Result<(), DiskError> {
        if !self.throttle.limits.is_limit() {
            return Ok(());
        }
        // Boxed: the futures of requests to volumes without limits need not have room for it.
        let waited = Box::pin(self.throttle.limits.pass(from.client, bytes, None)).await.map_err(left)?;
        self.throttle.metrics.waited(Cause::Limit, waited);
        Ok(())
    }

    /// The same for a write, which also waits as long as the room for dirty data, the journal and RAM demand.
    pub(super) async fn turn_to_write(&self, from: Requester, bytes: u64) -> Result<(), DiskError> {
        self.turn(from, bytes).await?;
        let slowed = self.volume.slowed(bytes);
        if slowed.is_none() && !self.throttle.slowing.is_limit() {
            return Ok(());
        }
        Box::pin(self.slow(from, bytes, slowed)).await
    }

    async fn slow(&self, from: Requester, bytes: u64, slowed: Option<Slowed>) -> Result<(), DiskError> {
        let throttle = &self.throttle;
        throttle.slow_to(slowed);
        let renew = || throttle.slow_to(self.volume.slowed_now());
        let waited = throttle.slowing.pass(from.client, bytes, Some(&renew)).await.map_err(left)?;
        if let Some(slowed) = slowed {
            throttle.metrics.waited(Cause::Room(slowed.by), waited);
        }
        Ok(())
    }
}
