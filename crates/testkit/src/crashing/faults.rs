//! The faults of a device that has power.

/// The faults of a device. A number N means "one in N operations"; 0 means never.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// Reads fail.
    pub read_errors: u64,
    /// Writes fail. A failed write may be done in part.
    pub write_errors: u64,
    /// Flushes fail and have no effect.
    pub flush_errors: u64,
    /// Writes fail because no space is left, and have no effect.
    pub no_space: u64,
    /// The device is full: every write fails without effect until this is reset.
    pub full: bool,
    /// A request takes up to minutes, on a device that takes time; it is executed by the time it returns.
    pub hangs: u64,
    /// Bits of up to this many sectors flip while the device is at rest. The test harness applies this fault with
    /// [`Medium::rot_at_rest`](super::Medium::rot_at_rest).
    pub rot_at_rest: u64,
    /// A bit of a sector flips on the way to the medium.
    pub rot: u64,
    /// A write goes to the wrong offset.
    pub misdirected: u64,
    /// A power failure may tear a sector: its front is new, its back is old ([`Loss::Torn`](super::Loss::Torn)).
    pub torn_sectors: bool,
    /// Flushes return success without effect.
    pub lying_flush: bool,
}

impl Faults {
    /// Whether the content of the device may differ from what was written and flushed.
    #[must_use]
    pub fn corrupt(&self) -> bool {
        self.rot > 0 || self.misdirected > 0 || self.lying_flush
    }
}
