//! The dirty list of write-back (Nitro §3.1): what is written waits in the cache, is written over there, and leaves for the disks
//! together with its neighbours.

use crate::policies::nodes::{List, Nodes};
use crate::workload::Piece;

/// Destaging begins where the list is so full, in percent; the rest takes bursts.
const DESTAGE_PERCENT: u64 = 75;
/// Extents that go to the disks together, at most.
const RUN_EXTENTS: usize = 32;

/// A dirty extent.
#[derive(Debug, Clone, Copy)]
struct Dirty {
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
}

/// The list. Extents leave in the order in which they were last written.
pub(super) struct DirtyList {
    names: Nodes,
    order: List,
    /// By the number of the extent's node.
    dirty: Vec<Dirty>,
    /// Extents on their way to the disks.
    leaving: u64,
    /// Extents that there is room for.
    limit: u64,
    extent_bytes: u32,
}

impl DirtyList {
    pub(super) fn new(extent_bytes: u32) -> Self {
        Self { names: Nodes::new(0), order: List::default(), dirty: Vec::new(), leaving: 0, limit: 0, extent_bytes }
    }

    /// Gives it room for so many extents.
    pub(super) const fn set_limit(&mut self, extents: u64) {
        self.limit = extents;
    }

    /// Takes what is written.
    pub(super) fn write(&mut self, piece: &Piece, known: bool) {
        let key = piece.key.raw();
        let Some(node) = self.names.find(key) else {
            let node = self.names.add(key);
            let new = Dirty { piece: *piece, known };
            match self.dirty.get_mut(node as usize) {
                Some(old) => *old = new,
                None => self.dirty.push(new),
            }
            self.names.push(&mut self.order, node);
            return;
        };
        let old = self.dirty[node as usize].piece;
        let from = old.offset.min(piece.offset);
        let to = (old.offset + old.len).max(piece.offset + piece.len);
        let mut all = *piece;
        (all.offset, all.len) = (from, to - from);
        self.dirty[node as usize] = Dirty { piece: all, known };
        self.names.refresh(&mut self.order, node);
    }

    /// Whether writers have to wait.
    pub(super) fn is_full(&self) -> bool {
        u64::from(self.order.len()) + self.leaving > self.limit
    }

    /// What is to go to the disks next: the extent that was not written for longest, with its neighbours.
    pub(super) fn destage(&mut self) -> Option<Run> {
        if u64::from(self.order.len()) <= self.limit * DESTAGE_PERCENT / 100 {
            return None;
        }
        let oldest = self.dirty[self.order.oldest() as usize].piece;
        let (mut first, mut last) = (oldest, oldest);
        let mut extents = 1;
        while extents < RUN_EXTENTS
            && let Some(next) = self.get(last.key.raw().wrapping_add(1))
            && last.offset + last.len == self.extent_bytes
            && next.offset == 0
        {
            last = next;
            extents += 1;
        }
        while extents < RUN_EXTENTS
            && let Some(next) = self.get(first.key.raw().wrapping_sub(1))
            && next.offset + next.len == self.extent_bytes
            && first.offset == 0
        {
            first = next;
            extents += 1;
        }
        let mut run = Run::default();
        for key in first.key.raw()..=last.key.raw() {
            let Some(node) = self.names.find(key) else { continue };
            let Dirty { piece, known } = self.dirty[node as usize];
            self.names.unlink(&mut self.order, node);
            self.names.drop_node(node);
            run.pieces.push(piece);
            run.known += usize::from(known);
        }
        self.leaving += run.pieces.len() as u64;
        Some(run)
    }

    fn get(&self, key: u64) -> Option<Piece> {
        self.names.find(key).map(|node| self.dirty[node as usize].piece)
    }

    /// So many extents have reached the disks.
    pub(super) const fn left(&mut self, extents: u64) {
        self.leaving -= extents;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_trace::Op;
    use nitro_units::{ClassId, ExtentIndex, ExtentKey, Fingerprint, ObjectId};

    fn piece(index: u64, offset: u32, len: u32) -> Piece {
        let key = ExtentKey::new(ObjectId(3), ExtentIndex(index));
        Piece::new((0, Op::Write, ClassId::default(), true), key, (offset, len), Fingerprint([0; 20]), None)
    }

    #[test]
    fn what_is_written_again_takes_no_more_room_and_leaves_later() {
        let mut list = DirtyList::new(8192);
        list.set_limit(100);
        (0..50).for_each(|index| list.write(&piece(index * 10, 0, 8192), false));
        (0..50).for_each(|_| list.write(&piece(0, 0, 8192), false));
        assert!(list.destage().is_none());
        (50..76).for_each(|index| list.write(&piece(index * 10, 0, 8192), true));
        let run = list.destage().unwrap();
        assert_eq!((run.pieces, run.known), (vec![piece(10, 0, 8192)], 0));
        assert!(list.destage().is_none());
    }

    #[test]
    fn neighbours_leave_together() {
        let mut list = DirtyList::new(8192);
        list.set_limit(5);
        list.write(&piece(7, 0, 8192), true);
        list.write(&piece(6, 4096, 4096), false);
        list.write(&piece(8, 0, 512), false);
        list.write(&piece(8, 512, 512), true);
        list.write(&piece(9, 0, 8192), false);
        list.write(&piece(5, 0, 8192), false);
        assert!(!list.is_full());
        list.write(&piece(20, 0, 8192), false);
        assert!(list.is_full());
        let run = list.destage().unwrap();
        // 9 begins where nothing of 8 goes, and nothing goes before the middle of 6.
        assert_eq!(run.pieces, [piece(6, 4096, 4096), piece(7, 0, 8192), piece(8, 0, 1024)]);
        assert_eq!(run.known, 2);
        assert!(list.is_full(), "until it is written");
        list.left(3);
        assert!(!list.is_full());
    }
}
