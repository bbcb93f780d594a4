//! Runs: entries in order of hash, in consecutive pages. Hash stores and sorted stores are runs with different
//! structures in RAM.

use super::io::Io;
use super::log::Entry;
use super::page::Layout;
use super::space::{Segment, Space};
use crate::{Error, PAGE_BYTES, Value};
use bytes::Bytes;
use nitro_port::Device;
use nitro_port::buf::BufMut;
use std::sync::Arc;

/// Pages of entries in order of hash.
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) layout: Layout,
    pub(super) segments: Vec<Segment>,
    pub(super) segment_pages: u32,
    pub(super) entries: u64,
}

/// The result of a look-up in a run.
pub(super) enum Look {
    /// The entry of the key.
    Found(Entry),
    /// The key is absent.
    Absent,
    /// The page that may have held the key cannot be read.
    Lost,
}

impl Run {
    /// The number of pages in use.
    pub(super) fn pages(&self) -> u32 {
        self.entries.div_ceil(self.layout.capacity() as u64) as u32
    }

    /// The number of entries of a page.
    pub(super) fn entries_of(&self, page: u32) -> usize {
        let capacity = self.layout.capacity() as u64;
        (self.entries - u64::from(page) * capacity).min(capacity) as usize
    }

    /// The offset of a page.
    pub(super) fn offset(&self, page: u32) -> u64 {
        let (segment, within) = (page / self.segment_pages, page % self.segment_pages);
        self.segments[segment as usize].offset() + u64::from(within) * PAGE_BYTES as u64
    }

    /// The number of pages, from `page` on, that are adjacent on the flash.
    pub(super) fn adjacent(&self, page: u32) -> u32 {
        (self.segment_pages - page % self.segment_pages).min(self.pages() - page)
    }

    /// Whether a page is as it was written.
    pub(super) fn is_whole(&self, bytes: &[u8], page: u32, seed: u64) -> bool {
        self.layout.check(bytes, self.id, self.offset(page), seed) == Some(self.entries_of(page))
    }

    /// Reads a page and searches `count` of its entries, from entry `first` of the run on, for `key`.
    pub(super) async fn look<D: Device>(
        &self,
        io: &Io<D>,
        key: &[u8],
        first: u64,
        count: usize,
    ) -> Result<Look, Error> {
        let capacity = self.layout.capacity() as u64;
        let (page, index) = ((first / capacity) as u32, (first % capacity) as usize);
        let offset = self.offset(page);
        let bytes = io.read_page(offset).await?;
        if !self.is_whole(&bytes, page, io.seed) {
            io.note_corrupt(offset);
            return Ok(Look::Lost);
        }
        let end = (index + count).min(self.entries_of(page));
        let Some(at) = self.layout.position(&bytes, index..end, key) else { return Ok(Look::Absent) };
        let (_, value) = self.layout.entry(&bytes, at);
        Ok(Look::Found((!self.layout.is_removal(&bytes, at)).then(|| Value::from_slice(value))))
    }

    /// Retires its segments: they become free when the look-ups in progress have ended.
    pub(super) fn retire(&self) {
        self.segments.iter().for_each(Segment::retire);
    }
}

/// Writes a run, in pieces of several pages.
pub(super) struct RunWriter<'a, D> {
    io: &'a Io<D>,
    space: &'a Arc<Space>,
    run: Run,
    piece: Option<BufMut>,
    piece_pages: u32,
    /// The number of the first page of the piece.
    first: u32,
    /// The page that is being filled, and the number of its entries.
    page: u32,
    used: usize,
    /// Whether a write is in progress.
    writing: bool,
}

impl<D> Drop for RunWriter<'_, D> {
    fn drop(&mut self) {
        if self.writing {
            // The future was dropped, but the device may still write: the segments must not be reused.
            std::mem::take(&mut self.run.segments).into_iter().for_each(std::mem::forget);
        }
    }
}

impl<'a, D: Device> RunWriter<'a, D> {
    pub(super) fn new(
        io: &'a Io<D>,
        space: &'a Arc<Space>,
        id: u64,
        layout: Layout,
        segment_pages: u32,
        piece_pages: u32,
    ) -> Self {
        let run = Run { id, layout, segments: Vec::new(), segment_pages, entries: 0 };
        Self { io, space, run, piece: None, piece_pages, first: 0, page: 0, used: 0, writing: false }
    }

    /// Makes room for an entry. `held`: the number of entries in the index.
    pub(super) async fn make_room(&mut self, held: u64) -> Result<(), Error> {
        if self.piece.is_some() {
            return Ok(());
        }
        if self.page.is_multiple_of(self.run.segment_pages) {
            self.run.segments.push(self.space.take(held).await?);
        }
        let left = self.run.segment_pages - self.page % self.run.segment_pages;
        let pages = left.min(self.piece_pages);
        self.piece = Some(BufMut::zeroed(pages as usize * PAGE_BYTES));
        self.first = self.page;
        Ok(())
    }

    /// Adds an entry, for which there must be room; returns whether the piece is full.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> bool {
        let Some(piece) = &mut self.piece else { return false };
        let at = (self.page - self.first) as usize * PAGE_BYTES;
        self.run.layout.put(&mut piece[at..at + PAGE_BYTES], self.used, key, value);
        self.used += 1;
        self.run.entries += 1;
        self.used == self.run.layout.capacity() && self.finish_page()
    }

    fn finish_page(&mut self) -> bool {
        let Some(piece) = &mut self.piece else { return false };
        let at = (self.page - self.first) as usize * PAGE_BYTES;
        let run = &self.run;
        run.layout.finish(&mut piece[at..at + PAGE_BYTES], self.used, run.id, run.offset(self.page), self.io.seed);
        self.page += 1;
        self.used = 0;
        (self.page - self.first) as usize * PAGE_BYTES == piece.len()
    }

    /// Writes the piece; returns its length in bytes.
    pub(super) async fn write_piece(&mut self) -> Result<u64, Error> {
        let Some(mut piece) = self.piece.take() else { return Ok(0) };
        piece.truncate((self.page - self.first) as usize * PAGE_BYTES);
        let len = piece.len() as u64;
        if len > 0 {
            let pages: Bytes = piece.freeze();
            self.writing = true;
            let written = self.io.write(self.run.offset(self.first), pages).await;
            self.writing = false;
            written?;
        }
        Ok(len)
    }

    /// Writes the rest and returns the run, which is not flushed; `None` if it has no entries.
    pub(super) async fn finish(mut self) -> Result<Option<Run>, Error> {
        if self.used > 0 {
            self.finish_page();
        }
        self.write_piece().await?;
        let segments = std::mem::take(&mut self.run.segments);
        let Run { id, layout, segment_pages, entries, .. } = self.run;
        let run = Run { id, layout, segments, segment_pages, entries };
        Ok((run.entries > 0).then_some(run))
    }
}
