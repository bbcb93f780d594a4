//! The part of a restart that runs while requests are served: clean entries are restored from the WEUs' headers, the
//! newest first.

use super::READS_AT_ONCE;
use super::replay::State;
use crate::cache::Cache;
use crate::format::FormatError;
use crate::format::journal::Record;
use crate::format::weu::{Entry, Head};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use nitro_cache::weu::layout::HEAD_BYTES;
use nitro_port::buf::BufMut;
use nitro_port::{Clock, Device, DeviceError};
use nitro_units::{Generation, WeuId};
use std::time::Duration;

/// How often a failed read is tried.
const ATTEMPTS: u32 = 3;
/// How often records are committed for which no request waits.
const COMMIT_EVERY: Duration = Duration::from_secs(1);
/// How often doubtful extents are settled, while there are any.
const SETTLE_EVERY: Duration = Duration::from_millis(200);

/// A WEU's header.
pub(crate) struct Header {
    pub(crate) head: Head,
    pub(crate) entries: Vec<Entry>,
}

/// The content found at the position of a WEU's head.
enum HeadRead {
    Valid(Head),
    /// None of this cache.
    Nothing,
    /// The head could not be read, or only in part: it may be readable at the next restart.
    Unreadable,
}

/// Reads from the device; again, where that fails.
async fn read<F: Device, C: Clock>(cache: &Cache<F, C>, offset: u64, len: usize) -> Option<Bytes> {
    for _ in 1..ATTEMPTS {
        if let Ok(bytes) = cache.flash.read(offset, len).await {
            return Some(bytes);
        }
    }
    cache.flash.read(offset, len).await.ok()
}

/// Bytes of the block that a head stands in.
fn head_block<F: Device, C: Clock>(cache: &Cache<F, C>) -> usize {
    cache.flash.block_bytes().max(HEAD_BYTES) as usize
}

/// Reads a slot's head.
async fn read_head<F: Device, C: Clock>(cache: &Cache<F, C>, weu: WeuId) -> HeadRead {
    let Some(bytes) = read(cache, cache.slot_offset(weu), head_block(cache)).await else { return HeadRead::Unreadable };
    match Head::decode(&bytes, cache.superblock.weu_bytes) {
        Ok(head) if head.weu == weu && head.epoch == cache.superblock.epoch => HeadRead::Valid(head),
        Err(FormatError::Checksum { .. }) => HeadRead::Unreadable,
        _ => HeadRead::Nothing,
    }
}

async fn read_table<F: Device, C: Clock>(cache: &Cache<F, C>, head: &Head) -> Option<Vec<Entry>> {
    let bytes = read_part(cache, head.weu, head.table_offset, head.table_bytes()).await?;
    head.decode_table(&bytes, cache.superblock.weu_bytes).ok()
}

/// Reads bytes of a WEU, aligned to the device's blocks or not.
pub(super) async fn read_part<F: Device, C: Clock>(
    cache: &Cache<F, C>,
    weu: WeuId,
    within: u32,
    len: usize,
) -> Option<Bytes> {
    let block = cache.block_bytes();
    let from = within / block * block;
    let end = (within + len as u32).next_multiple_of(block);
    let bytes = read(cache, cache.slot_offset(weu) + u64::from(from), (end - from) as usize).await?;
    let skipped = (within - from) as usize;
    (bytes.len() >= skipped + len).then(|| bytes.slice(skipped..skipped + len))
}

impl<F: Device, C: Clock> Cache<F, C> {
    /// Reads a slot's whole header.
    pub(crate) async fn read_header(&self, weu: WeuId) -> Option<Header> {
        let HeadRead::Valid(head) = read_head(self, weu).await else { return None };
        let entries = read_table(self, &head).await?;
        Some(Header { head, entries })
    }

    /// Whether clean entries are still being restored after a restart.
    pub fn is_restoring(&self) -> bool {
        self.manager.lock().is_restoring()
    }

    /// Restores clean entries after a restart; then writes the journal every second if there are new records. Ends
    /// after [`close`](Self::close).
    pub async fn journal_worker(&self) {
        let recovery = self.recovery.lock().take();
        if let Some(state) = recovery {
            self.load(&state).await;
        }
        let mut confirmed = self.metrics.commits.get();
        let mut committed = self.clock.now();
        while !self.queue.is_closed() {
            self.clock.sleep(if self.doubts.has_news() { SETTLE_EVERY } else { COMMIT_EVERY }).await;
            if self.settle_doubts().await.is_err() {
                return; // the committer has said why
            }
            if self.clock.now().saturating_sub(committed) < COMMIT_EVERY {
                continue;
            }
            committed = self.clock.now();
            self.queue.flush_if_quiet();
            self.watch_spending();
            let news = self.news();
            if self.has_unretired() {
                self.ledger.ask();
            }
            // The last batch counts at a restart only if its data is there. One without data behind it says that it was:
            // what rots after that is known to be lost, rather than taken for what had never arrived.
            let unconfirmed = self.metrics.commits.get() != confirmed;
            if unconfirmed && news == 0 {
                let version = self.manager.lock().version() + 1;
                self.ledger.push(Record::NextVersion { version }).await;
            }
            if (unconfirmed || news > 0) && self.is_journaling() && self.commit().await.is_err() {
                return; // the committer has said why
            }
            if news == 0 {
                confirmed = self.metrics.commits.get();
            }
        }
    }

