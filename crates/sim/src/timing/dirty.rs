//! The origin's NVRAM (Nitro §3, §5.3): what is written waits in it, is written over and read there, and leaves for the disks
//! together with its neighbours.

use crate::policies::nodes::{List, Nodes};
use crate::workload::Piece;

/// Destaging begins where so much of it is full, in percent; the rest takes bursts.
const DESTAGE_PERCENT: u64 = 75;
/// Extents that go to the disks together, at most.
const RUN_EXTENTS: usize = 32;

/// What waits of an extent.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    /// As it was written last; its range goes from the first to the last byte that was written.
    piece: Piece,
    /// The cache knew the content.
    known: bool,
}

/// What goes to the disks in one operation.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Neighbours, in order.
    pub(super) pieces: Vec<Piece>,
    /// How many of them have a content that the cache knew.
    pub(super) known: usize,
    /// Bytes that come free when it is done.
    pub(super) bytes: u64,
}

/// The memory. Extents leave in the order in which they were last written.
pub(super) struct Nvram {
    names: Nodes,
    order: List,
    /// By the number of the extent's node.
    waiting: Vec<Waiting>,
    /// Bytes that wait for the disks, and those on their way.
    waiting_bytes: u64,
    leaving_bytes: u64,
    limit_bytes: u64,
    extent_bytes: u32,
}

impl Nvram {
    pub(super) fn new(limit_bytes: u64, extent_bytes: u32) -> Self {
        let (names, order, waiting) = (Nodes::new(0), List::default(), Vec::new());
        Self { names, order, waiting, waiting_bytes: 0, leaving_bytes: 0, limit_bytes, extent_bytes }
    }

    /// Takes what is written.
    pub(super) fn write(&mut self, piece: &Piece, known: bool) {
        let key = piece.key.raw();
        let Some(node) = self.names.find(key) else {
            let node = self.names.add(key);
            let new = Waiting { piece: *piece, known };
            match self.waiting.get_mut(node as usize) {
                Some(old) => *old = new,
                None => self.waiting.push(new),
            }
            self.names.push(&mut self.order, node);
            self.waiting_bytes += u64::from(piece.len);
            return;
        };
        let old = self.waiting[node as usize].piece;
        let from = old.offset.min(piece.offset);
        let to = (old.offset + old.len).max(piece.offset + piece.len);
        self.waiting_bytes += u64::from(to - from - old.len);
        let mut all = *piece;
        (all.offset, all.len) = (from, to - from);
        self.waiting[node as usize] = Waiting { piece: all, known };
        self.names.refresh(&mut self.order, node);
    }

    /// Whether it has all that a read asks for.
    pub(super) fn has(&self, piece: &Piece) -> bool {
        self.names.find(piece.key.raw()).is_some_and(|node| {
            let waiting = &self.waiting[node as usize].piece;
            waiting.offset <= piece.offset && piece.offset + piece.len <= waiting.offset + waiting.len
        })
    }

    /// Whether writers have to wait.
    pub(super) const fn is_full(&self) -> bool {
        self.waiting_bytes + self.leaving_bytes > self.limit_bytes
    }

    /// What is to go to the disks next: the extent that was not written for longest, with its neighbours.
    pub(super) fn destage(&mut self) -> Option<Run> {
        if self.waiting_bytes <= self.limit_bytes / 100 * DESTAGE_PERCENT || self.order.len() == 0 {
            return None;
        }
        let oldest = self.waiting[self.order.oldest() as usize].piece;
        let (mut first, mut last) = (oldest, oldest);
        let mut extents = 1;
        while extents < RUN_EXTENTS
            && let Some(next) = self.neighbour(last.key.raw().wrapping_add(1))
            && last.offset + last.len == self.extent_bytes
            && next.offset == 0
        {
            last = next;
            extents += 1;
        }
        while extents < RUN_EXTENTS
            && let Some(next) = self.neighbour(first.key.raw().wrapping_sub(1))
            && next.offset + next.len == self.extent_bytes
            && first.offset == 0
        {
            first = next;
            extents += 1;
        }
        let mut run = Run::default();
        for key in first.key.raw()..=last.key.raw() {
            let Some(node) = self.names.find(key) else { continue };
            let Waiting { piece, known } = self.waiting[node as usize];
            self.names.unlink(&mut self.order, node);
            self.names.drop_node(node);
            run.pieces.push(piece);
            run.known += usize::from(known);
            run.bytes += u64::from(piece.len);
        }
        self.waiting_bytes -= run.bytes;
        self.leaving_bytes += run.bytes;
        Some(run)
    }

    fn neighbour(&self, key: u64) -> Option<Piece> {
        self.names.find(key).map(|node| self.waiting[node as usize].piece)
    }

    /// A run has reached the disks.
    pub(super) const fn free(&mut self, bytes: u64) {
        self.leaving_bytes -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cache::{ExtentIndex, ExtentKey, Fingerprint, ObjectId};
    use nitro_trace::Op;

    fn piece(index: u64, offset: u32, len: u32) -> Piece {
        let key = ExtentKey::new(ObjectId(3), ExtentIndex(index));
        Piece::new((0, Op::Write, true), key, (offset, len), Fingerprint([0; 20]), None)
    }

    #[test]
    fn what_is_written_again_takes_no_more_room_and_leaves_later() {
        let mut nvram = Nvram::new(100 * 8192, 8192);
        (0..50).for_each(|index| nvram.write(&piece(index * 10, 0, 8192), false));
        (0..50).for_each(|_| nvram.write(&piece(0, 0, 8192), false));
        assert!(nvram.destage().is_none());
        (50..76).for_each(|index| nvram.write(&piece(index * 10, 0, 8192), true));
        let run = nvram.destage().unwrap();
        assert_eq!((run.pieces, run.known, run.bytes), (vec![piece(10, 0, 8192)], 0, 8192));
        assert!(nvram.destage().is_none() && nvram.has(&piece(0, 0, 512)) && !nvram.has(&piece(10, 0, 512)));
    }

    #[test]
    fn neighbours_leave_together() {
        let mut nvram = Nvram::new(4 * 8192, 8192);
        nvram.write(&piece(7, 0, 8192), true);
        nvram.write(&piece(6, 4096, 4096), false);
        nvram.write(&piece(8, 0, 512), false);
        nvram.write(&piece(8, 512, 512), true);
        nvram.write(&piece(9, 0, 8192), false);
        nvram.write(&piece(5, 0, 8192), false);
        nvram.write(&piece(20, 0, 8192), false);
        assert!(nvram.is_full() && nvram.has(&piece(8, 100, 900)) && !nvram.has(&piece(6, 0, 8192)));
        let run = nvram.destage().unwrap();
        // 9 begins where nothing of 8 goes, and nothing goes before the middle of 6.
        assert_eq!(run.pieces, [piece(6, 4096, 4096), piece(7, 0, 8192), piece(8, 0, 1024)]);
        assert_eq!((run.known, run.bytes), (2, 4096 + 8192 + 1024));
        assert!(nvram.is_full());
        nvram.free(run.bytes);
        assert!(!nvram.is_full());
    }
}
