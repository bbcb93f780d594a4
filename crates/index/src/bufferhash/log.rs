//! The order of incarnations. The flash is one circular log of slots: an incarnation with sequence number *n* is
//! written to slot *n* modulo the number of slots, where it replaces the oldest one.

use std::collections::BTreeSet;

/// The owner of a free slot.
const FREE: u32 = u32::MAX;

/// The state of the slots.
pub(super) struct Log {
    next: u64,
    /// The sequence numbers that were assigned, and whose incarnations are not on the flash yet.
    under_way: BTreeSet<u64>,
    /// The super table whose incarnation is in each slot.
    owners: Box<[u32]>,
    /// All incarnations with a lower sequence number are durable.
    pub(super) durable: u64,
}

impl Log {
    pub(super) fn new(slots: u32, next: u64) -> Self {
        Self { next, under_way: BTreeSet::new(), owners: vec![FREE; slots as usize].into(), durable: next }
    }

    fn slots(&self) -> u64 {
        self.owners.len() as u64
    }

    /// The sequence number that is assigned next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Assigns a sequence number, unless its slot is still being written for an earlier one.
    pub(super) fn give(&mut self) -> Option<u64> {
        let oldest = self.under_way.first().copied().unwrap_or(self.next);
        if self.next - oldest >= self.slots() {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        self.under_way.insert(sequence);
        Some(sequence)
    }

    /// The incarnation that this one replaces: its super table and sequence number.
    pub(super) fn victim(&mut self, sequence: u64) -> Option<(usize, u64)> {
        let slot = (sequence % self.slots()) as usize;
        let owner = std::mem::replace(&mut self.owners[slot], FREE);
        let victim = sequence.checked_sub(self.slots())?;
        (owner != FREE).then_some((owner as usize, victim))
    }

    /// Records that an incarnation is on the flash.
    pub(super) fn settle(&mut self, sequence: u64, super_table: usize) {
        self.under_way.remove(&sequence);
        self.own(sequence, super_table);
    }

    /// Records that an incarnation was found on the flash when the index was opened.
    pub(super) fn own(&mut self, sequence: u64, super_table: usize) {
        self.owners[(sequence % self.slots()) as usize] = super_table as u32;
    }

    /// The sequence number below which all incarnations are on the flash, although perhaps not durable.
    pub(super) fn complete(&self) -> u64 {
        self.under_way.first().copied().unwrap_or(self.next)
    }
}
