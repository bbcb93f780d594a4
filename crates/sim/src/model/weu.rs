//! Nitro: the server's cache manager with write-evict units on a modelled SSD. The calls and their order are those of
//! the server for one request at a time.

use super::allowance::Allowance;
use super::staged::Staged;
use super::{DirtyUnits, Dropped, Flash, Hit, Model, Totals};
use crate::Error;
use crate::settings::{Settings, Variant};
use crate::workload::Piece;
use nitro_cache::admission::{Provenance, Shelf};
use nitro_cache::class::Band;
use nitro_cache::destage::{DirtyUse, Watermarks};
use nitro_cache::forward::{Leaving, Survivor};
use nitro_cache::settings::UNIT_TABLES;
use nitro_cache::weu::Stored;
use nitro_cache::weu::layout::{ENTRY_BYTES, HEAD_BYTES, RECORD_BYTES};
use nitro_cache::{Append, CacheManager, Evicted, Location, LruMap, Missed};
use nitro_model::Nanos;
use nitro_port::codec::compressed_bytes_max;
use nitro_trace::Op;
use nitro_trace::content::Compressibility;
use nitro_units::{ClassId, ExtentKey, Fingerprint, Generation, WeuId};

/// Dirty units are written in blocks of this size, in bytes.
const BLOCK_BYTES: u32 = 4096;

/// A simulated Nitro cache.
pub(crate) struct Weus {
    manager: CacheManager,
    flash: Flash,
    /// The open unit of each shelf.
    open: [Option<WeuId>; Shelf::COUNT],
    /// The open unit for dirty extents.
    open_dirty: Option<WeuId>,
    /// The units of which dirty extents may use a share, as in the server.
    weus_for_dirty: u32,
    /// For each unit: the fingerprints and locations of its extents, as in its header on the SSD.
    headers: Vec<Vec<(Fingerprint, Stored)>>,
    /// The units whose headers are in RAM, with their fillings.
    tables: LruMap<WeuId, Generation>,
    /// The extents to copy forward from a unit that is being evicted.
    survivors: Vec<Survivor>,
    staged: Staged,
    allowance: Option<Allowance>,
    /// Units that are being written. As in the server, they may be evicted once the whole request has been inserted, or
    /// if there is no other unit.
    sealed: Vec<WeuId>,
    /// The extents that evictions dropped, by class, until they are asked for.
    evicted: Option<Dropped>,
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
        let mut cache = CacheManager::new(manager)?;
        cache.keep_duplicates();
        Ok(Self {
            manager: cache,
            flash,
            open: Default::default(),
            open_dirty: None,
            weus_for_dirty: manager.weu_count() + 1 - manager.open_max(manager.weu_count()),
            headers: vec![Vec::new(); manager.weu_count() as usize],
            tables: LruMap::new(UNIT_TABLES),
            survivors: Vec::new(),
            sealed: Vec::new(),
            evicted: None,
            staged: Staged::new(settings),
            allowance: settings.write_budget.map(|ratio| Allowance::new(ratio, usable_bytes)),
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
        Ok(Some(Hit { done, compressed: location.raw_crc.is_none() && !span.is_empty(), staged: false }))
    }

    /// Has the manager know a fingerprint whole, of which a lean index has the tag, as the server does: by the tables of
    /// units, of which those used last are in RAM.
    fn learn(&mut self, fingerprint: &Fingerprint) -> Result<(), Error> {
        for candidate in self.manager.candidates(fingerprint) {
            let (weu, filling) = (candidate.weu, candidate.generation);
            let header = self.headers.get(weu.0 as usize).map_or(&[][..], Vec::as_slice);
            if !candidate.in_ram && self.tables.get(&weu).is_none_or(|read| *read != filling) {
                let bytes = (HEAD_BYTES + header.len() as u32 * ENTRY_BYTES).next_multiple_of(BLOCK_BYTES);
                self.flash.read(u64::from(weu.0) * self.weu_bytes, bytes.into())?;
                self.tables.insert(weu, filling, 1);
            }
            let entry = header.iter().position(|(of, _)| of == fingerprint);
            if entry.is_some_and(|entry| self.manager.confirm(fingerprint, candidate, entry as u16).is_some()) {
                break;
            }
        }
        Ok(())
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
            size if size as usize > compressed_bytes_max(self.extent_bytes as usize) => raw,
            size => Stored::Packed(size),
        }
    }

    /// Evicts the unit that the policy chooses, after copying forward the extents that are worth it.
    fn evict(&mut self) -> Result<Option<Evicted>, Error> {
        let Some(leaving) = self.manager.begin_leaving() else { return Ok(None) };
        let before = self.manager.cached_by_class();
        if leaving.keeps_any() {
            self.copy_forward(&leaving)?;
        }
        let evicted = self.manager.begin_eviction_of_rest(&leaving, false);
        while self.manager.evict_step(leaving.weu) {}
        self.note_dropped(&before);
        Ok(evicted)
    }

