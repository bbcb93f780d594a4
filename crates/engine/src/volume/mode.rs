//! The mode of a volume, and whether it accepts writes.

use super::Volume;
use crate::error::Error;
use nitro_port::{Clock, Device, Origin};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The mode of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// A write is acknowledged when it is in the origin.
    #[default]
    WriteThrough,
    /// A write is acknowledged when the cache has it in RAM; it is durable after the next flush, and written to the
    /// origin later.
    WriteBack,
}

impl fmt::Display for WriteMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteThrough => "write-through",
            Self::WriteBack => "write-back",
        })
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// The present mode.
    pub fn mode(&self) -> WriteMode {
        if self.writes_back.load(Ordering::SeqCst) { WriteMode::WriteBack } else { WriteMode::WriteThrough }
    }

    /// Whether what has been acknowledged survives the end of the process, flushed or not: it is in the write log, or in
    /// an origin that keeps it. Trims, zeroes, and writes for which others leave no room go to the origin in write-back,
    /// too.
    pub fn keeps_writes(&self) -> bool {
        let is_in_origin = || self.origin.keeps_writes() || self.is_origin_durable();
        (self.mode() == WriteMode::WriteThrough || self.cache.is_logged()) && is_in_origin()
    }

    /// Whether requests go through the cache.
    pub(super) fn is_cached(&self) -> bool {
        self.is_attached() && self.cache.device_health.is_caching()
    }

    /// Whether there may be dirty data.
    pub(super) fn may_be_dirty(&self) -> bool {
        self.may_be_dirty.load(Ordering::SeqCst)
    }

    /// Whether there are dirty data now.
    pub(super) fn has_dirty(&self) -> bool {
        self.dirty_extents() > 0
    }

    /// Refuses further writes, because an acknowledged write may be lost.
    pub(super) fn poison(&self, reason: &dyn fmt::Display) -> Error {
        let mut poisoned = self.poisoned.lock();
        let reason = poisoned.get_or_insert_with(|| {
            tracing::error!("a flush failed ({reason}): writes are refused until the volume is opened again");
            self.cache.manager.lock().set_stuck(self.options.object, true);
            self.cache.shares.set_failing(self.options.object, true);
            Arc::from(format!("a flush failed: {reason}"))
        });
        Error::Poisoned { reason: reason.clone() }
    }

    /// Why writes are refused, if they are.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.poisoned.lock().clone()
    }
}