    /// Number of records that are not in the journal yet.
    fn news(&self) -> usize {
        let manager = self.manager.lock();
        self.ledger.pending() + self.volumes.changed_count() + manager.forgotten_count() + manager.untold_count()
    }

    async fn load(&self, state: &State) {
        let unread: Vec<WeuId> = {
            let manager = self.manager.lock();
            (0..self.superblock.weu_count).map(WeuId).filter(|weu| manager.is_unread(*weu)).collect()
        };
        // What a lost device held is gone, and its slots are not used again.
        let (gone, unread): (Vec<_>, Vec<_>) = unread.into_iter().partition(|weu| self.flash.is_lost(*weu));
        gone.into_iter().for_each(|weu| self.manager.lock().restore_free(weu, last_generation(state, weu, None)));
        let heads = unread.into_iter().map(async |weu| (weu, read_head(self, weu).await));
        let mut heads = stream::iter(heads).buffer_unordered(READS_AT_ONCE);
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        while let Some((weu, head)) = heads.next().await {
            match head {
                HeadRead::Valid(head) if head.generation > state.evicted(weu) => found.push(head),
                HeadRead::Valid(head) => self.manager.lock().restore_free(weu, last_generation(state, weu, Some(head))),
                HeadRead::Nothing => self.manager.lock().restore_free(weu, last_generation(state, weu, None)),
                HeadRead::Unreadable => unreadable.push((weu, last_generation(state, weu, None))),
            }
        }
        drop(heads);
        self.room.notify(usize::MAX);
        found.sort_by_key(|head| std::cmp::Reverse(head.version));
        let tables = found.into_iter().map(async |head| {
            let entries = read_table(self, &head).await;
            (head, entries)
        });
        let mut tables = stream::iter(tables).buffered(READS_AT_ONCE);
        let mut recorded = state.recorded.clone();
        while let Some((head, entries)) = tables.next().await {
            match entries {
                Some(entries) => {
                    self.restore(state, &Header { head, entries });
                    recorded.extend(Some(head).filter(|head| head.duplicates > 0));
                }
                None => unreadable.push((head.weu, last_generation(state, head.weu, Some(head)))),
            }
        }
        drop(tables);
        if !unreadable.is_empty() {
            self.destroy_headers(&unreadable).await;
        }
        self.load_duplicates(state, recorded).await;
        self.manager.lock().end_restore();
        self.room.notify(usize::MAX);
    }

    /// Overwrites headers that could not be read, and frees their slots. If such a header became readable at a later
    /// restart, it would restore extents that were overwritten since. Also, as long as its filling is unknown, the next
    /// filling of its slot might get the same generation. Extents that are written to meanwhile are noted, so the
    /// restore must not have ended.
    async fn destroy_headers(&self, slots: &[(WeuId, Generation)]) {
        for attempt in 1..=ATTEMPTS {
            match self.try_destroy_headers(slots).await {
                Ok(()) => break,
                Err(error) if attempt == ATTEMPTS => {
                    self.fail(&format!("headers of write-evict units can neither be read nor overwritten: {error}"));
                    return;
                }
                Err(_) => {}
            }
        }
        tracing::info!(
            "{} write-evict units cannot be read, or were not written whole: they are forgotten",
            slots.len()
        );
        let mut manager = self.manager.lock();
        slots.iter().for_each(|(weu, last)| manager.restore_free(*weu, *last));
    }

    async fn try_destroy_headers(&self, slots: &[(WeuId, Generation)]) -> Result<(), DeviceError> {
        for (weu, _) in slots.iter().filter(|(weu, _)| !self.flash.is_lost(*weu)) {
            match self.flash.write(self.slot_offset(*weu), BufMut::zeroed(head_block(self)).freeze()).await {
                // Of a device that is lost, no header is read again.
                Err(error) if self.flash.give_up_device_of(*weu, &error) => {}
                written => written?,
            }
        }
        self.flash.flush().await
    }
}

/// The last filling of a slot to which anything may refer.
fn last_generation(state: &State, weu: WeuId, head: Option<Head>) -> Generation {
    let journaled = state.unsealed.keys().filter(|(w, _)| *w == weu).map(|(_, generation)| *generation);
    journaled.chain([state.evicted(weu)]).chain(head.map(|head| head.generation)).max().unwrap_or_default()
}
