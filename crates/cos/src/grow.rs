//! Growth of a store in use. Journals, summary vector and index are made anew, in the sizes that the larger store needs, in the
//! first of the new slots; the superblock then leads to them:
//!
//! 1. The device gets its size, and the storage of the new metadata.
//! 2. An index is made there. What is sealed from now on is entered in both indexes; then the chunks of all other containers are.
//! 3. With the journal locked, a commit makes everything durable by the old journal. Then index, summary vector and a checkpoint
//!    become durable in their new places.
//! 4. The superblock is written. Until that is durable, a start finds the old metadata, which nothing has touched; the containers
//!    are the same for both.
//! 5. Only now may contents be in the new slots, and in those that the old metadata took.
//!
//! No collection runs meanwhile: it would free containers, whose contents it moves.

use crate::access::OF_THE_STORE;
use crate::format::BLOCK_BYTES;
use crate::format::container::ContainerChunk;
use crate::format::record::SlotState;
use crate::format::superblock::Superblock;
use crate::journal::Journal;
use crate::lane::DATA_RESERVE;
use crate::ledger::Bounds;
use crate::plan::{Layout, Plan};
use crate::slots::Slot;
use crate::summary::Summary;
use crate::tables::{Tables, create_index};
use crate::{Error, Progress, Store};
use nitro_index::FlashIndex;
use nitro_port::buf::BufMut;
use nitro_port::yielding::yield_now;
use nitro_port::{Device, DeviceError, ErrorKind, Work, WorkKind};
use std::pin::pin;
use std::sync::Arc;

/// A store grows by itself when less than one of so many parts of it is free.
const PARTS: u32 = 8;
/// What is left of the way to the maximum is gone in one step if it is not longer than one of so many parts of it.
const LAST_STEP: u64 = 4;
/// How often is waited for look-ups in the old index, before its place is left unused until the next start.
const WAITS_MAX: usize = 10_000;

impl<D: Device> Store<D> {
    /// Bytes of the device that the store uses.
    pub fn size_bytes(&self) -> u64 {
        self.tables().layout.end
    }

    /// Bytes of the device up to which the store grows by itself; `None`: it does not.
    pub fn grows_to(&self) -> Option<u64> {
        Some(self.tables.superblock().grows_to).filter(|bytes| *bytes > 0)
    }

    /// Sets how large the store becomes by itself; `None`: it does not grow. Durable when this returns.
    ///
    /// # Errors
    /// An error of the device.
    pub async fn set_grows_to(&self, bytes: Option<u64>) -> Result<(), Error> {
        self.check_poison()?;
        self.change_superblock(|superblock| superblock.grows_to = bytes.unwrap_or(0)).await
    }

    /// Changes the superblock, durably.
    pub(crate) async fn change_superblock(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
        let _alone = self.resizing.lock().await;
        let mut superblock = self.tables.superblock();
        change(&mut superblock);
        superblock.write(&*self.device).await.map_err(|error| self.poison(&error))?;
        self.tables.set_superblock(superblock);
        Ok(())
    }

    /// Makes the store `size_bytes` large, as far as whole containers fit, while it is in use. Its device must be that large, or
    /// must be able to become it. After a failure the store has its former size.
    ///
    /// # Errors
    /// [`Error::Setting`] if that is not larger than it is, or the device cannot be that large; [`Error::NoRoom`] if there is no
    /// storage for the metadata of the larger store; [`Error::Busy`] after [`stop_collection`](Self::stop_collection); or an
    /// error of the device.
    pub async fn grow(&self, size_bytes: u64, progress: &Progress<'_>) -> Result<(), Error> {
        let growing = pin!(self.grow_now(size_bytes, progress));
        let growing = pin!(Work::pressing_if(|| self.room.is_pressing(), growing));
        Work::new(WorkKind::Collection, OF_THE_STORE).scope(growing).await
    }

    async fn grow_now(&self, size_bytes: u64, progress: &Progress<'_>) -> Result<(), Error> {
        let _alone = self.collecting.lock().await;
        self.check_poison()?;
        self.room.begin_growth();
        let old = self.tables.superblock();
        let refuse = |why| Err(Error::Setting { what: "size of the store in bytes", given: size_bytes, why });
        let grown = Plan::grown(&old, size_bytes)?;
        let Some((grown, layout)) = grown.and_then(|grown| Some((grown, Layout::of(&grown)?))) else {
            return refuse(format!("the store has {} bytes already, and would not have more room", self.size_bytes()));
        };
        match self.device.extend(layout.end).await {
            Err(error) if error.kind == ErrorKind::Unsupported => {
                return refuse(format!("its device has {} bytes", self.device.geometry().size_bytes));
            }
            extended => extended.map_err(no_room)?,
        }
        let metadata = layout.parts()[1].clone();
        let grown = async {
            self.device
                .reserve(metadata.start, metadata.end - metadata.start)
                .await
                .or_else(supported)
                .map_err(no_room)?;
            self.grow_to(grown, layout, progress).await
        };
        let grown = grown.await;
        if grown.is_err() {
            self.tables.prepare(None);
            if self.poisoned().is_none() {
                // If the device cannot discard, it merely keeps unused bytes.
                let _ = self.device.discard(metadata.start, metadata.end - metadata.start).await;
            }
        }
        grown
    }

