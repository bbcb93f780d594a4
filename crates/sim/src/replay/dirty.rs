//! Written extents of a run: their insertion in write-back, flushes, trims and destage.

use super::{Run, Watch};
use crate::error::Error;
use crate::workload::Piece;
use crate::write_back::Leaving;
use nitro_cache::destage::ROUND_EXTENTS;

impl Run<'_> {
    /// Inserts the extents of all requests so far, clean ones first.
    pub(super) fn insert_waiting(&mut self, watch: &mut impl Watch) -> Result<(), Error> {
        self.lagging = 0;
        self.model.request_inserted()?;
        self.insert_written(watch)
    }

    /// Inserts the written extents of all requests so far.
    fn insert_written(&mut self, watch: &mut impl Watch) -> Result<(), Error> {
        let Some(write_back) = &mut self.write_back else { return Ok(()) };
        while let Some((piece, known)) = write_back.insert_next(&mut *self.model, self.seconds)? {
            if let Some(duplicate) = known {
                watch.written(&piece, duplicate);
            }
        }
        Ok(())
    }

    /// Makes the writes so far durable: in write-back, those in the cache. Otherwise the origin has them.
    pub(super) fn flush(&mut self, watch: &mut impl Watch) -> Result<(), Error> {
        self.counts.flushes += 1;
        self.insert_waiting(watch)?;
        self.commit();
        Ok(())
    }

    fn commit(&mut self) {
        if let Some(write_back) = &self.write_back {
            write_back.commit(&mut *self.model);
        }
    }

    pub(super) fn trim(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        self.counts.trims += 1;
        request.iter().for_each(|piece| self.model.drop_staged(piece.key));
        self.drain(request, watch)?;
        for piece in request {
            if let Some(write_back) = &mut self.write_back {
                write_back.forget(piece.key);
            }
            self.parts.take(&piece.key);
            self.model.forget(piece)?;
        }
        Ok(())
    }

    /// Destages the dirty extents of a trim, as the server does before it changes the origin. Each commit inserts what
    /// waits; an extent that was dirty already, and is written to again, is destaged twice.
    fn drain(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        let Some(write_back) = &self.write_back else { return Ok(()) };
        let is_waiting = request.iter().any(|piece| write_back.waits(piece.key));
        let dirty = write_back.dirty_among(&mut *self.model, request);
        self.insert_waiting(watch)?;
        self.commit();
        self.drained(&dirty, watch);
        if let Some(write_back) = self.write_back.as_ref().filter(|_| is_waiting) {
            let dirty = write_back.dirty_among(&mut *self.model, request);
            self.drained(&dirty, watch);
        }
        Ok(())
    }

    /// Notes that dirty extents were written to the origin, outside of rounds.
    fn drained(&mut self, dirty: &[Leaving], watch: &mut impl Watch) {
        let Some(write_back) = &mut self.write_back else { return };
        for round in dirty.chunks(ROUND_EXTENTS) {
            let runs = write_back.runs(round);
            self.counts.destaged_extents += round.len() as u64;
            self.counts.destage_writes += runs.len() as u64;
            runs.iter().for_each(|run| watch.drained(run));
            write_back.done(&mut *self.model, round);
        }
    }

    /// Writes to a write-back cache; the rest of a partly written extent is read from the origin. Extents whose class may
    /// not enter the cache go around it.
    pub(super) fn write_dirty(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        let Some(write_back) = &mut self.write_back else { return Ok(()) };
        let model = &mut *self.model;
        let mut dirty = Vec::with_capacity(request.len());
        for piece in request {
            self.counts.written_bytes += u64::from(piece.len);
            let is_clean = write_back.is_offered(model, piece);
            let is_around = write_back.goes_around(model, piece);
            if let Some(is_clean) = is_clean {
                let counts = &mut self.by_class[piece.class()];
                counts.offered_extents += 1;
                counts.around_extents += u64::from(is_around);
                counts.around_while_clean += u64::from(is_around && is_clean);
                counts.taken_while_dirty += u64::from(!is_around && !is_clean);
            }
            if is_around {
                model.drop_staged(piece.key);
                model.forget(piece)?;
                self.counts.around_extents += 1;
                watch.around(piece);
                continue;
            }
            dirty.push(piece);
            let in_ram = self.front.as_ref().is_some_and(|front| front.has(piece.key));
            let known = write_back.knows(model, piece)? || in_ram;
            if piece.len < self.settings.extent_bytes {
                self.counts.partial_writes += 1;
                self.counts.merged_extents += u64::from(known);
                if !known {
                    self.counts.fetched_extents += 1;
                    watch.fetched(piece);
                }
            }
        }
        dirty.into_iter().for_each(|piece| write_back.enqueue(model, piece));
        let is_flushed = write_back.is_flushed();
        match self.lag < 2 {
            true => self.insert_written(watch)?,
            false if is_flushed => self.insert_waiting(watch)?,
            false => {}
        }
        if is_flushed {
            self.commit();
        }
        Ok(())
    }

    /// Destages what is due, without timing.
    pub(super) fn destage(&mut self) {
        let Some(write_back) = &mut self.write_back else { return };
        let model = &mut *self.model;
        loop {
            let round = write_back.round(model, self.seconds);
            if round.is_empty() {
                return;
            }
            self.counts.destaged_extents += round.len() as u64;
            self.counts.destage_writes += write_back.runs(&round).len() as u64;
            write_back.done(model, &round);
        }
    }
}