    /// Counts what an eviction dropped, after which `before` were cached.
    fn note_dropped(&mut self, before: &[u64; ClassId::COUNT]) {
        let after = self.manager.cached_by_class();
        let dropped = self.evicted.get_or_insert_default();
        for class in ClassId::all() {
            let count = before[class.index()].saturating_sub(after[class.index()]);
            dropped.all[class.index()] += count;
            if count > 0 && self.manager.could_evict_below(self.manager.band(class)) {
                dropped.early[class.index()] += count;
            }
        }
    }

    fn copy_forward(&mut self, leaving: &Leaving) -> Result<(), Error> {
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.clear();
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.manager.survivors(leaving, from, &mut survivors);
        }
        self.manager.choose_survivors(leaving, &mut survivors);
        if !survivors.is_empty() {
            self.flash.read(u64::from(leaving.weu.0) * self.weu_bytes, self.weu_bytes)?;
        }
        for survivor in &survivors {
            if !self.forward(leaving, survivor)? {
                break;
            }
        }
        self.survivors = survivors;
        Ok(())
    }

    /// Copies one extent forward; `false` if there is no room for it or for others.
    fn forward(&mut self, leaving: &Leaving, survivor: &Survivor) -> Result<bool, Error> {
        let shelf = leaving.shelf_of(survivor);
        let header = &self.headers[leaving.weu.0 as usize];
        let Some((fingerprint, stored)) = header.get(usize::from(survivor.location.entry)).copied() else {
            return Ok(true);
        };
        let named = self.dedup.then_some(&fingerprint);
        loop {
            if self.open[shelf.index()].is_none() {
                self.open[shelf.index()] = self.manager.open_weu_in(shelf).map(|(weu, _)| weu);
            }
            let Some(weu) = self.open[shelf.index()] else { return Ok(false) };
            match self.manager.forward(leaving, survivor, weu, named, stored) {
                Some(Append::Full) => {
                    self.seal(shelf, weu)?;
                    self.manager.stored(weu);
                }
                Some(Append::At(location)) => {
                    self.note(&location, fingerprint, stored);
                    return Ok(true);
                }
                None => return Ok(true),
            }
        }
    }

    fn note(&mut self, location: &Location, fingerprint: Fingerprint, stored: Stored) {
        let header = &mut self.headers[location.weu.0 as usize];
        header.truncate(location.entry.into());
        header.push((fingerprint, stored));
    }

    /// Evicts ahead of need, and removes the entries of evicted units.
    fn make_room(&mut self) -> Result<(), Error> {
        while self.manager.wants_eviction() {
            let evicted = match self.variant {
                Variant::WeuLruMod => {
                    self.flash.victim().and_then(|at| self.manager.evict_weu(WeuId((at / self.weu_bytes) as u32)))
                }
                _ => self.evict()?,
            };
            let Some(Evicted { weu, .. }) = evicted else { break };
            if self.variant != Variant::Weu {
                self.flash.trim(u64::from(weu.0) * self.weu_bytes, self.weu_bytes)?;
            }
        }
        while self.manager.clean_step() {}
        Ok(())
    }

    fn opened(&mut self, shelf: Shelf) -> Result<Option<WeuId>, Error> {
        if self.open[shelf.index()].is_none() {
            self.make_room()?;
        }
        // Copying forward may have opened a unit.
        while self.open[shelf.index()].is_none() {
            self.open[shelf.index()] = self.manager.open_weu_in(shelf).map(|(weu, _)| weu);
            if self.open[shelf.index()].is_none() {
                if self.sealed.is_empty() {
                    break;
                }
                self.manager.stored(self.sealed.remove(0));
                self.make_room()?;
            }
        }
        Ok(self.open[shelf.index()])
    }

    fn seal(&mut self, shelf: Shelf, weu: WeuId) -> Result<(), Error> {
        self.open[shelf.index()] = None;
        self.seal_recorded(weu);
        self.write(weu, self.weu_bytes)
    }

    /// Closes a unit, and records the duplicates that wait for this; returns how many.
    fn seal_recorded(&mut self, weu: WeuId) -> usize {
        let mut room = self.manager.seal(weu);
        let mut made = Vec::new();
        while self.manager.record(weu, &mut room, &mut made) {}
        made.len()
    }

    fn write_dirty(&mut self, weu: WeuId) -> Result<(), Error> {
        self.manager.seal(weu);
        self.write(weu, self.weu_bytes)
    }

    fn write(&mut self, weu: WeuId, bytes: u64) -> Result<(), Error> {
        self.flash.write(u64::from(weu.0) * self.weu_bytes, bytes)?;
        if let Some(allowance) = &mut self.allowance {
            allowance.note_written(bytes);
        }
        Ok(())
    }

    /// Writes a unit of records of duplicates, if as many wait for one as in the server.
    fn record_many(&mut self) -> Result<(), Error> {
        if !self.manager.wants_record_unit() {
            return Ok(());
        }
        let mut merged = 0;
        while let Some(Evicted { weu, .. }) = self.manager.begin_merging_records(merged) {
            while self.manager.evict_step(weu) {}
            merged += 1;
        }
        self.make_room()?;
        let Some((weu, _)) = self.manager.open_weu() else { return Ok(()) };
        let records = self.seal_recorded(weu);
        let bytes = HEAD_BYTES as usize + records * RECORD_BYTES as usize;
        self.write(weu, bytes.next_multiple_of(BLOCK_BYTES as usize) as u64)?;
        self.manager.stored(weu);
        Ok(())
    }

    fn note_requested(&mut self) {
        if let Some(allowance) = &mut self.allowance
            && let Some(thrift) = allowance.note_requested(self.extent_bytes.into())
        {
            self.manager.set_thrift(thrift);
        }
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
        self.note_requested();
        match self.manager.lookup(piece.key) {
            Some(location) => {
                self.manager.note_read_by(piece.class(), &location);
                self.hit(location)
            }
            None if self.staged.use_again(piece.key) => {
                Ok(Some(Hit { done: self.flash.now, compressed: false, staged: true }))
            }
            None => Ok(None),
        }
    }

    fn read_by_content(&mut self, piece: &Piece) -> Result<Option<Hit>, Error> {
        self.learn(&piece.fingerprint)?;
        match self.manager.lookup_fingerprint(&piece.fingerprint) {
            Some(location) => self.hit(location),
            None => Ok(None),
        }
    }

    fn note_read_in_front(&mut self) {
        self.note_requested();
    }

    fn has(&self, key: ExtentKey) -> bool {
        self.staged.has(key) || self.manager.peek(key).is_some()
    }

    fn band_of(&self, key: ExtentKey) -> Band {
        self.manager.priority_of(key)
    }

    fn note_missed(&self, piece: &Piece, in_stream: bool, missed: &mut Missed) {
        missed.note(self.manager.why_gone(piece.key), in_stream);
    }

    fn insert(&mut self, piece: &Piece) -> Result<bool, Error> {
        if !self.staged.is_used() {
            return self.pack(piece, false);
        }
        self.staged.push(piece);
        Ok(false)
    }

    fn insert_merged(&mut self, piece: &Piece) -> Result<bool, Error> {
        if !self.staged.is_used() {
            return self.pack(piece, false);
        }
        self.staged.push_merged(piece);
        Ok(false)
    }

    fn is_worth_fetching(&self, key: ExtentKey) -> bool {
        self.manager.is_worth_fetching(key)
    }

    fn is_staged(&self, key: ExtentKey) -> bool {
        self.staged.has(key)
    }

    fn forget(&mut self, piece: &Piece) -> Result<bool, Error> {
        self.note_requested();
        let was_staged = self.staged.remove(piece.key);
        Ok(self.manager.invalidate(piece.key).is_some() || was_staged)
    }

    fn use_staged(&mut self, key: ExtentKey) -> bool {
        self.staged.use_again(key)
    }

    fn drop_staged(&mut self, key: ExtentKey) {
        self.staged.remove(key);
    }

    fn request_arrived(&mut self) {
        self.staged.request_arrived();
    }

    fn request_inserted(&mut self) -> Result<(), Error> {
        while let Some((piece, used)) = self.staged.pop() {
            self.pack(&piece, used)?;
        }
        for weu in self.sealed.drain(..) {
            self.manager.stored(weu);
        }
        Ok(())
    }

    fn dirty_units(&mut self) -> Option<&mut dyn DirtyUnits> {
        Some(self)
    }

    fn settle(&mut self) -> Result<(), Error> {
        while let Some((piece, used)) = self.staged.pop_any() {
            self.pack(&piece, used)?;
        }
        self.request_inserted()
    }

    fn totals(&self) -> Totals {
        Totals { cache: self.manager.stats(), flash: self.flash.counters() }
    }

    fn cached_by_class(&self) -> Option<[u64; ClassId::COUNT]> {
        Some(self.manager.cached_by_class())
    }

    fn take_evicted(&mut self) -> Option<Dropped> {
        self.evicted.take()
    }

    fn ram_bytes(&self) -> u64 {
        self.manager.index_ram_bytes() as u64 + self.staged.ram_bytes() as u64
    }

    fn staging_ram_bytes(&self) -> u64 {
        self.staged.ram_bytes() as u64
    }

    fn ssd_busy(&self) -> Nanos {
        self.flash.busy()
    }

    fn page_bytes(&self) -> u32 {
        self.flash.page_bytes()
    }

    fn usable_bytes(&self) -> u64 {
        self.usable_bytes
    }
}

