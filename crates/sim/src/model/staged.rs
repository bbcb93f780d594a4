//! Staging: content waits in RAM before it is packed, so content that is overwritten soon never reaches the SSD. The
//! server's insertion queue does this, and the paper's NVRAM for writes (Nitro §4).

use crate::workload::Piece;
use hashbrown::HashMap;
use nitro_units::ExtentKey;
use std::collections::VecDeque;

/// The staging buffer, a FIFO queue.
#[derive(Default)]
pub(super) struct Staged {
    queue: VecDeque<(u64, Piece)>,
    /// By extent: the number of its newest content, and whether it was used since.
    newest: HashMap<ExtentKey, (u64, bool)>,
    next: u64,
    len_max: usize,
}

impl Staged {
    /// A buffer for `len_max` extents; 0: content does not wait.
    pub(super) fn new(len_max: u64) -> Self {
        Self { len_max: usize::try_from(len_max).unwrap_or(usize::MAX), ..Self::default() }
    }

    pub(super) const fn is_used(&self) -> bool {
        self.len_max > 0
    }

    /// Notes the use of an extent; returns whether it is in the buffer.
    pub(super) fn use_again(&mut self, key: ExtentKey) -> bool {
        self.newest.get_mut(&key).map(|(_, used)| *used = true).is_some()
    }

    pub(super) fn push(&mut self, piece: &Piece) {
        self.next += 1;
        self.newest.insert(piece.key, (self.next, false));
        self.queue.push_back((self.next, *piece));
    }

    /// Whether an extent is in the buffer.
    pub(super) fn has(&self, key: ExtentKey) -> bool {
        self.newest.contains_key(&key)
    }

    /// Removes an extent; returns whether it was in the buffer.
    pub(super) fn remove(&mut self, key: ExtentKey) -> bool {
        self.newest.remove(&key).is_some()
    }

    /// Removes the oldest content if the buffer is over its bound; returns it, and whether it was used since.
    pub(super) fn pop(&mut self) -> Option<(Piece, bool)> {
        if self.newest.len() > self.len_max { self.pop_any() } else { None }
    }

    /// Removes the oldest content.
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
