//! The LogStore (SILT §4.1): entries in order of arrival, found through a cuckoo table in RAM.
//!
//! A log has one segment. Entries gather in a chunk of a few pages in RAM, which is written when it is full, or earlier
//! at a sync. Pages are never rewritten, so that durable entries stay durable. Entries are read from RAM until their
//! chunk is on the flash.

use super::cuckoo::{Cuckoo, Partial, Slots};
use super::io::Io;
use super::page::Layout;
use super::space::Segment;
use crate::{Error, PAGE_BYTES, Value};
use bytes::Bytes;
use event_listener::{Event, listener};
use nitro_port::Device;
use nitro_port::buf::BufMut;
use parking_lot::Mutex;
use std::collections::VecDeque;

/// The maximum number of full chunks that wait to be written; beyond it, inserts wait.
const QUEUE_MAX: usize = 2;
/// If this number of entries may have the same key, they are read, and older entries of the key are removed from the
/// table.
const CROWD: usize = 3;

/// A log.
pub(super) struct Log {
    pub(super) id: u64,
    pub(super) segment: Segment,
    layout: Layout,
    /// The maximum number of pages.
    pages_max: u32,
    chunk_pages: u32,
    state: Mutex<State>,
    written: Event,
}

struct State {
    /// `None` before the first entry.
    table: Option<Cuckoo>,
    /// The pages that are being filled, and the number of the first of them; `None` if they have no entry.
    chunk: Option<BufMut>,
    chunk_first: u32,
    /// The page that is being filled, and the number of its entries.
    page: u32,
    used: usize,
    queue: VecDeque<Chunk>,
    entries: u64,
    removals: u64,
    /// Whether no more entries are accepted.
    closed: bool,
}

/// Pages that wait to be written, or are being written.
struct Chunk {
    first: u32,
    pages: Bytes,
    writing: bool,
}

/// The content of an entry: a value, or `None` for a removal.
pub(super) type Entry = Option<Value>;

/// The places in a log that may hold a key.
#[derive(Default)]
pub(super) struct Places {
    /// Slots on the flash, newest first.
    pub(super) probes: Slots,
    /// The entry in RAM, which is older than those of all `probes`.
    pub(super) last: Option<Entry>,
}

/// The result of appending an entry.
pub(super) enum Append {
    /// The entry is in the log.
    Done {
        /// Whether a chunk was filled and has to be written.
        filled: bool,
        /// Slots on the flash that may hold older entries of the key.
        crowd: Slots,
    },
    /// Chunks have to be written first.
    Wait,
    /// The log accepts no more entries.
    Full,
}

impl Log {
    /// An empty log.
    pub(super) fn new(id: u64, segment: Segment, layout: Layout, pages_max: u32) -> Self {
        let chunk_pages = chunk_pages(pages_max);
        let state = State {
            table: None,
            chunk: None,
            chunk_first: 0,
            page: 0,
            used: 0,
            queue: VecDeque::new(),
            entries: 0,
            removals: 0,
            closed: false,
        };
        Self { id, segment, layout, pages_max, chunk_pages, state: Mutex::new(state), written: Event::new() }
    }

    /// The number of entries that fit into the log.
    fn capacity(&self) -> u32 {
        self.pages_max * self.layout.capacity() as u32
    }

    /// The offset of a page.
    pub(super) fn offset(&self, page: u32) -> u64 {
        self.segment.offset() + u64::from(page) * PAGE_BYTES as u64
    }

    /// The page of a slot, and its index in the page.
    pub(super) fn place(&self, slot: u32) -> (u32, usize) {
        let capacity = self.layout.capacity() as u32;
        (slot / capacity, (slot % capacity) as usize)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of entries, and how many of them are removals.
    pub(super) fn entries(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.entries, state.removals)
    }

    /// The number of pages that were begun.
    pub(super) fn pages(&self) -> u32 {
        let state = self.state.lock();
        state.page + u32::from(state.used > 0)
    }

