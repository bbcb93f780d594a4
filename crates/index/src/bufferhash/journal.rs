//! The journal: the content of the buffers at the time of [`sync`](crate::FlashIndex::sync).
//!
//! It has two halves. A *generation* begins with the whole content of the buffers, in one half; later batches add new
//! entries. When a half is full, the next generation begins in the other one; until that is durable, the older
//! generation is valid.
//!
//! An entry of the journal is out of date once its super table has an incarnation whose sequence number is at least the
//! one in the entry's page: that incarnation was sealed later and holds everything that was in the buffer.

use super::buffer::Entry;
use super::epoch::Epoch;
use super::page::{Header, Writer, entries_per_page};
use super::plan::Plan;
use super::table::NONE;
use super::{BufferHash, add};
use crate::{Error, PAGE_BYTES};
use nitro_port::Device;
use nitro_port::buf::BufMut;

/// The number of pages in a write.
const CHUNK_PAGES: usize = 64;

/// The lower bits of a generation, below those of the epoch.
const GENERATION_BITS: u32 = 30;

/// The position in the journal.
#[derive(Debug)]
pub(super) struct Journal {
    half: usize,
    /// The newest generation of this epoch, complete or not.
    generation: u64,
    /// The number of durable pages of the generation.
    used: u32,
    /// Whether entries may be added to the generation.
    is_open: bool,
}

impl Journal {
    /// A journal whose newest complete generation is in `half`: the next generation begins in the other half.
    /// Generations of different epochs have different numbers.
    pub(super) fn new(half: usize, epoch: Epoch) -> Self {
        Self { half, generation: u64::from(epoch.number) << GENERATION_BITS, used: 0, is_open: false }
    }
}

/// The pages that one call of `sync` writes.
struct Batch<'a> {
    plan: &'a Plan,
    half: usize,
    generation: u64,
    epoch: u32,
    durable: u64,
    durable_pages: u32,
    /// The number of the page after the last one that was written.
    page: u32,
    chunk: BufMut,
    /// The entries of the page that is being filled.
    entries: Vec<u8>,
    removed: Vec<bool>,
    /// The next sequence number at the beginning of the page.
    next: u64,
    /// The number of finished pages in the chunk.
    finished: usize,
}

impl<'a> Batch<'a> {
    fn new(plan: &'a Plan, journal: &Journal, durable: u64) -> Self {
        Self {
            plan,
            half: journal.half,
            generation: journal.generation,
            epoch: (journal.generation >> GENERATION_BITS) as u32,
            durable,
            durable_pages: journal.used,
            page: journal.used,
            chunk: BufMut::zeroed(CHUNK_PAGES * PAGE_BYTES),
            entries: Vec::new(),
            removed: Vec::new(),
            next: 0,
            finished: 0,
        }
    }

    /// Begins the entries of a super table whose last sequence number is `newest`; `next` is the index's next sequence
    /// number. Finishes the current page if the table was sealed since the page began: its entries would count as out
    /// of date.
    fn begin_table(&mut self, newest: u64, next: u64) {
        if !self.removed.is_empty() && newest != NONE && newest >= self.next {
            self.finish_page(false);
        }
        if self.removed.is_empty() {
            self.next = next;
        }
    }

    fn push(&mut self, entry: Entry<'_>, next: u64) {
        self.entries.extend_from_slice(entry.bytes);
        self.removed.push(entry.removed);
        if self.removed.len() == entries_per_page(self.plan.shape) {
            self.finish_page(false);
            self.next = next;
        }
    }

    fn finish_page(&mut self, flag: bool) {
        let at = self.finished * PAGE_BYTES;
        if self.chunk.len() < at + PAGE_BYTES {
            // The entries of a super table may exceed a chunk.
            let mut longer = BufMut::zeroed(self.chunk.len() * 2);
            longer[..at].copy_from_slice(&self.chunk[..at]);
            self.chunk = longer;
        }
        let mut writer = Writer::new(&mut self.chunk[at..at + PAGE_BYTES], self.plan.shape);
        for (bytes, removed) in self.entries.chunks(self.plan.shape.entry_bytes()).zip(&self.removed) {
            writer.push(Entry { bytes, removed: *removed });
        }
        let number = self.page + self.finished as u32;
        let header = Header {
            number: self.generation,
            in_journal: true,
            durable: self.durable,
            neighbour: self.next,
            place: number,
            pages: self.durable_pages,
            flag,
            epoch: self.epoch,
        };
        let offset = self.plan.journal_offset(self.half) + u64::from(number) * PAGE_BYTES as u64;
        writer.finish(&header, offset, self.plan.seed);
        self.finished += 1;
        self.entries.clear();
        self.removed.clear();
    }

