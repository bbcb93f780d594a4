//! A super table: its buffer, and its incarnations.

use super::buffer::Buffer;
use super::filters::{Column, Filters};
use super::incarnation::{Incarnation, Labels, Sealed, order_of};
use super::plan::Plan;
use crate::Value;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// No incarnation.
pub(super) const NONE: u64 = u64::MAX;

/// Pages that may hold a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) sequence: u64,
    pub(super) pages: RangeInclusive<usize>,
    /// It is among the older half of the incarnations.
    pub(super) is_old: bool,
}

/// What RAM knows of a key.
pub(super) enum Probe {
    /// Its value.
    Value(Value),
    /// It is not there.
    Absent,
    /// It may be in one of these, newest first.
    OnFlash(SmallVec<[Candidate; 2]>),
}

struct Alive {
    incarnation: Incarnation,
    column: u32,
}

/// A super table.
pub(super) struct SuperTable {
    pub(super) buffer: Buffer,
    /// A full buffer that is not on the flash yet.
    pub(super) sealed: Option<Sealed>,
    /// Newest first.
    alive: VecDeque<Alive>,
    filters: Filters,
    free: Vec<u32>,
    /// Of the newest incarnation, also if it is not on the flash yet.
    pub(super) newest: u64,
    /// Entries in `alive`.
    pub(super) entries: u64,
    /// What was done under this table's lock: counting elsewhere would have threads wait for one another's counters.
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
            alive: VecDeque::new(),
            filters: Filters::new(filters),
            free: (0..filters.columns).rev().collect(),
            newest: NONE,
            entries: 0,
            inserts: 0,
            ram_hits: 0,
            ram_misses: 0,
        }
    }

    /// As [`probe`](Self::probe), for a look-up, which counts.
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

    /// What RAM knows.
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
        let half = self.alive.len() / 2;
        let maybe = self.alive.iter().enumerate().filter(|(_, a)| found.has(a.column));
        let candidates: SmallVec<_> = maybe
            .map(|(age, a)| Candidate {
                sequence: a.incarnation.sequence,
                pages: a.incarnation.fences.pages(order),
                is_old: age >= half,
            })
            .collect();
        if candidates.is_empty() { Probe::Absent } else { Probe::OnFlash(candidates) }
    }

    /// Whether something newer than the incarnation of that sequence number may know the key.
    pub(super) fn may_supersede(&self, key: &[u8], hash: u128, sequence: u64, plan: &Plan) -> bool {
        match self.probe(key, hash, plan) {
            Probe::Value(_) => true,
            // Of a removed key, or of one that the filters do not know.
            Probe::Absent => self.buffer.find(hash as u64, key).is_some() || self.sealed.is_some(),
            Probe::OnFlash(candidates) => candidates.iter().any(|c| c.sequence > sequence),
        }
    }

    /// Empties the buffer into an incarnation that is to be written.
    pub(super) fn seal(&mut self, sequence: u64, durable: u64, super_table: u32, replaying: bool, plan: &Plan) {
        let labels = Labels { sequence, before: self.newest, durable, super_table, replaying };
        self.sealed = Some(Sealed::new(&self.buffer, labels, plan, self.filters.shape()));
        self.buffer.clear();
        self.newest = sequence;
    }

    /// What was sealed is on the flash now.
    pub(super) fn settle(&mut self, plan: &Plan) {
        if let Some(sealed) = self.sealed.take() {
            self.adopt(sealed.incarnation, &sealed.filter, plan);
        }
    }

    /// Takes an incarnation that is on the flash, and is newer than all others.
    pub(super) fn adopt(&mut self, incarnation: Incarnation, filter: &Column, plan: &Plan) {
        if self.alive.len() >= plan.window as usize {
            self.drop_oldest();
        }
        let Some(column) = self.free.pop() else { return };
        self.filters.set(column, filter);
        self.entries += u64::from(incarnation.len);
        let at = self.alive.partition_point(|a| a.incarnation.sequence > incarnation.sequence);
        self.alive.insert(at, Alive { incarnation, column });
    }

    fn drop_oldest(&mut self) {
        if let Some(Alive { incarnation, column }) = self.alive.pop_back() {
            self.entries -= u64::from(incarnation.len);
            self.free.push(column);
        }
    }

    /// Gives up all incarnations up to that sequence number.
    pub(super) fn retire(&mut self, upto: u64) {
        while self.alive.back().is_some_and(|a| a.incarnation.sequence <= upto) {
            self.drop_oldest();
        }
    }

    /// Gives up all incarnations that `keep` refuses.
    pub(super) fn keep_only(&mut self, keep: impl Fn(u64) -> bool) {
        for Alive { incarnation, column } in std::mem::take(&mut self.alive) {
            if keep(incarnation.sequence) {
                self.alive.push_back(Alive { incarnation, column });
            } else {
                self.entries -= u64::from(incarnation.len);
                self.free.push(column);
            }
        }
    }

    /// The sequence number of the newest incarnation on the flash.
    pub(super) fn newest_alive(&self) -> u64 {
        self.alive.front().map_or(NONE, |a| a.incarnation.sequence)
    }
}