    /// RAM in use, in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        let state = self.state.lock();
        let chunks =
            state.chunk.as_ref().map_or(0, |c| c.len()) + state.queue.iter().map(|c| c.pages.len()).sum::<usize>();
        state.table.as_ref().map_or(0, Cuckoo::ram_bytes) + chunks as u64
    }

    /// RAM of a log while it is filled, in bytes.
    pub(super) fn ram_bytes_for(entries: u64, pages_max: u32) -> u64 {
        let chunks = (1 + QUEUE_MAX as u64) * u64::from(chunk_pages(pages_max)) * PAGE_BYTES as u64;
        Cuckoo::ram_bytes_for(entries) + chunks
    }

    /// The content of a page, if it is in RAM.
    fn resident<'a>(&self, state: &'a State, page: u32) -> Option<&'a [u8]> {
        let bytes = |first: u32| (page - first) as usize * PAGE_BYTES..(page - first + 1) as usize * PAGE_BYTES;
        match &state.chunk {
            Some(chunk) if page >= state.chunk_first => Some(&chunk[bytes(state.chunk_first)]),
            _ => state.queue.iter().rev().find(|c| c.first <= page).and_then(|c| c.pages.get(bytes(c.first))),
        }
    }

    /// The places that may hold `key`.
    pub(super) fn find(&self, key: &[u8], partial: Partial) -> Places {
        let state = &*self.state.lock();
        let mut places = Places::default();
        let Some(table) = &state.table else { return places };
        for slot in table.find(partial) {
            let (number, index) = self.place(slot);
            let Some(page) = self.resident(state, number) else {
                places.probes.push(slot);
                continue;
            };
            let (found, value) = self.layout.entry(page, index);
            if found == key {
                places.last = Some((!self.layout.is_removal(page, index)).then(|| Value::from_slice(value)));
                break;
            }
        }
        places
    }

    /// Appends an entry for `key`; without a value, its removal.
    pub(super) fn append(&self, key: &[u8], value: Option<&[u8]>, partial: Partial, seed: u64) -> Append {
        let state = &mut *self.state.lock();
        if state.closed || state.page >= self.pages_max {
            return Append::Full;
        }
        let capacity = self.layout.capacity() as u32;
        let slot = state.page * capacity + state.used as u32;
        if state.chunk.is_none() && state.queue.len() >= QUEUE_MAX {
            return Append::Wait;
        }
        let mut table = state.table.take().unwrap_or_else(|| Cuckoo::new(self.capacity()));
        let crowd = self.enter(state, &mut table, key, partial, slot);
        state.table = Some(table);
        let Some(crowd) = crowd else { return Append::Full };

        if state.chunk.is_none() {
            let pages = self.chunk_pages.min(self.pages_max - state.page);
            state.chunk = Some(BufMut::zeroed(pages as usize * PAGE_BYTES));
            state.chunk_first = state.page;
        }
        let at = (state.page - state.chunk_first) as usize * PAGE_BYTES;
        if let Some(chunk) = &mut state.chunk {
            self.layout.put(&mut chunk[at..at + PAGE_BYTES], state.used, key, value);
        }
        state.used += 1;
        state.entries += 1;
        state.removals += u64::from(value.is_none());
        let mut filled = false;
        if state.used == self.layout.capacity() {
            self.finish_page(state, seed);
            let end = state.chunk_first + state.chunk.as_ref().map_or(0, |c| c.len() / PAGE_BYTES) as u32;
            filled = state.page == end;
            if filled {
                self.queue_chunk(state);
            }
        }
        Append::Done { filled, crowd }
    }

    /// Inserts a slot into the table; returns the slots that may hold older entries of the key, or `None` if there is
    /// no room.
    fn enter(&self, state: &State, table: &mut Cuckoo, key: &[u8], partial: Partial, slot: u32) -> Option<Slots> {
        let mut crowd = Slots::new();
        for old in table.find(partial) {
            let (number, index) = self.place(old);
            match self.resident(state, number) {
                Some(page) if self.layout.entry(page, index).0 == key => {
                    table.replace(partial, old, slot);
                    return Some(Slots::new());
                }
                Some(_) => {}
                None => crowd.push(old),
            }
        }
        if table.is_full() {
            return None;
        }
        table.insert(partial, slot);
        if crowd.len() < CROWD {
            crowd.clear();
        }
        Some(crowd)
    }

    /// Removes a slot that holds an older entry of a key from the table.
    fn forget(&self, partial: Partial, slot: u32) {
        if let Some(table) = &mut self.state.lock().table {
            table.remove(partial, slot);
        }
    }

    fn finish_page(&self, state: &mut State, seed: u64) {
        let at = (state.page - state.chunk_first) as usize * PAGE_BYTES;
        if let Some(chunk) = &mut state.chunk {
            let page = &mut chunk[at..at + PAGE_BYTES];
            self.layout.finish(page, state.used, self.id, self.offset(state.page), seed);
        }
        state.page += 1;
        state.used = 0;
    }

    fn queue_chunk(&self, state: &mut State) {
        if let Some(mut chunk) = state.chunk.take() {
            chunk.truncate((state.page - state.chunk_first) as usize * PAGE_BYTES);
            state.queue.push_back(Chunk { first: state.chunk_first, pages: chunk.freeze(), writing: false });
        }
    }

    /// Queues the entries that are in RAM only, even if a page is not full.
    pub(super) fn queue_rest(&self, seed: u64) {
        let state = &mut *self.state.lock();
        if state.used > 0 {
            self.finish_page(state, seed);
        }
        self.queue_chunk(state);
    }

    /// Closes the log: it accepts no more entries.
    pub(super) fn close(&self, seed: u64) {
        self.state.lock().closed = true;
        self.queue_rest(seed);
    }

    /// Writes all queued chunks. Returns when they are on the flash, even if another task wrote them.
    pub(super) async fn write_out<D: Device>(&self, io: &Io<D>) -> Result<(), Error> {
        loop {
            listener!(self.written => written);
            let next = {
                let state = &mut *self.state.lock();
                if state.queue.is_empty() {
                    return Ok(());
                }
                state.queue.iter_mut().find(|c| !c.writing).map(|chunk| {
                    chunk.writing = true;
                    (chunk.first, chunk.pages.clone())
                })
            };
            let Some((first, pages)) = next else {
                written.await;
                io.check()?;
                continue;
            };
            let mut writing = Writing { log: self, first, done: false };
            io.write(self.offset(first), pages).await?;
            writing.done = true;
        }
    }

    /// Removes those of `slots`, on the flash, from the table that hold older entries of `key`.
    pub(super) async fn thin<D: Device>(
        &self,
        io: &Io<D>,
        key: &[u8],
        partial: Partial,
        slots: &[u32],
    ) -> Result<(), Error> {
        for slot in slots {
            let (page, index) = self.place(*slot);
            let offset = self.offset(page);
            let bytes = io.read_page(offset).await?;
            let is_there = self.layout.check(&bytes, self.id, offset, io.seed).is_some_and(|count| index < count);
            if is_there && self.layout.entry(&bytes, index).0 == key {
                self.forget(partial, *slot);
            }
        }
        Ok(())
    }

    /// Restores the state of a log that was found on the flash; `entries` are newest first, each with its slot. The log
    /// continues at page `page`.
    pub(super) fn restore(&self, entries: impl Iterator<Item = (Partial, u32)>, counts: (u64, u64), page: u32) {
        let mut table = Cuckoo::new(self.capacity());
        entries.for_each(|(partial, slot)| table.insert(partial, slot));
        let state = &mut *self.state.lock();
        state.table = (counts.0 > 0).then_some(table);
        (state.entries, state.removals) = counts;
        state.page = page;
    }
}

