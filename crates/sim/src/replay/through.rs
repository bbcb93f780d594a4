//! Written extents of a run in write-through, as in the server.

use super::{Run, Watch};
use crate::error::Error;
use crate::settings::Settings;
use crate::workload::Piece;
use nitro_cache::partial::{Covered, Fate, Gathered, WAITING_BYTES, Waiting};
use nitro_cache::ram::OVERHEAD_BYTES;
use nitro_port::buf::held_bytes;

/// Parts of an extent that is not cached.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    covered: Covered,
    /// The one written last; its content is that of the whole extent.
    last: Piece,
}

/// Room for such parts, as much as in the server.
pub(super) fn waiting(settings: &Settings) -> Waiting<Parts> {
    let bytes_max = if settings.partial_writes.keeps_parts() { WAITING_BYTES } else { 0 };
    Waiting::new(bytes_max, held_bytes(settings.extent_bytes as usize) + OVERHEAD_BYTES)
}

/// The extents of a write, by what the cache gets of them.
#[derive(Default)]
struct Sorted {
    /// Parts of extents on the SSD. The first and the last extent of a request may be written in part.
    merged: [Option<Piece>; 2],
    /// Extents that are worth a read of the origin.
    fetched: [Option<Piece>; 2],
}

fn push(pieces: &mut [Option<Piece>; 2], piece: Piece) {
    pieces[usize::from(pieces[0].is_some())] = Some(piece);
}

impl Run<'_> {
    /// Writes to the origin; the cache gets the new content of the extents that it may hold.
    pub(super) fn write_through(&mut self, request: &[Piece], watch: &mut impl Watch) -> Result<(), Error> {
        self.misses.clear();
        self.parts.note_written(request.len() as u64);
        let mut sorted = Sorted::default();
        for piece in request {
            self.counts.written_bytes += u64::from(piece.len);
            let is_part = piece.len < self.settings.extent_bytes;
            let in_ram = self.front.as_ref().is_some_and(|front| front.has(piece.key))
                || is_part && self.model.is_staged(piece.key);
            let known = self.model.forget(piece)? || in_ram;
            let parts = self.parts.take(&piece.key);
            if !self.settings.write_policy.takes(known) {
                continue;
            }
            self.counts.partial_writes += u64::from(is_part);
            self.counts.merged_extents += u64::from(is_part && known);
            if is_part && known && !in_ram {
                push(&mut sorted.merged, *piece);
            } else if !is_part || known || self.completes(piece, parts, request.len() > 1, &mut sorted) {
                self.misses.push(*piece);
            }
        }
        self.insert_sorted(&sorted, watch)
    }

    /// Whether a part of an extent that is not cached makes up the whole with earlier `parts`.
    fn completes(&mut self, piece: &Piece, parts: Option<Gathered<Parts>>, is_edge: bool, sorted: &mut Sorted) -> bool {
        let (was_edge, mut covered) =
            parts.map_or((false, Covered::default()), |gathered| (gathered.is_edge, gathered.parts.covered));
        covered.add(piece.offset..piece.offset + piece.len);
        match self.settings.partial_writes.fate(covered.reaches(self.settings.extent_bytes)) {
            Fate::Leave => {}
            Fate::Whole => {
                self.counts.completed_extents += 1;
                return true;
            }
            Fate::Fetch => push(&mut sorted.fetched, *piece),
            Fate::Wait => {
                let parts = Gathered { parts: Parts { covered, last: *piece }, is_edge: was_edge || is_edge };
                if let Some((key, left)) = self.parts.keep(piece.key, parts)
                    && (left.is_edge || self.model.is_worth_fetching(key))
                    && self.parts.affords_read()
                {
                    push(&mut sorted.fetched, left.parts.last);
                }
            }
        }
        false
    }

    fn insert_sorted(&mut self, sorted: &Sorted, watch: &mut impl Watch) -> Result<(), Error> {
        // What is merged with extents on the SSD is inserted before other content, unless it is staged.
        for piece in sorted.merged.iter().flatten() {
            let duplicate = self.model.insert_merged(piece)?;
            watch.written(piece, duplicate);
        }
        for piece in &self.misses {
            let duplicate = self.model.insert(piece)?;
            watch.written(piece, duplicate);
        }
        // They are read after the write has ended, unless they were read meanwhile.
        for piece in sorted.fetched.iter().flatten() {
            if self.model.has(piece.key) || self.front.as_ref().is_some_and(|front| front.holds(piece.key)) {
                continue;
            }
            self.model.request_arrived();
            self.counts.fetched_extents += 1;
            watch.fetched(piece);
            self.model.insert(piece)?;
        }
        Ok(())
    }
}
