//! Reads a run from its first entry to its last, in large pieces.

use super::io::Io;
use super::run::Run;
use crate::hash::hash_of;
use crate::{Error, PAGE_BYTES};
use bytes::Bytes;
use nitro_port::Device;

/// A position in a run, with the piece of the run around it.
pub(super) struct Cursor<'a> {
    run: &'a Run,
    seed: u64,
    partition_bits: u32,
    piece_pages: u32,
    piece: Bytes,
    /// The number of pages before the piece.
    first: u32,
    /// The page in the piece, the number of its entries, and the index of the current one.
    page: usize,
    entries: usize,
    index: usize,
    hash: Option<u64>,
    lost: Option<Lost>,
    last: u64,
}

/// Entries that cannot be read.
pub(super) struct Lost {
    pub(super) entries: usize,
    /// The hash of the last entry before them.
    pub(super) after: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first entry; [`fill`](Self::fill) must be called first.
    pub(super) fn new(run: &'a Run, seed: u64, partition_bits: u32, piece_pages: u32) -> Self {
        Self {
            run,
            seed,
            partition_bits,
            piece_pages,
            piece: Bytes::new(),
            first: 0,
            page: 0,
            entries: 0,
            index: 0,
            hash: None,
            lost: None,
            last: 0,
        }
    }

    /// The hash of the current entry; `None` at the end, or if [`fill`](Self::fill) must be called.
    pub(super) fn hash(&self) -> Option<u64> {
        self.hash
    }

    fn page(&self) -> &[u8] {
        &self.piece[self.page * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// The current entry; its value is `None` if its key was removed.
    pub(super) fn entry(&self) -> (&[u8], Option<&[u8]>) {
        let (key, value) = self.run.layout.entry(self.page(), self.index);
        (key, (!self.run.layout.is_removal(self.page(), self.index)).then_some(value))
    }

    /// The entries before the current one (or before the end) that cannot be read.
    pub(super) fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// Moves to the next entry; returns false at the end of a page, where [`fill`](Self::fill) must be called.
    pub(super) fn advance(&mut self) -> bool {
        self.last = self.hash.unwrap_or(self.last);
        self.lost = None;
        self.index += 1;
        if self.index < self.entries {
            self.read_hash();
            return true;
        }
        self.page += 1;
        self.hash = None;
        false
    }

    fn read_hash(&mut self) {
        let (key, _) = self.entry();
        let hash = (hash_of(key, self.seed) >> 64) as u64;
        self.hash = Some(hash << self.partition_bits);
    }

    /// Moves to the first entry of the next page that is not damaged, or to the end; returns whether it read from the
    /// flash.
    pub(super) async fn fill<D: Device>(&mut self, io: &Io<D>) -> Result<bool, Error> {
        let mut read = false;
        while self.hash.is_none() {
            let number = self.first + self.page as u32;
            if number >= self.run.pages() {
                break;
            }
            if self.page * PAGE_BYTES >= self.piece.len() {
                let pages = self.run.adjacent(number).min(self.piece_pages);
                self.piece = io.read_piece(self.run.offset(number), pages).await?;
                (self.first, self.page) = (number, 0);
                read = true;
            }
            let entries = self.run.entries_of(number);
            if self.run.is_whole(self.page(), number, self.seed) {
                (self.entries, self.index) = (entries, 0);
                self.read_hash();
            } else {
                io.note_corrupt(self.run.offset(number));
                let lost = self.lost.get_or_insert(Lost { entries: 0, after: self.last });
                lost.entries += entries;
                self.page += 1;
            }
        }
        Ok(read)
    }
}
