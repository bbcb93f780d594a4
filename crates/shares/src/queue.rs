//! The requests of one group that wait, and what it has had.

use crate::costs::How;
use crate::terms::{Tags, Terms};
use crate::{Running, Workload};
use nitro_port::WorkKind;
use std::collections::VecDeque;
use std::time::Duration;

/// The number of reads at random that may overtake a write of the same group.
const OVERTAKEN_MAX: u32 = 16;

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) ticket: u64,
    pub(crate) arrived: Duration,
    pub(crate) how: How,
    pub(crate) bytes: u64,
    pub(crate) token: T,
}

/// The requests of a group in a workload.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    pub(crate) workload: Workload,
    pub(crate) group: u64,
    pub(crate) terms: Terms,
    pub(crate) tags: Tags,
    /// Where the last request ended, in bytes.
    end: u64,
    pub(crate) under_way: u32,
    /// Reads at random, and all others.
    waiting: [VecDeque<Waiting<T>>; 2],
    /// Reads that have overtaken the first of the others.
    overtaken: u32,
}

impl<T> Queue<T> {
    pub(crate) fn new(workload: Workload, group: u64, terms: Terms) -> Self {
        let waiting = [VecDeque::new(), VecDeque::new()];
        Self { workload, group, terms, tags: Tags::default(), end: u64::MAX, under_way: 0, waiting, overtaken: 0 }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.under_way == 0 && self.waiting() == 0
    }

    /// Notes where a request is, and returns what decides its cost.
    pub(crate) fn locate(&mut self, offset: u64, bytes: u64) -> How {
        let how = if offset == self.end { How::Continues } else { How::Seeks };
        self.end = offset.saturating_add(bytes);
        how
    }

    pub(crate) fn push(&mut self, kind: WorkKind, waiting: Waiting<T>) {
        self.waiting[usize::from(kind != WorkKind::RandomRead)].push_back(waiting);
    }

    fn next_is_read(&self) -> bool {
        !self.waiting[0].is_empty() && (self.waiting[1].is_empty() || self.overtaken < OVERTAKEN_MAX)
    }

    /// The request that is next: reads before writes.
    pub(crate) fn first(&self) -> Option<&Waiting<T>> {
        self.waiting[usize::from(!self.next_is_read())].front()
    }

    pub(crate) fn pop(&mut self) -> Option<Waiting<T>> {
        let is_read = self.next_is_read();
        self.overtaken = if is_read && !self.waiting[1].is_empty() { self.overtaken + 1 } else { 0 };
        self.waiting[usize::from(!is_read)].pop_front()
    }

    /// Removes a request that is given up; false if it does not wait any more.
    pub(crate) fn remove(&mut self, ticket: u64) -> bool {
        let before = self.waiting();
        self.waiting.iter_mut().for_each(|waiting| waiting.retain(|other| other.ticket != ticket));
        self.waiting() < before
    }

    /// A request of this group that begins.
    pub(crate) fn running(&mut self, index: usize, (how, bytes): (How, u64), cost_ns: f64, now: Duration) -> Running {
        self.under_way += 1;
        Running { queue: Some(index), how, bytes, cost_ns, begun: now }
    }
}
