//! A super table: its buffer, its incarnations and their filters.

use super::buffer::Buffer;
use super::filters::{Column, Filters};
use super::incarnation::{Incarnation, Labels, Sealed, order_of};
use super::plan::Plan;
use crate::Value;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The sequence number for "no incarnation".
pub(super) const NONE: u64 = u64::MAX;

/// Pages of an incarnation that may hold a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) sequence: u64,
    pub(super) pages: RangeInclusive<usize>,
    /// Whether the incarnation is in the older half.
    pub(super) is_old: bool,
}

/// The result of a search in RAM.
pub(super) enum Probe {
    /// The value of the key.
    Value(Value),
    /// The key is absent.
    Absent,
    /// The key may be in one of these incarnations, newest first.
    OnFlash(SmallVec<[Candidate; 2]>),
}

/// A super table.
pub(super) struct SuperTable {
    pub(super) buffer: Buffer,
    /// A full buffer that is not on the flash yet.
    pub(super) sealed: Option<Sealed>,
    /// Indexed by column of the filters, so that a look-up accesses only the incarnations that may hold its key.
    alive: Box<[Option<Incarnation>]>,
    /// The columns of the alive incarnations, newest first.
    order: VecDeque<u32>,
    filters: Arc<Filters>,
    free: Vec<u32>,
    /// The sequence number of the newest incarnation, even if it is not on the flash yet.
    pub(super) newest: u64,
    /// The number of entries in `alive`.
    pub(super) entries: u64,
    /// Counters, kept under the lock of this table, so that threads do not contend for shared counters.
    pub(super) inserts: u64,
    pub(super) ram_hits: u64,
    pub(super) ram_misses: u64,
}

impl SuperTable {
    pub(super) fn new(plan: &Plan) -> Self {
        let filters = plan.filter_shape();
        Self {
            buffer: Buffer::new(plan.shape, plan.entries_per_incarnation() as usize),
            sealed: None,
            alive: (0..filters.columns).map(|_| None).collect(),
            order: VecDeque::new(),
            filters: Arc::new(Filters::new(filters)),
            free: (0..filters.columns).rev().collect(),
            newest: NONE,
            entries: 0,
            inserts: 0,
            ram_hits: 0,
            ram_misses: 0,
        }
    }

    /// The filters, to be prefetched without a lock.
    pub(super) fn filters(&self) -> Arc<Filters> {
        Arc::clone(&self.filters)
    }

    /// As [`probe`](Self::probe); also counts the look-up.
    #[inline]
    pub(super) fn look_up(&mut self, key: &[u8], hash: u128, plan: &Plan) -> Probe {
        let probe = self.probe(key, hash, plan);
        match &probe {
            Probe::Value(_) => self.ram_hits += 1,
            Probe::Absent => self.ram_misses += 1,
            Probe::OnFlash(_) => {}
        }
        probe
    }

    /// Searches the buffers and the filters in RAM.
    #[inline]
    pub(super) fn probe(&self, key: &[u8], hash: u128, plan: &Plan) -> Probe {
        let known =
            |value: &[u8], removed| if removed { Probe::Absent } else { Probe::Value(Value::from_slice(value)) };
        if let Some(entry) = self.buffer.find(hash as u64, key) {
            return known(&entry.bytes[key.len()..], entry.removed);
        }
        let order = order_of(hash, plan.super_bits());
        if let Some((value, removed)) = self.sealed.as_ref().and_then(|s| s.find(key, order, plan)) {
            return known(&value, removed);
        }
        let found = self.filters.probe(hash as u64);
        if found.is_empty() {
            return Probe::Absent;
        }
        let is_old_from = self.sequence_at(self.order.len() / 2);
        let maybe = found.iter().filter_map(|column| self.alive[column as usize].as_ref());
        let mut candidates: SmallVec<[Candidate; 2]> = maybe
            .map(|incarnation| Candidate {
                sequence: incarnation.sequence,
                pages: incarnation.fences.pages(order),
                is_old: is_old_from.is_some_and(|from| incarnation.sequence <= from),
            })
            .collect();
        candidates.sort_unstable_by_key(|c| std::cmp::Reverse(c.sequence));
        if candidates.is_empty() { Probe::Absent } else { Probe::OnFlash(candidates) }
    }

    /// Whether anything newer than the incarnation with this sequence number may hold the key.
    pub(super) fn may_supersede(&self, key: &[u8], hash: u128, sequence: u64, plan: &Plan) -> bool {
        match self.probe(key, hash, plan) {
            Probe::Value(_) => true,
            // The key was removed, or the filters exclude it.
            Probe::Absent => self.buffer.find(hash as u64, key).is_some() || self.sealed.is_some(),
            Probe::OnFlash(candidates) => candidates.iter().any(|c| c.sequence > sequence),
        }
    }

    /// Seals the buffer: its entries become an incarnation that is to be written, with a reference to the previous one.
    pub(super) fn seal(&mut self, labels: Labels, plan: &Plan) {
        let labels = Labels { before: self.newest, ..labels };
        self.sealed = Some(Sealed::new(&self.buffer, labels, plan, self.filters.shape()));
        self.buffer.clear();
        self.newest = labels.sequence;
    }

    /// The sealed buffer is on the flash: its incarnation becomes alive.
    pub(super) fn settle(&mut self, plan: &Plan) {
        if let Some(sealed) = self.sealed.take() {
            self.adopt(sealed.incarnation, &sealed.filter, plan);
        }
    }

    /// The sequence number of the incarnation of this age; the newest has age 0.
    fn sequence_at(&self, age: usize) -> Option<u64> {
        let column = *self.order.get(age)?;
        self.alive[column as usize].as_ref().map(|i| i.sequence)
    }

    /// Adds an incarnation that is on the flash.
    pub(super) fn adopt(&mut self, incarnation: Incarnation, filter: &Column, plan: &Plan) {
        if self.order.len() >= plan.window as usize {
            self.drop_oldest();
        }
        let Some(column) = self.free.pop() else { return };
        self.filters.set(column, filter);
        self.entries += u64::from(incarnation.len);
        let newer = |c: &u32| self.alive[*c as usize].as_ref().is_some_and(|a| a.sequence > incarnation.sequence);
        let at = self.order.partition_point(newer);
        self.order.insert(at, column);
        self.alive[column as usize] = Some(incarnation);
    }

    fn drop_oldest(&mut self) {
        if let Some(column) = self.order.pop_back() {
            self.release(column);
        }
    }

    fn release(&mut self, column: u32) {
        if let Some(incarnation) = self.alive[column as usize].take() {
            self.entries -= u64::from(incarnation.len);
        }
        self.free.push(column);
    }

    /// Discards all incarnations up to this sequence number.
    pub(super) fn retire(&mut self, upto: u64) {
        let oldest = |table: &Self| table.order.len().checked_sub(1).and_then(|age| table.sequence_at(age));
        while oldest(self).is_some_and(|sequence| sequence <= upto) {
            self.drop_oldest();
        }
    }

    /// Discards all incarnations for which `keep` returns false.
    pub(super) fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        for column in std::mem::take(&mut self.order) {
            if self.alive[column as usize].as_ref().is_some_and(|i| keep(i.sequence)) {
                self.order.push_back(column);
            } else {
                self.release(column);
            }
        }
    }

    /// The sequence number of the newest incarnation on the flash.
    pub(super) fn newest_alive(&self) -> u64 {
        self.sequence_at(0).unwrap_or(NONE)
    }
}
