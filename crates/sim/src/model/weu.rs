//! Nitro: the server's own cache manager, with write-evict units on a modelled SSD. The calls, and their order, are those that
//! the server makes for one request after the other.

use super::{Flash, Hit, Model, Totals};
use crate::Error;
use crate::settings::{Settings, Variant};
use crate::workload::Piece;
use nitro_cache::admission::{Lane, Provenance};
use nitro_cache::weu::Stored;
use nitro_cache::{Append, CacheManager, Evicted, Location};
use nitro_model::Nanos;
use nitro_trace::Op;
use nitro_trace::content::Compressibility;
use nitro_units::{ClassId, WeuId};

/// The server stores an extent as it is unless compression saves at least one part in so many.
const SAVING_MIN: u32 = 16;

/// The cache.
pub(crate) struct Weus {
    manager: CacheManager,
    flash: Flash,
    /// By lane.
    open: [Option<WeuId>; Lane::CLEAN.len()],
    variant: Variant,
    dedup: bool,
    compress: bool,
    compressibility: Compressibility,
    extent_bytes: u32,
    weu_bytes: u64,
    usable_bytes: u64,
}

impl Weus {
    pub(crate) fn new(settings: &Settings) -> Result<Self, Error> {
        let (flash, usable_bytes) = Flash::new(settings)?;
        let manager = nitro_cache::Settings { cache_bytes: usable_bytes, ..settings.manager() };
        Ok(Self {
            manager: CacheManager::new(manager)?,
            flash,
            open: Default::default(),
            variant: settings.variant,
            dedup: settings.dedup,
            compress: settings.compress,
            compressibility: settings.compressibility(),
            extent_bytes: settings.extent_bytes,
            weu_bytes: settings.weu_bytes.into(),
            usable_bytes,
        })
    }

    fn hit(&mut self, location: Location) -> Result<Option<Hit>, Error> {
        let span = location.span();
        let done = match location.in_ram || span.is_empty() {
            true => self.flash.now,
            false => {
                let at = u64::from(location.weu.0) * self.weu_bytes + u64::from(span.start);
                self.flash.read(at, u64::from(span.end - span.start))?
            }
        };
        Ok(Some(Hit { done, compressed: location.raw_crc.is_none() && !span.is_empty() }))
    }

    fn stored(&self, piece: &Piece) -> Stored {
        let raw = Stored::Raw { bytes: self.extent_bytes, crc: 0 };
        if !self.compress {
            return raw;
        }
        let size = piece.compressed_bytes();
        let size = size.unwrap_or_else(|| self.compressibility.compressed_bytes(&piece.fingerprint, self.extent_bytes));
        match size {
            0 => Stored::Zero,
            size if size > self.extent_bytes - self.extent_bytes / SAVING_MIN => raw,
            size => Stored::Packed(size),
        }
    }

    /// Evicts ahead of need, and cleans up after it.
    fn make_room(&mut self) -> Result<(), Error> {
        while self.manager.wants_eviction() {
            let evicted = match self.variant {
                Variant::WeuLruMod => {
                    self.flash.victim().and_then(|at| self.manager.evict_weu(WeuId((at / self.weu_bytes) as u32)))
                }
                _ => self.manager.evict(),
            };
            let Some(Evicted { weu, .. }) = evicted else { break };
            if self.variant != Variant::Weu {
                self.flash.trim(u64::from(weu.0) * self.weu_bytes, self.weu_bytes)?;
            }
        }
        while self.manager.clean_step() {}
        Ok(())
    }

    fn opened(&mut self, lane: Lane) -> Result<Option<WeuId>, Error> {
        if self.open[lane.index()].is_none() {
            self.make_room()?;
            self.open[lane.index()] = self.manager.open_weu_in(lane).map(|(weu, _)| weu);
        }
        Ok(self.open[lane.index()])
    }

    fn seal(&mut self, lane: Lane, weu: WeuId) -> Result<(), Error> {
        self.open[lane.index()] = None;
        self.manager.seal(weu);
        self.flash.write(u64::from(weu.0) * self.weu_bytes, self.weu_bytes)?;
        self.manager.stored(weu);
        Ok(())
    }
}

impl Model for Weus {
    fn warm(&self, pieces: &[Piece]) {
        self.manager.warm(pieces.iter().map(|piece| (piece.key, &piece.fingerprint, piece.op() == Op::Write)));
    }

    fn set_now(&mut self, now: Nanos) {
        self.flash.now = now;
    }

    fn read(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        match self.manager.lookup(piece.key) {
            Some(location) => self.hit(location),
            None => Ok(None),
        }
    }

    fn read_by_content(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        match self.manager.insert_duplicate(piece.key, &piece.fingerprint) {
            Some(location) => self.hit(location),
            None => Ok(None),
        }
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        let fingerprint = self.dedup.then_some(&piece.fingerprint);
        if let Some(fingerprint) = fingerprint
            && self.manager.insert_duplicate(piece.key, fingerprint).is_some()
        {
            return Ok(true);
        }
        let class = ClassId::UNCLASSIFIED;
        let from = if piece.op() == Op::Write { Provenance::written(class) } else { Provenance::read(class) };
        let Some(lane) = self.manager.admit(piece.key, from) else { return Ok(false) };
        let stored = self.stored(piece);
        while let Some(weu) = self.opened(lane)? {
            match self.manager.append(weu, piece.key, fingerprint, stored) {
                Append::At(_) => break,
                Append::Full => self.seal(lane, weu)?,
            }
        }
        Ok(false)
    }

    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        Ok(self.manager.invalidate(piece.key).is_some())
    }

    fn totals(&self) -> Totals {
        Totals { cache: self.manager.stats(), flash: self.flash.counters() }
    }

    fn ram_bytes(&self) -> u64 {
        self.manager.index_ram_bytes() as u64
    }

    fn page_bytes(&self) -> u32 {
        self.flash.page_bytes()
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}
