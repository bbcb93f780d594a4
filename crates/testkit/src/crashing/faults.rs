//! How a device misbehaves while it has power.

/// How a device misbehaves. Numbers are "one in so many operations"; 0: never.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// Reads fail.
    pub read_errors: u64,
    /// Writes fail. A failed write may have been done in part.
    pub write_errors: u64,
    /// Flushes fail, and do nothing.
    pub flush_errors: u64,
    /// Writes find no room, and are not done.
    pub no_space: u64,
    /// There is no room: no write is done, until that changes.
    pub full: bool,
    /// An answer takes minutes, on a device that takes time; what was asked for is done by then, sooner or later.
    pub hangs: u64,
    /// Bits of up to so many sectors flip while the device is at rest. Whoever drives the device does that
    /// ([`Medium::rot_at_rest`](super::Medium::rot_at_rest)).
    pub rot_at_rest: u64,
    /// A bit of a sector flips on its way to the medium.
    pub rot: u64,
    /// A write lands elsewhere.
    pub misdirected: u64,
    /// A power failure may cut a sector in two: its front new, its back old ([`Loss::Torn`](super::Loss::Torn)).
    pub torn_sectors: bool,
    /// Flushes return without having done anything.
    pub lying_flush: bool,
}

impl Faults {
    /// Whether what is on the device may be something else than what was written and flushed.
    #[must_use]
    pub fn corrupt(&self) -> bool {
        self.rot > 0 || self.misdirected > 0 || self.lying_flush
    }
}