impl Weus {
    /// Packs an extent into an open unit, unless its content is cached already; returns whether it is. `used`: whether
    /// it was used while it was staged.
    fn pack(&mut self, piece: &Piece, used: bool) -> Result<bool, Error> {
        let fingerprint = self.dedup.then_some(&piece.fingerprint);
        self.learn(&piece.fingerprint)?;
        if let Some(fingerprint) = fingerprint
            && self.manager.insert_duplicate(piece.key, fingerprint).is_some()
        {
            self.record_many()?;
            return Ok(true);
        }
        let class = piece.class();
        let from = if piece.op() == Op::Write { Provenance::written(class) } else { Provenance::read(class) };
        let from = self.manager.by_pattern(piece.key, Provenance { used, ..from });
        let Some(admitted) = self.manager.admit(piece.key, from) else { return Ok(false) };
        let shelf = admitted.shelf();
        let stored = self.stored(piece);
        while let Some(weu) = self.opened(shelf)? {
            match self.manager.append(weu, piece.key, fingerprint, stored) {
                Append::At(location) => {
                    self.manager.classify(&location, from.class);
                    self.manager.heat(&location, admitted);
                    self.note(&location, piece.fingerprint, stored);
                    break;
                }
                Append::Full => {
                    self.seal(shelf, weu)?;
                    self.sealed.push(weu);
                }
            }
        }
        Ok(false)
    }
}

