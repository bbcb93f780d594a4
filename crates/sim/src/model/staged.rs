//! Content that waits in RAM before it is packed, so that what is overwritten soon never reaches the SSD: the server's insertion
//! queue, and what the paper's NVRAM does for writes (Nitro §4).

use crate::workload::Piece;
use hashbrown::HashMap;
use nitro_units::ExtentKey;
use std::collections::VecDeque;

/// The buffer: first in, first out.
#[derive(Default)]
pub(super) struct Staged {
    queue: VecDeque<(u64, Piece)>,
    /// By extent: the number of its newest content.
    newest: HashMap<ExtentKey, u64>,
    next: u64,
    len_max: usize,
}

impl Staged {
    /// Room for so many extents; 0: nothing waits.
    pub(super) fn new(len_max: u64) -> Self {
        Self { len_max: usize::try_from(len_max).unwrap_or(usize::MAX), ..Self::default() }
    }

    pub(super) const fn is_used(&self) -> bool {
        self.len_max > 0
    }

    pub(super) fn contains(&self, key: ExtentKey) -> bool {
        self.newest.contains_key(&key)
    }

    pub(super) fn push(&mut self, piece: &Piece) {
        self.next += 1;
        self.newest.insert(piece.key, self.next);
        self.queue.push_back((self.next, *piece));
    }

    /// Forgets an extent; whether it was there.
    pub(super) fn remove(&mut self, key: ExtentKey) -> bool {
        self.newest.remove(&key).is_some()
    }

    /// What waited for longest, as soon as more waits than there is room for.
    pub(super) fn pop(&mut self) -> Option<Piece> {
        if self.newest.len() > self.len_max { self.pop_any() } else { None }
    }

    /// What waited for longest.
    pub(super) fn pop_any(&mut self) -> Option<Piece> {
        while let Some((number, piece)) = self.queue.pop_front() {
            if self.newest.get(&piece.key) == Some(&number) {
                self.newest.remove(&piece.key);
                return Some(piece);
            }
        }
        None
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.newest.allocation_size() + self.queue.capacity() * size_of::<(u64, Piece)>()
    }
}
