//! The health of the cache device. In write-through the origin has all data, so a failing cache device becomes
//! pass-through: it is neither read nor written any more, and the volumes are served from their origins.

use nitro_port::DeviceError;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The state of a cache device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// In use.
    Caching,
    /// One of several devices is lost, and the others are in use.
    Degraded,
    /// Not used any more after repeated errors; volumes are served from their origins.
    PassThrough,
    /// Failed while extents were dirty: these are read as far as the device answers; writes in write-back are refused.
    Failed,
}

/// Failed reads in a row after which the device is not used any more.
const READ_ERRORS_MAX: u32 = 16;
/// Failed writes in a row after which the device is not used any more.
const WRITE_ERRORS_MAX: u32 = 3;

/// Counts the errors of a cache device, and whether it is still used.
#[derive(Debug, Default)]
pub(crate) struct DeviceHealth {
    given_up: AtomicBool,
    read_errors: AtomicU32,
    write_errors: AtomicU32,
}

impl DeviceHealth {
    pub(crate) fn is_caching(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> Health {
        if self.is_caching() { Health::Caching } else { Health::PassThrough }
    }

    pub(crate) fn read_ok(&self) {
        if self.read_errors.load(Ordering::Relaxed) != 0 {
            self.read_errors.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn write_ok(&self) {
        self.write_errors.store(0, Ordering::Relaxed);
    }

    pub(crate) fn read_failed(&self, error: &DeviceError) {
        if self.read_errors.fetch_add(1, Ordering::Relaxed) + 1 >= READ_ERRORS_MAX {
            self.give_up(error);
        }
    }

    pub(crate) fn write_failed(&self, error: &DeviceError) {
        if self.write_errors.fetch_add(1, Ordering::Relaxed) + 1 >= WRITE_ERRORS_MAX {
            self.give_up(error);
        }
    }

    /// Does not use the device from the start.
    pub(crate) fn leave_out(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Stops using the device, with one line in the log.
    pub(crate) fn give_up(&self, reason: &dyn std::fmt::Display) {
        if !self.given_up.swap(true, Ordering::Relaxed) {
            tracing::error!("the cache is given up ({reason}): volumes are served by their origins alone from now on");
        }
    }
}
