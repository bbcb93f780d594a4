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

    /// Changes the mode while the volume is served. A change to write-through ends when the origin is up to date; new
    /// writes go to the origin from the beginning of the call on.
    ///
    /// # Errors
    /// [`Error::Origin`] or [`Error::Poisoned`]: the origin cannot be brought up to date; the mode has changed
    /// nevertheless, and dirty data stay dirty. [`Error::Lost`]: dirty content is lost.
    pub async fn set_mode(&self, mode: WriteMode) -> Result<(), Error> {
        self.writes_back.store(mode == WriteMode::WriteBack, Ordering::SeqCst);
        self.cache.shares.set_writes_back(self.options.object, mode == WriteMode::WriteBack);
        match mode {
            WriteMode::WriteBack => Ok(()),
            WriteMode::WriteThrough => self.destage_all().await,
        }
    }

    /// Serves the volume without the cache: destages dirty data, then drops all cached data of the volume. Ends when
    /// this is durable.
    ///
    /// # Errors
    /// As [`set_mode`](Self::set_mode). The volume stays attached, in write-through.
    pub async fn detach(&self) -> Result<(), Error> {
        self.set_mode(WriteMode::WriteThrough).await?;
        self.attached.store(false, Ordering::SeqCst);
        // What was on its way when the flag fell is in the cache after that.
        self.cache.settled().await;
        self.cache.forget_object(self.options.object, self.size_bytes()).await;
        self.forget_all_ram();
        self.cache.commit().await
    }

    /// Makes the volume as large as its origin, whose device has the new size already. If the volume ended within an
    /// extent, the content of that extent changes: then all cached data of the volume are dropped.
    ///
    /// # Errors
    /// [`Error::OutOfRange`]: the origin has become shorter. [`Error::TooLarge`]: it is too large for this cache.
    /// Otherwise as [`detach`](Self::detach).
    pub async fn grow(&self, size_bytes: u64) -> Result<(), Error> {
        let before = self.size_bytes();
        if size_bytes < before {
            return Err(Error::OutOfRange { offset: 0, len: before, size_bytes });
        }
        self.cache.check_origin_size(size_bytes)?;
        self.cache.provide_counters(self.options.object, size_bytes);
        if before.is_multiple_of(self.extent_bytes()) || !self.is_attached() {
            self.size_bytes.store(size_bytes, Ordering::Release);
            return Ok(());
        }
        let mode = self.mode();
        self.detach().await?;
        self.size_bytes.store(size_bytes, Ordering::Release);
        self.attach();
        self.set_mode(mode).await
    }

    /// Undoes [`detach`](Self::detach): the volume is cached again; its cache is empty at first.
    pub fn attach(&self) {
        self.attached.store(true, Ordering::SeqCst);
    }

    /// Whether the volume is cached.
    pub fn is_attached(&self) -> bool {
        self.attached.load(Ordering::SeqCst)
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
