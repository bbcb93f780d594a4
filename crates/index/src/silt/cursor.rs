//! Reading a run from its first entry to its last, in large pieces.

use super::io::Io;
use super::run::Run;
use crate::hash::hash_of;
use crate::{Error, PAGE_BYTES};
use bytes::Bytes;
use nitro_port::Device;

/// An entry, by place in a cursor's piece.
pub(super) struct Cursor<'a> {
    run: &'a Run,
    seed: u64,
    partition_bits: u32,
    piece_pages: u32,
    piece: Bytes,
    /// Pages before the piece.
    first: u32,
    /// The page in the piece; its entries, and which of them is next.
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
    /// Before the first entry; [`fill`](Self::fill) comes first.
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

    /// The hash of the entry at which it stands; `None` at the end, or when it has to be filled.
    pub(super) fn hash(&self) -> Option<u64> {
        self.hash
    }

    fn page(&self) -> &[u8] {
        &self.piece[self.page * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// The entry at which it stands; `None` for the value: its key was removed.
    pub(super) fn entry(&self) -> (&[u8], Option<&[u8]>) {
        let (key, value) = self.run.layout.entry(self.page(), self.index);
        (key, (!self.run.layout.is_removal(self.page(), self.index)).then_some(value))
    }

    /// Entries before this one, or before the end, that cannot be read.
    pub(super) fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// Goes to the next entry; false: if it is to go on, it has to be filled.
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

    /// Goes on to an entry on the next page that is whole, or to the end; true if it read from the flash.
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