impl DirtyUnits for Weus {
    fn insert_dirty(
        &mut self,
        piece: &Piece,
        now: u32,
        marks: &Watermarks,
        waiting: u64,
    ) -> Result<Option<bool>, Error> {
        self.note_requested();
        let fingerprint = self.dedup.then_some(&piece.fingerprint);
        if let Some(fingerprint) = fingerprint {
            self.learn(fingerprint)?;
            let pins_max = self.pins_max(marks, waiting);
            if self.manager.insert_dirty_duplicate(piece.key, fingerprint, now, pins_max).is_some() {
                return Ok(Some(true));
            }
        }
        let stored = self.stored(piece);
        while let Some(weu) = self.opened_dirty()? {
            match self.manager.append_dirty(weu, piece.key, fingerprint, stored, now) {
                Append::At(location) => {
                    let from = self.manager.by_pattern(piece.key, Provenance::written(piece.class()));
                    self.manager.classify(&location, from.class);
                    self.note(&location, piece.fingerprint, stored);
                    return Ok(Some(false));
                }
                Append::Full => {
                    self.open_dirty = None;
                    self.write_dirty(weu)?;
                    self.manager.stored(weu);
                }
            }
        }
        Ok(None)
    }

    fn commit(&mut self, fills_blocks: bool) {
        if let Some(open) = self.open_dirty.filter(|_| fills_blocks) {
            self.manager.align_open(open, BLOCK_BYTES);
        }
        let superseded = self.manager.superseded();
        self.manager.release(superseded);
    }

    fn used(&self) -> DirtyUse {
        let extents = u64::from(self.manager.settings().weu_count()) * (self.weu_bytes / u64::from(self.extent_bytes));
        let (pinned, dirty) = (self.manager.pinned_count(), self.manager.dirty_count());
        DirtyUse { pinned, weus: self.weus_for_dirty, dirty, extents }
    }

    fn manager(&mut self) -> &mut CacheManager {
        &mut self.manager
    }
}

impl Weus {
    fn opened_dirty(&mut self) -> Result<Option<WeuId>, Error> {
        if self.open_dirty.is_none() {
            self.make_room()?;
            self.open_dirty = self.manager.open_dirty_weu(BLOCK_BYTES).map(|(weu, _)| weu);
        }
        Ok(self.open_dirty)
    }

    /// The number of pinned units from which on a duplicate must not pin another unit, as in the server, while `waiting`
    /// extents are to be inserted.
    fn pins_max(&self, marks: &Watermarks, waiting: u64) -> u32 {
        let part = |percent: u8| self.weus_for_dirty * u32::from(percent) / 100;
        let pinned = self.manager.pinned_count();
        let after = u32::try_from(self.manager.pinned_after(waiting)).unwrap_or(u32::MAX);
        part(marks.start_percent).min((part(marks.max_percent).max(2) + pinned).saturating_sub(after))
    }
}
