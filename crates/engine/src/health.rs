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

/// Failed reads in a row after which a device is not used any more.
const READ_ERRORS_MAX: u32 = 16;
/// Failed writes in a row after which a device is not used any more.
const WRITE_ERRORS_MAX: u32 = 3;

/// What a unit was accessed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Of clean content.
    Write,
}

/// The failed reads and the failed writes in a row of a device.
#[derive(Debug, Default)]
pub(crate) struct ErrorsInARow {
    reads: AtomicU32,
    writes: AtomicU32,
}

impl ErrorsInARow {
    const fn of(&self, access: Access) -> (&AtomicU32, u32) {
        match access {
            Access::Read => (&self.reads, READ_ERRORS_MAX),
            Access::Write => (&self.writes, WRITE_ERRORS_MAX),
        }
    }

    pub(crate) fn succeeded(&self, access: Access) {
        let (errors, _) = self.of(access);
        if errors.load(Ordering::Relaxed) != 0 {
            errors.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether there are so many now that the device should not be used any more.
    pub(crate) fn failed(&self, access: Access) -> bool {
        let (errors, max) = self.of(access);
        errors.fetch_add(1, Ordering::Relaxed) + 1 >= max
    }
}

/// Counts the errors of a cache device, and whether it is still used.
#[derive(Debug, Default)]
pub(crate) struct DeviceHealth {
    given_up: AtomicBool,
    errors: ErrorsInARow,
}

impl DeviceHealth {
    pub(crate) fn is_caching(&self) -> bool {
        !self.given_up.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> Health {
        if self.is_caching() { Health::Caching } else { Health::PassThrough }
    }

    pub(crate) fn succeeded(&self, access: Access) {
        self.errors.succeeded(access);
    }

    pub(crate) fn failed(&self, access: Access, error: &DeviceError) {
        if self.errors.failed(access) {
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
