//! Making a cache larger or smaller while it serves.

use crate::cache::Cache;
use crate::error::Error;
use crate::format::journal::{EVICTED_BYTES, Record};
use crate::format::superblock::{SUPERBLOCK_BYTES, Superblock};
use crate::settings::EngineSettings;
use crate::volume::transitions::{Fact, Flag, Passage};
use crate::writeback::Room;
use futures_util::stream::{self, StreamExt};
use nitro_cache::weu::layout::HEAD_BYTES;
use nitro_cache::{Evicted, SettingError, Settings};
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device};
use nitro_units::{Generation, WeuId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Writes of the device at once.
const WRITES_AT_ONCE: usize = 32;
/// Shrinking is cancelled when destage makes no progress for this time.
const STUCK: Duration = Duration::from_secs(60);
/// How often to check whether an obstacle has gone.
const WAIT: Duration = Duration::from_millis(20);

/// A resize in progress.
struct Resizing<'a>(&'a AtomicBool);

impl Drop for Resizing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Changes the size of the part that holds contents to `cache_bytes`, rounded down to write-evict units; the change
    /// is durable when this returns. When a cache shrinks, dirty data beyond its new end are destaged, and the contents
    /// there are dropped. A call during another resize waits for its end.
    ///
    /// # Errors
    /// [`Error::Setting`] with the nearest size that fits the device and the journal, whose size is fixed when a cache
    /// is created; [`Error::Flash`] or [`Error::Poisoned`]: the device fails; the size is then the old one, perhaps
    /// with less content.
    pub async fn resize(&self, cache_bytes: u64) -> Result<(), Error> {
        let manager = Settings { cache_bytes, ..self.settings.manager };
        while self.resizing.swap(true, Ordering::SeqCst) {
            self.clock.sleep(WAIT).await;
        }
        let _resizing = Resizing(&self.resizing);
        self.check_size(&manager)?;
        let (old, new) = (self.weu_count(), manager.weu_count());
        while self.is_restoring() {
            self.clock.sleep(WAIT).await;
        }
        let mut passage = Passage::default();
        if new > old {
            self.wipe(old, new).await?;
            passage.is_durable(Fact::SlotsEmpty);
            self.write_size(new).await?;
            passage.is_durable(Fact::Superblock);
            passage.change(Flag::SlotsUsed, || {
                self.manager.lock().grow(new, self.last_beyond.get().copied().unwrap_or_default());
                self.grow_starts(new);
                self.weu_count.store(new, Ordering::SeqCst);
            });
        } else if new < old {
            let emptied = self.empty_beyond(new).await;
            if let Err(error) = emptied {
                self.manager.lock().grow(old, Generation::default());
                self.weu_limit.store(old, Ordering::SeqCst);
                return Err(error);
            }
            self.commit().await?;
            passage.is_durable(Fact::SlotsEmpty);
            self.write_size(new).await?;
            passage.is_durable(Fact::Superblock);
            passage.change(Flag::SlotsGone, || self.weu_count.store(new, Ordering::SeqCst));
        }
        self.weu_limit.store(new, Ordering::SeqCst);
        self.room.notify(usize::MAX);
        Ok(())
    }

    fn check_size(&self, wanted: &Settings) -> Result<(), Error> {
        wanted.check()?;
        Self::check_units(wanted, self.flash.devices())?;
        let weu_bytes = u64::from(self.superblock.weu_bytes);
        let others = self.superblock.data_offset + SUPERBLOCK_BYTES as u64;
        let room = self.flash.geometry().size_bytes.saturating_sub(others) / weu_bytes;
        let half = self.superblock.journal.len / 2;
        let fits = |weus: u64| {
            let manager = Settings { cache_bytes: weus * weu_bytes, ..*wanted };
            EngineSettings { manager, ..self.settings }.journal_counts().budget(half).is_some()
        };
        let weus = u64::from(wanted.weu_count());
        let (mut fit, mut beyond) = (u64::from(self.weu_count()).min(room), room + 1);
        while fit + 1 < beyond {
            let middle = fit.midpoint(beyond);
            if fits(middle) { fit = middle } else { beyond = middle }
        }
        if weus <= fit {
            return Ok(());
        }
        let reason =
            if weus > room { "the device has no room for it" } else { "the journal was made for a smaller cache" };
        let (name, value, nearest) = ("cache_size", wanted.cache_bytes, fit * weu_bytes);
        Err(SettingError { name, value, reason: reason.to_owned(), nearest }.into())
    }

    /// Makes sure that new slots contain nothing that could be mistaken for a header.
    async fn wipe(&self, from: u32, to: u32) -> Result<(), Error> {
        let block = self.block_bytes().max(HEAD_BYTES) as usize;
        let zeroes = BufMut::zeroed(block).freeze();
        let slots = (from..to).map(WeuId).filter(|weu| !self.flash.is_lost(*weu));
        let writes = slots.map(async |weu| (weu, self.flash.write(self.slot_offset(weu), zeroes.clone()).await));
        let mut writes = stream::iter(writes).buffer_unordered(WRITES_AT_ONCE);
        while let Some((weu, written)) = writes.next().await {
            match written {
                Err(error) if self.flash.give_up_device_of(weu, &error) => {}
                written => written.map_err(Error::Flash)?,
            }
        }
        drop(writes);
        self.flash.flush().await.map_err(Error::Flash)
    }

    async fn write_size(&self, weu_count: u32) -> Result<(), Error> {
        self.write_superblock(&Superblock { weu_count, ..self.superblock }).await
    }

    /// Empties the slots from `limit` on.
    async fn empty_beyond(&self, limit: u32) -> Result<(), Error> {
        self.weu_limit.store(limit, Ordering::SeqCst);
        self.manager.lock().begin_shrink(limit);
        let (mut occupied, mut moved) = (usize::MAX, self.clock.now());
        loop {
            while let Some(weu) = self.ledger.tell(EVICTED_BYTES as u64, |room| self.evict_beyond(limit, room)).await {
                self.empty(weu);
            }
            let left = self.manager.lock().occupied_beyond(limit);
            if left == 0 {
                return Ok(());
            }
            // What fills just now is closed; what is dirty there is destaged.
            self.seal_wanted.notify(usize::MAX);
            self.destage_wanted.notify(usize::MAX);
            self.commit().await?;
            // What cannot be read, or has no origin that takes it, stays dirty.
            if left < occupied {
                (occupied, moved) = (left, self.clock.now());
            } else if self.clock.now().saturating_sub(moved) >= STUCK {
                let reason = std::sync::Arc::from("dirty extents beyond the new end cannot be destaged");
                return Err(Error::Poisoned { reason });
            }
            self.clock.sleep(WAIT).await;
        }
    }

    /// Begins to evict a WEU from `limit` on; `None`: none can be evicted now.
    fn evict_beyond(&self, limit: u32, room: &Room<'_>) -> Option<WeuId> {
        let mut manager = self.manager.lock();
        let Evicted { weu, generation } = manager.begin_eviction_beyond(limit)?;
        room.push(Record::Evicted { weu, generation });
        Some(weu)
    }

    /// Whether a cache that is becoming smaller waits for destage.
    pub(crate) fn is_shrinking(&self) -> bool {
        self.weu_limit.load(Ordering::SeqCst) < self.weu_count()
    }
}
