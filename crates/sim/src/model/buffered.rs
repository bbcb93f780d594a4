//! A buffer in front of a cache of separate extents, as the one that write-evict units have: extents wait in it before
//! they are written to the SSD, and those that are overwritten meanwhile never are.

use super::staged::Staged;
use super::{Hit, Model, Totals};
use crate::Error;
use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::Missed;
use nitro_model::Nanos;
use nitro_units::{ClassId, ExtentKey};

/// A cache behind a buffer.
pub(super) struct Buffered<M> {
    cache: M,
    staged: Staged,
    now: Nanos,
}

impl<M: Model> Buffered<M> {
    pub(super) fn new(cache: M, settings: &Settings) -> Self {
        Self { cache, staged: Staged::new(settings), now: Nanos::ZERO }
    }
}

impl<M: Model> Model for Buffered<M> {
    fn warm(&self, pieces: &[Piece]) {
        self.cache.warm(pieces);
    }

    fn set_now(&mut self, now: Nanos) {
        self.now = now;
        self.cache.set_now(now);
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        match self.cache.read(piece)? {
            None if self.staged.use_again(piece.key) => {
                Ok(Some(Hit { done: self.now, compressed: false, staged: true }))
            }
            found => Ok(found),
        }
    }

    fn read_by_content(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        self.cache.read_by_content(piece)
    }

    fn request_arrived(&mut self) {
        self.staged.request_arrived();
    }

    fn request_inserted(&mut self) -> Result<(), Error> {
        while let Some((piece, _)) = self.staged.pop() {
            self.cache.insert(&piece)?;
        }
        self.cache.request_inserted()
    }

    fn note_read_in_front(&mut self) {
        self.cache.note_read_in_front();
    }

    fn has(&self, key: ExtentKey) -> bool {
        self.staged.has(key) || self.cache.has(key)
    }

    fn note_missed(&self, piece: &Piece, in_stream: bool, missed: &mut Missed) {
        self.cache.note_missed(piece, in_stream, missed);
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.staged.push(piece);
        Ok(false)
    }

    fn insert_merged(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.staged.push_merged(piece);
        Ok(false)
    }

    fn is_worth_fetching(&self, key: ExtentKey) -> bool {
        self.cache.is_worth_fetching(key)
    }

    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        let was_staged = self.staged.remove(piece.key);
        Ok(self.cache.forget(piece)? || was_staged)
    }

    fn is_staged(&self, key: ExtentKey) -> bool {
        self.staged.has(key)
    }

    fn use_staged(&mut self, key: ExtentKey) -> bool {
        self.staged.use_again(key)
    }

    fn drop_staged(&mut self, key: ExtentKey) {
        self.staged.remove(key);
    }

    fn settle(&mut self) -> Result<(), Error> {
        while let Some((piece, _)) = self.staged.pop_any() {
            self.cache.insert(&piece)?;
        }
        self.cache.settle()
    }

    fn totals(&self) -> Totals {
        self.cache.totals()
    }

    fn cached_by_class(&self) -> Option<[u64; ClassId::COUNT]> {
        self.cache.cached_by_class()
    }

    fn ram_bytes(&self) -> u64 {
        self.cache.ram_bytes() + self.staging_ram_bytes()
    }

    fn staging_ram_bytes(&self) -> u64 {
        self.staged.ram_bytes() as u64
    }

    fn ssd_busy(&self) -> Nanos {
        self.cache.ssd_busy()
    }

    fn page_bytes(&self) -> u32 {
        self.cache.page_bytes()
    }

    fn usable_bytes(&self) -> u64 {
        self.cache.usable_bytes()
    }
}
