//! Write-back (Nitro §3.1) with the server's policies. Written extents become dirty in the cache, may be overwritten
//! there, and are written to the origin in rounds that [`nitro_cache::destage`] chooses.

use crate::Error;
use crate::model::Model;
use crate::settings::Settings;
use crate::workload::Piece;
use hashbrown::HashMap;
use nitro_cache::admission::Provenance;
use nitro_cache::class::CLEAN_PERCENT_MIN;
use nitro_cache::destage::{Backlog, DirtyUse, ROUND_EXTENTS, Watermarks, run_extents_max};
use nitro_units::{ExtentKey, ObjectId};
use std::collections::VecDeque;

/// An extent that is being destaged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaving {
    /// The whole extent, as it was written last.
    pub(crate) piece: Piece,
    /// Whether the cache knew the content.
    pub(crate) known: bool,
    version: u64,
}

/// The newest content of a dirty extent.
#[derive(Debug, Clone, Copy)]
struct Newest {
    piece: Piece,
    known: bool,
}

/// Written extents that wait for insertion, in the order of their writes.
#[derive(Default)]
struct Queue {
    /// An extent that was written several times is there as often; it is inserted the first time.
    keys: VecDeque<ExtentKey>,
    newest: HashMap<ExtentKey, Piece>,
}

/// The dirty extents, and the choice of those to destage next.
pub(crate) struct WriteBack {
    marks: Watermarks,
    queue: Queue,
    /// The dirty extents of caches without write-evict units; the others have their own list.
    backlog: Backlog,
    newest: HashMap<ExtentKey, Newest>,
    /// The object that was destaged last; objects take turns.
    last: ObjectId,
    extent_bytes: u32,
    /// Some classes may not enter the cache.
    restricts_writes: bool,
    /// The number of writes after which a client flushes; 0: see [`Settings::flush_every`].
    flush_every: u32,
    /// Each write is durable at once.
    is_durable_at_once: bool,
    writes: u32,
}

impl WriteBack {
    /// `has_flushes`: whether the trace has flushes.
    pub(crate) fn new(settings: &Settings, marks: Watermarks, has_flushes: bool) -> Self {
        Self {
            marks,
            queue: Queue::default(),
            backlog: Backlog::new(settings.destage),
            newest: HashMap::new(),
            last: ObjectId(0),
            extent_bytes: settings.extent_bytes,
            restricts_writes: settings.classes.restrict_writes(),
            flush_every: settings.flush_every,
            is_durable_at_once: settings.flush_every == 0 && !has_flushes,
            writes: 0,
        }
    }

    /// Whether each write is durable at once, so that no extent waits for insertion.
    pub(crate) const fn is_durable_at_once(&self) -> bool {
        self.is_durable_at_once
    }