    fn has_room(&self) -> bool {
        self.page as usize + self.finished < self.plan.journal_pages as usize
    }

    /// Takes the finished pages out; returns their offset, and the chunk.
    fn take_finished(&mut self) -> (u64, BufMut) {
        let chunk = std::mem::replace(&mut self.chunk, BufMut::zeroed(CHUNK_PAGES * PAGE_BYTES));
        let offset = self.plan.journal_offset(self.half) + u64::from(self.page) * PAGE_BYTES as u64;
        self.page += self.finished as u32;
        (offset, chunk)
    }
}

impl<D: Device> BufferHash<D> {
    pub(super) async fn sync_journal(&self) -> Result<(), Error> {
        let mut journal = self.journal.lock().await;
        let mut begin_anew = !journal.is_open || self.pages_of_buffers() > self.plan.journal_pages - journal.used;
        loop {
            if begin_anew {
                // Until the new generation is durable, nothing may be added to the old one.
                *journal =
                    Journal { half: 1 - journal.half, generation: journal.generation + 1, used: 0, is_open: false };
            }
            match self.write_batch(&mut journal, begin_anew).await {
                Ok(true) => return Ok(()),
                // A half is larger than all buffers, so there is room in the second attempt.
                Ok(false) if !begin_anew => begin_anew = true,
                Ok(false) => {
                    journal.half = 1 - journal.half;
                    return Err(Error::Damaged("its journal is too small".to_owned()));
                }
                Err(error) => {
                    // Entries that were marked as durable are not. The other half still has the valid generation.
                    if begin_anew {
                        journal.half = 1 - journal.half;
                    }
                    journal.is_open = false;
                    return Err(error);
                }
            }
        }
    }

    /// The pages for the content of all buffers, and for pages that are not filled.
    fn pages_of_buffers(&self) -> u32 {
        let entries: usize = self.tables.iter().map(|t| t.lock().buffer.len()).sum();
        (entries / entries_per_page(self.plan.shape) + 2 + self.tables.len() / 8) as u32
    }

    /// Writes the new entries of the buffers (with `all`, every entry) and makes them durable. Returns whether there
    /// was room.
    async fn write_batch(&self, journal: &mut Journal, all: bool) -> Result<bool, Error> {
        // The flush comes first: the batch's pages state the sequence number below which incarnations are durable.
        self.flush().await?;
        let durable = self.log.lock().durable;
        let mut batch = Batch::new(&self.plan, journal, durable);
        for at in 0..self.tables.len() {
            self.wait_settled(at, |table| {
                let next = self.log.lock().next();
                batch.begin_table(table.newest, next);
                table.buffer.take_unsynced(all, |entry| batch.push(entry, next));
            })
            .await?;
            if !batch.has_room() {
                return Ok(false);
            }
            if batch.finished >= CHUNK_PAGES {
                self.write_pages(&mut batch).await?;
            }
        }
        if all || !batch.removed.is_empty() || batch.finished > 0 || batch.page > journal.used {
            // Even if it is empty: the flag of a page marks the end of the batch.
            batch.finish_page(true);
            self.write_pages(&mut batch).await?;
        }
        self.device.flush().await?;
        journal.used = batch.page;
        journal.is_open = true;
        Ok(true)
    }

    /// Makes the incarnations that were written durable, if there are new ones.
    async fn flush(&self) -> Result<(), Error> {
        let (complete, durable) = {
            let log = self.log.lock();
            (log.complete(), log.durable)
        };
        if complete > durable {
            self.device.flush().await?;
            self.log.lock().durable = complete;
        }
        Ok(())
    }

    async fn write_pages(&self, batch: &mut Batch<'_>) -> Result<(), Error> {
        let (offset, chunk) = batch.take_finished();
        let bytes = std::mem::take(&mut batch.finished) * PAGE_BYTES;
        self.device.write(offset, chunk.freeze().slice(..bytes)).await?;
        add(&self.tally.written_bytes, bytes as u64);
        Ok(())
    }

    /// Calls `then` for a super table once it has no sealed buffer that is not on the flash.
    async fn wait_settled(&self, at: usize, then: impl FnOnce(&mut super::table::SuperTable)) -> Result<(), Error> {
        loop {
            let settled = self.settled.listen();
            let is_written = {
                let table = &mut *self.tables[at].lock();
                match &mut table.sealed {
                    None => {
                        then(table);
                        return Ok(());
                    }
                    Some(sealed) => std::mem::replace(&mut sealed.is_written, true),
                }
            };
            if is_written { settled.await } else { self.write_sealed(at).await? }
        }
    }
}
