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
    /// By extent: the number of its newest content, and whether it was used again.
    newest: HashMap<ExtentKey, (u64, bool)>,
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

    /// Whether an extent is there, which is used again.
    pub(super) fn use_again(&mut self, key: ExtentKey) -> bool {
        self.newest.get_mut(&key).map(|(_, used)| *used = true).is_some()
    }

    pub(super) fn push(&mut self, piece: &Piece) {
        self.next += 1;
        self.newest.insert(piece.key, (self.next, false));
        self.queue.push_back((self.next, *piece));
    }

    /// Whether an extent is there.
    pub(super) fn has(&self, key: ExtentKey) -> bool {
        self.newest.contains_key(&key)
    }

    /// Forgets an extent; whether it was there.
    pub(super) fn remove(&mut self, key: ExtentKey) -> bool {
        self.newest.remove(&key).is_some()
    }

    /// What waited for longest, as soon as more waits than there is room for; and whether it was used again.
    pub(super) fn pop(&mut self) -> Option<(Piece, bool)> {
        if self.newest.len() > self.len_max { self.pop_any() } else { None }
    }

    /// What waited for longest.
    pub(super) fn pop_any(&mut self) -> Option<(Piece, bool)> {
        while let Some((number, piece)) = self.queue.pop_front() {
            if let Some((newest, used)) = self.newest.get(&piece.key).copied()
                && newest == number
            {
                self.newest.remove(&piece.key);
                return Some((piece, used));
            }
        }
        None
    }

    pub(super) fn ram_bytes(&self) -> usize {
        self.newest.allocation_size() + self.queue.capacity() * size_of::<(u64, Piece)>()
    }
}