    /// Whether any written extent waits for insertion.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.keys.is_empty()
    }

    /// Whether a written extent waits for insertion.
    pub(crate) fn waits(&self, key: ExtentKey) -> bool {
        self.queue.newest.contains_key(&key)
    }

    /// Whether the cache holds an extent that is about to be written; if it has no units, the extent is dropped.
    pub(crate) fn knows(&mut self, model: &mut dyn Model, piece: &Piece) -> Result<bool, Error> {
        let known = if model.dirty_units().is_some() { model.has(piece.key) } else { model.forget(piece)? };
        Ok(known || self.waits(piece.key))
    }

    /// Whether an extent that is written goes around the cache, as in the server: its class may not enter, and nothing of
    /// it is dirty.
    pub(crate) fn goes_around(&self, model: &mut dyn Model, piece: &Piece) -> bool {
        if !self.restricts_writes || self.waits(piece.key) {
            return false;
        }
        let Some(units) = model.dirty_units() else { return false };
        units.manager().goes_around(piece.key, Provenance::written(piece.class())).is_some()
    }

    /// Whether the class of a written extent decides about its entry, and if so, whether more than
    /// [`CLEAN_PERCENT_MIN`] percent of the units are not pinned.
    pub(crate) fn is_offered(&self, model: &mut dyn Model, piece: &Piece) -> Option<bool> {
        if !self.restricts_writes || self.waits(piece.key) || self.newest.contains_key(&piece.key) {
            return None;
        }
        let units = model.dirty_units()?;
        let (pinned, units) = (u64::from(units.used().pinned), u64::from(units.manager().settings().weu_count()));
        Some(units.saturating_sub(pinned) * 100 > units * u64::from(CLEAN_PERCENT_MIN))
    }

    /// Adds a written extent to those that wait for insertion.
    pub(crate) fn enqueue(&mut self, model: &mut dyn Model, piece: &Piece) {
        // The staged content is overwritten.
        model.drop_staged(piece.key);
        self.queue.keys.push_back(piece.key);
        self.queue.newest.insert(piece.key, *piece);
    }

    /// Inserts, at second `now`, the next extent that waits. Returns it, and whether the cache knew the content, or
    /// `None` if the cache has no room. An extent that was inserted with an earlier write is skipped.
    pub(crate) fn insert_next(
        &mut self,
        model: &mut dyn Model,
        now: u32,
    ) -> Result<Option<(Piece, Option<bool>)>, Error> {
        loop {
            let waiting = self.queue.keys.len() as u64;
            let Some(key) = self.queue.keys.pop_front() else { return Ok(None) };
            if let Some(piece) = self.queue.newest.remove(&key) {
                return Ok(Some((piece, self.insert(model, &piece, now, waiting)?)));
            }
        }
    }

    /// Inserts a written extent, of `waiting` that are to be inserted.
    fn insert(&mut self, model: &mut dyn Model, piece: &Piece, now: u32, waiting: u64) -> Result<Option<bool>, Error> {
        let marks = self.marks;
        let known = match model.dirty_units() {
            Some(units) => units.insert_dirty(piece, now, &marks, waiting)?,
            None => {
                self.backlog.dirtied(piece.key, now);
                Some(model.insert(piece)?)
            }
        };
        if let Some(known) = known {
            let mut piece = *piece;
            (piece.offset, piece.len) = (0, self.extent_bytes);
            self.newest.insert(piece.key, Newest { piece, known });
        }
        Ok(known)
    }

    /// Notes a write request. Returns whether what it wrote has to be durable: the client flushes, or each write is
    /// durable at once.
    pub(crate) fn is_flushed(&mut self) -> bool {
        self.writes += 1;
        let flushes = self.writes == self.flush_every;
        if flushes {
            self.writes = 0;
        }
        flushes || self.is_durable_at_once
    }

    /// Commits to the journal, without timing: units of replaced dirty content may be evicted.
    pub(crate) fn commit(&self, model: &mut dyn Model) {
        if let Some(units) = model.dirty_units() {
            units.commit(!self.is_durable_at_once);
        }
    }

    /// The dirty extents among those of a request, in order of offset.
    pub(crate) fn dirty_among(&self, model: &mut dyn Model, request: &[Piece]) -> Vec<Leaving> {
        let keys = request.iter().map(|piece| piece.key);
        keys.filter_map(|key| self.leaving(key, self.dirty_version(model, key)?)).collect()
    }

    fn dirty_version(&self, model: &mut dyn Model, key: ExtentKey) -> Option<u64> {
        let Some(units) = model.dirty_units() else { return self.backlog.version(key) };
        let found = units.manager().dirty_from(key.object(), key.index(), u32::MAX, 1);
        found.first().filter(|extent| extent.key == key).map(|extent| extent.version)
    }

    /// Notes that an extent that is not dirty was trimmed.
    pub(crate) fn forget(&mut self, key: ExtentKey) {
        self.newest.remove(&key);
        self.backlog.forget(key);
    }

    /// Whether writers wait for destage.
    pub(crate) fn is_full(&self, model: &mut dyn Model) -> bool {
        self.marks.is_full(self.used(model))
    }

    /// Whether no extent is dirty.
    pub(crate) fn is_clean(&self) -> bool {
        self.newest.is_empty()
    }

    fn used(&self, model: &mut dyn Model) -> DirtyUse {
        let extents = model.usable_bytes() / u64::from(self.extent_bytes);
        match model.dirty_units() {
            Some(units) => units.used(),
            // A single unit that is never pinned, so that only extents count.
            None => DirtyUse { pinned: 0, weus: 1, dirty: self.backlog.len(), extents },
        }
    }

    /// The extents to destage next, in order of offset, before the next flush of the origin; empty if none is due at
    /// second `now`.
    pub(crate) fn round(&mut self, model: &mut dyn Model, now: u32) -> Vec<Leaving> {
        if self.is_clean() {
            return Vec::new();
        }
        let is_wanted = self.marks.is_beyond_start(self.used(model));
        let Some(before) = self.marks.due(is_wanted, now) else { return Vec::new() };
        let mut objects = match model.dirty_units() {
            Some(units) => units.manager().dirty_objects(),
            None => self.backlog.objects(),
        };
        let next = objects.partition_point(|object| *object <= self.last);
        objects.rotate_left(next);
        for object in objects {
            // The end of a pass returns nothing, even if extents are due.
            for _ in 0..2 {
                let chosen = self.chosen(model, object, before);
                if !chosen.is_empty() {
                    self.last = object;
                    self.commit(model);
                    return chosen;
                }
            }
        }
        Vec::new()
    }

    fn chosen(&mut self, model: &mut dyn Model, object: ObjectId, before: u32) -> Vec<Leaving> {
        let chosen: Vec<(ExtentKey, u64)> = match model.dirty_units() {
            Some(units) => {
                let manager = units.manager();
                let chosen = manager.destage_next(object, before, ROUND_EXTENTS);
                chosen.iter().map(|extent| (extent.key, extent.version)).collect()
            }
            None => self.backlog.destage_next(object, before, ROUND_EXTENTS),
        };
        chosen.into_iter().filter_map(|(key, version)| self.leaving(key, version)).collect()
    }

    fn leaving(&self, key: ExtentKey, version: u64) -> Option<Leaving> {
        let Newest { piece, known } = *self.newest.get(&key)?;
        Some(Leaving { piece, known, version })
    }

    /// Ends a round: the origin has its extents.
    pub(crate) fn done(&mut self, model: &mut dyn Model, round: &[Leaving]) {
        for Leaving { piece, version, .. } in round {
            let is_clean = match model.dirty_units() {
                Some(units) => {
                    let manager = units.manager();
                    manager.begin_cleaning(piece.key, *version);
                    manager.cleaned(piece.key, *version);
                    !manager.is_dirty(piece.key)
                }
                None => self.backlog.cleaned(piece.key, *version),
            };
            if is_clean {
                self.newest.remove(&piece.key);
            }
        }
        self.commit(model);
    }

    /// Splits a round into the writes of the origin.
    pub(crate) fn runs(&self, round: &[Leaving]) -> Vec<Vec<Leaving>> {
        let most = run_extents_max(self.extent_bytes as usize);
        let neighbours = round.chunk_by(|a, b| a.piece.key.raw() + 1 == b.piece.key.raw());
        neighbours.flat_map(|run| run.chunks(most)).map(<[Leaving]>::to_vec).collect()
    }
}