    async fn grow_to(&self, grown: Superblock, layout: Layout, progress: &Progress<'_>) -> Result<(), Error> {
        // Begins an epoch of the journal, whose number no other index has had.
        self.checkpoint().await?;
        let epoch = self.journal.lock().await.epoch();
        let index = create_index(&self.device, (&grown, &layout), &self.ssd, epoch).await?;
        let next = Arc::new(Tables { layout, index, summary: Summary::new(grown.summary_bytes) });
        self.tables.prepare(Some(Arc::clone(&next)));
        // A container that is being sealed now may not be entered.
        for lane in &self.lanes {
            drop(lane.lock().await);
        }
        let mut sealed: Vec<(u32, Slot)> = {
            let state = self.state.lock();
            state.slots.iter().filter(|(_, slot)| slot.state == SlotState::Sealed).collect()
        };
        sealed.sort_by_key(|(_, slot)| slot.sequence);
        let count = sealed.len() as u64;
        for ((slot, _), done) in sealed.into_iter().zip(0..) {
            self.room.check_stop()?;
            progress("indexed", done, count);
            match self.read_container(slot).await {
                Ok(chunks) => next.enter_container(slot, &chunks).await?,
                Err(error @ Error::Damaged { .. }) => {
                    tracing::warn!(slot, "a container's metadata cannot be read: {error}");
                }
                Err(error) => return Err(error),
            }
        }
        let old = self.switch(&next, grown).await?;
        let size_bytes = layout.end;
        tracing::info!(size_bytes, "the store has grown");
        self.leave(old.0, &old.1).await;
        Ok(())
    }

    /// Makes the next tables those of the store. Returns the old ones.
    async fn switch(&self, next: &Arc<Tables<D>>, grown: Superblock) -> Result<(Arc<Tables<D>>, Superblock), Error> {
        let _alone = self.resizing.lock().await;
        let old = self.tables.superblock();
        let grown = Superblock { directory: old.directory, grows_to: old.grows_to, ..grown };
        let seed = grown.seed;
        let mut journal = self.journal.lock().await;
        // Containers that this frees are used again: they must be free by the journal that counts until then.
        if !self.commit_to(&mut journal, false).await? {
            self.commit_to(&mut journal, true).await?;
        }
        next.index.sync().await?;
        next.summary.write(&*self.device, next.layout.summary_at, seed).await?;
        if !self.tables.is_next(next) {
            return Err(Error::Busy("the new index of the store could not be written"));
        }
        let mut moved = Journal::new(next.layout.journals_at, grown.journal_bytes, seed, journal.epoch());
        self.commit_to(&mut moved, true).await?;
        grown.write(&*self.device).await.map_err(|error| self.poison(&error))?;
        let tables = self.tables.replace(Arc::clone(next), grown);
        *journal = moved;
        self.ledger.set_bounds(Bounds::of(&grown));
        drop(journal);
        let added = self.state.lock().slots.grow(&grown);
        self.room.freed(added);
        Ok((tables, old))
    }

    /// Gives the place of the old metadata to contents.
    async fn leave(&self, tables: Arc<Tables<D>>, old: &Superblock) {
        let journals_at = tables.layout.journals_at;
        for area in 0..2 {
            // Never found again, even if both copies of the superblock should fail and an older one come back.
            let head = BufMut::zeroed(BLOCK_BYTES).freeze();
            let _ = self.device.write(journals_at + area * old.journal_bytes, head).await;
        }
        let metadata = tables.layout.parts()[1].clone();
        for _ in 0..WAITS_MAX {
            if Arc::strong_count(&tables) == 1 {
                drop(tables);
                let _ = self.device.discard(metadata.start, metadata.end - metadata.start).await;
                if let Some(moved) = old.moved {
                    let mut state = self.state.lock();
                    (moved.first..moved.first + moved.slots).for_each(|slot| state.slots.reuse(slot));
                    drop(state);
                    self.room.freed(moved.slots as usize);
                }
                return;
            }
            yield_now().await;
        }
        tracing::warn!("a look-up in the store's old index takes long; its place is used again after the next start");
    }

    /// The size to which the store should grow now by itself.
    pub(crate) fn wanted_size(&self) -> Option<u64> {
        let superblock = self.tables.superblock();
        let now = self.size_bytes();
        let is_low = {
            let state = self.state.lock();
            state.slots.free().saturating_sub(DATA_RESERVE) < state.slots.count() / PARTS
        };
        if !is_low || superblock.grows_to <= now {
            return None;
        }
        let most = superblock.grows_to;
        let next = now.saturating_mul(2);
        let wanted = if next >= most - most / LAST_STEP { most } else { next };
        Plan::grown(&superblock, wanted).ok().flatten().map(|_| wanted)
    }
}

impl<D: Device> Tables<D> {
    /// Enters the chunks of a container.
    async fn enter_container(&self, slot: u32, chunks: &[ContainerChunk]) -> Result<(), Error> {
        for (number, chunk) in (0..).zip(chunks) {
            self.enter(&chunk.fingerprint, chunk.place(slot, number)).await?;
        }
        Ok(())
    }
}

fn no_room(error: DeviceError) -> Error {
    match error.kind {
        ErrorKind::NoSpace => Error::NoRoom(error),
        _ => error.into(),
    }
}

/// A device that cannot reserve storage gets it when it is written.
fn supported(error: DeviceError) -> Result<(), DeviceError> {
    if error.kind == ErrorKind::Unsupported { Ok(()) } else { Err(error) }
}