fn chunk_pages(pages_max: u32) -> u32 {
    (pages_max / 32).clamp(1, 8)
}

/// A chunk that is being written. If the write fails or is cancelled, another task may write it.
struct Writing<'a> {
    log: &'a Log,
    first: u32,
    done: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        {
            let queue = &mut self.log.state.lock().queue;
            if let Some(at) = queue.iter().position(|c| c.first == self.first) {
                queue[at].writing = false;
                if self.done {
                    drop(queue.remove(at));
                }
            }
        }
        self.log.written.notify(usize::MAX);
    }
}

/// Reads the first `pages` pages of a log in pieces and passes them to `each`, in order: the number, the content, and
/// the number of entries if the page is valid.
pub(super) async fn scan<D: Device>(
    log: &Log,
    io: &Io<D>,
    pages: u32,
    piece_pages: u32,
    mut each: impl FnMut(u32, &[u8], Option<usize>),
) -> Result<(), Error> {
    let mut first = 0;
    while first < pages {
        let count = piece_pages.min(pages - first);
        let piece = io.read_piece(log.offset(first), count).await?;
        for (page, number) in piece.chunks_exact(PAGE_BYTES).zip(first..) {
            each(number, page, log.layout.check(page, log.id, log.offset(number), io.seed));
        }
        first += count;
    }
    Ok(())
}
