//! Write-back (Nitro §3.1) with the server's policies. Written extents become dirty in the cache, may be overwritten
//! there, and are written to the origin in rounds that [`nitro_cache::destage`] chooses.

use crate::Error;
use crate::model::Model;
use crate::settings::Settings;
use crate::workload::Piece;
use hashbrown::HashMap;
use nitro_cache::destage::{Backlog, DirtyUse, ROUND_EXTENTS, Watermarks, run_extents_max};
use nitro_units::{ExtentKey, ObjectId};

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

/// The dirty extents, and the choice of those to destage next.
pub(crate) struct WriteBack {
    marks: Watermarks,
    /// The dirty extents of caches without write-evict units; the others have their own list.
    backlog: Backlog,
    newest: HashMap<ExtentKey, Newest>,
    /// The object that was destaged last; objects take turns.
    last: ObjectId,
    extent_bytes: u32,
    /// The number of writes between two flushes of a client; 0: see [`Settings::flush_every`].
    flush_every: u32,
    writes: u32,
}

impl WriteBack {
    pub(crate) fn new(settings: &Settings, marks: Watermarks) -> Self {
        Self {
            marks,
            backlog: Backlog::new(settings.destage),
            newest: HashMap::new(),
            last: ObjectId(0),
            extent_bytes: settings.extent_bytes,
            flush_every: settings.flush_every,
            writes: 0,
        }
    }

    /// Whether the cache holds an extent that is about to be written; if it has no units, the extent is dropped.
    pub(crate) fn knows(&mut self, model: &mut dyn Model, piece: &Piece) -> Result<bool, Error> {
        if model.dirty_units().is_some() { Ok(model.has(piece.key)) } else { model.forget(piece) }
    }

    /// Writes an extent at second `now`. Returns whether the cache knew the content; `None` if it has no room.
    pub(crate) fn write(&mut self, model: &mut dyn Model, piece: &Piece, now: u32) -> Result<Option<bool>, Error> {
        let marks = self.marks;
        let known = match model.dirty_units() {
            Some(units) => units.insert_dirty(piece, now, &marks)?,
            None => {
                self.backlog.dirtied(piece.key, now);
                Some(model.insert(piece)?)
            }
        };
        if self.flush_every == 0 {
            self.commit(model);
        }
        if let Some(known) = known {
            let mut piece = *piece;
            (piece.offset, piece.len) = (0, self.extent_bytes);
            self.newest.insert(piece.key, Newest { piece, known });
        }
        Ok(known)
    }

    /// The end of a write request: the client may flush.
    pub(crate) fn request_written(&mut self, model: &mut dyn Model) {
        self.writes += 1;
        if self.writes == self.flush_every {
            self.writes = 0;
            self.commit(model);
        }
    }

    /// Commits to the journal, without timing: units of replaced dirty content may be evicted.
    fn commit(&self, model: &mut dyn Model) {
        if let Some(units) = model.dirty_units() {
            units.commit(self.flush_every > 0);
        }
    }

    /// Drops an extent that is trimmed.
    pub(crate) fn forget(&mut self, model: &mut dyn Model, piece: &Piece) -> Result<(), Error> {
        self.newest.remove(&piece.key);
        self.backlog.forget(piece.key);
        if let Some(units) = model.dirty_units() {
            units.manager().discard_dirty(piece.key);
        }
        model.forget(piece).map(drop)
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
        let leaving = |(key, version)| {
            self.newest.get(&key).map(|newest| Leaving { piece: newest.piece, known: newest.known, version })
        };
        chosen.into_iter().filter_map(leaving).collect()
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
