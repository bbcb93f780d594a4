//! The mode parameters of a target's logical unit.

use crate::groups::IoClass;
use crate::scsi::Modes;
use futures_util::lock::MutexGuard;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of [`SharedModes::summary`].
const WRITES_THROUGH: u32 = 1;
const IS_PROTECTED: u32 = 2;
const DESCRIPTOR_SENSE: u32 = 4;
/// The first bit of the IO CLASS of group 0, and the number of bits of each group.
const IO_CLASSES: u32 = 8;
const IO_CLASS_BITS: u32 = 4;

/// Mode parameters that all sessions of a unit share (mode page policy *shared*, SPC-5 §7.5.2). They last until the unit
/// is reset or the server ends.
#[derive(Debug)]
pub(crate) struct SharedModes {
    all: Mutex<Modes>,
    /// What commands need of them, so that commands do not lock them.
    summary: AtomicU32,
    /// Held during a MODE SELECT.
    selecting: futures_util::lock::Mutex<()>,
}

impl Default for SharedModes {
    fn default() -> Self {
        let modes = Modes::default();
        let summary = AtomicU32::new(summary_of(&modes));
        Self { all: Mutex::new(modes), summary, selecting: futures_util::lock::Mutex::new(()) }
    }
}

fn summary_of(modes: &Modes) -> u32 {
    let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
    let flags = bit(!modes.write_cache, WRITES_THROUGH)
        | bit(modes.write_protect, IS_PROTECTED)
        | bit(modes.descriptor_sense, DESCRIPTOR_SENSE);
    let codes = modes.hints.iter().map(|hints| hints.io_class().map_or(0, IoClass::code));
    (0..)
        .zip(codes)
        .fold(flags, |summary, (group, code)| summary | u32::from(code) << (IO_CLASSES + IO_CLASS_BITS * group))
}

impl SharedModes {
    /// Waits until no other MODE SELECT is executed, and excludes others.
    pub(crate) async fn select(&self) -> MutexGuard<'_, ()> {
        self.selecting.lock().await
    }

    pub(crate) fn get(&self) -> Modes {
        *self.all.lock()
    }

    pub(crate) fn set(&self, modes: Modes) {
        let mut all = self.all.lock();
        *all = modes;
        self.summary.store(summary_of(&modes), Ordering::SeqCst);
    }

    fn has(&self, bit: u32) -> bool {
        self.summary.load(Ordering::SeqCst) & bit != 0
    }

    /// Whether written data must be durable when their command ends (WCE is 0).
    pub(crate) fn writes_through(&self) -> bool {
        self.has(WRITES_THROUGH)
    }

    /// Whether commands that write are refused (SWP is 1).
    pub(crate) fn is_protected(&self) -> bool {
        self.has(IS_PROTECTED)
    }

    /// Whether sense data have descriptor format (D_SENSE is 1).
    pub(crate) fn has_descriptor_sense(&self) -> bool {
        self.has(DESCRIPTOR_SENSE)
    }

    /// The IO CLASS that an initiator gave to a group.
    pub(crate) fn io_class(&self, group: u8) -> Option<IoClass> {
        let shift = IO_CLASSES + IO_CLASS_BITS * u32::from(group);
        let code = self.summary.load(Ordering::SeqCst).checked_shr(shift)? & ((1 << IO_CLASS_BITS) - 1);
        IoClass::of(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::{Action, Facts, mode_select, mode_sense};

    #[test]
    fn commands_see_what_was_set() {
        let shared = SharedModes::default();
        assert!(!shared.writes_through() && !shared.is_protected() && !shared.has_descriptor_sense());
        let facts = Facts::example();
        let mut list = mode_sense(&facts, &shared.get(), false, true, 0, 0x0a, 5).unwrap();
        // Byte 6 of a descriptor is IO CLASS and other fields; the first one begins at byte 20.
        (list[20 + 6], list[20 + 16 * 5 + 6]) = (0x10, 0x50);
        let select = Action::ModeSelect { long: false, save: false, len: list.len() as u32 };
        let modes = mode_select(&facts, &shared.get(), select, &list).unwrap();
        shared.set(Modes { write_cache: false, write_protect: true, descriptor_sense: true, ..modes });
        assert!(shared.writes_through() && shared.is_protected() && shared.has_descriptor_sense());
        let classes: Vec<_> = (0..=255).filter_map(|group| Some((group, shared.io_class(group)?))).collect();
        assert_eq!(classes, [(0, IoClass::Metadata), (5, IoClass::Large)]);
        shared.set(Modes::default());
        assert!(!shared.writes_through() && shared.io_class(0).is_none());
    }
}
