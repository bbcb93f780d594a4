//! The recorded writes and flushes of a device, so that a power failure can be simulated at any of them later.

use super::medium::{Loss, Medium, SECTOR_BYTES};
use crate::Rng;
use bytes::Bytes;

enum Change {
    Write(u64, Bytes),
    Flush,
}

/// The writes and flushes of a device in their order; `base` is the content before them.
pub(super) struct History {
    base: Vec<u8>,
    changes: Vec<Change>,
}

impl History {
    pub(super) fn new(base: Vec<u8>) -> Self {
        Self { base, changes: Vec::new() }
    }

    pub(super) fn write(&mut self, offset: u64, data: Bytes) {
        self.changes.push(Change::Write(offset, data));
    }

    pub(super) fn flush(&mut self) {
        self.changes.push(Change::Flush);
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(super) fn is_write(&self, change: usize) -> bool {
        matches!(self.changes[change], Change::Write(..))
    }

    /// A content that a power failure before the end of the change `upto` may leave: each sector written since the last
    /// flush, also by that change, is old or new.
    pub(super) fn crashed(&self, upto: usize, random: &mut Rng) -> Vec<u8> {
        let mut medium = Medium::of(self.base.clone());
        for (number, change) in self.changes.iter().enumerate().take(upto + 1) {
            match change {
                Change::Write(offset, data) => {
                    let ticket = medium.begin(offset / SECTOR_BYTES as u64, data.clone());
                    medium.end(ticket, false);
                }
                Change::Flush if number < upto => medium.flush_ends(&medium.flush_begins()),
                Change::Flush => {}
            }
        }
        let loss = Loss::some(random);
        medium.lose_power(random, loss);
        medium.image()
    }
}
