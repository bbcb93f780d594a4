//! The clock of leases.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Time since the boot, with the time for which the machine slept (`CLOCK_BOOTTIME`). Nobody can set it, so a change of the date, by
/// hand or by NTP, neither prolongs nor ends a lease.
#[must_use]
pub fn boot_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}
