//! Changes of the map from chunks to objects, as runs: a terabyte of holes is one of them.

use crate::format::{Id, Run};
use std::collections::BTreeMap;

/// Changes, of which the last one of a chunk counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Runs {
    /// By the first chunk; they do not overlap.
    by_first: BTreeMap<u64, (u64, Id)>,
}

impl Runs {
    /// The number of runs.
    pub(crate) fn len(&self) -> usize {
        self.by_first.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_first.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.by_first.iter().map(|(first, (count, id))| Run { first: *first, count: *count, id: *id })
    }

    /// The object of a chunk; `None`: it has not changed.
    pub(crate) fn get(&self, chunk: u64) -> Option<Id> {
        let (first, (count, id)) = self.by_first.range(..=chunk).next_back()?;
        (chunk - first < *count).then_some(*id)
    }

    /// The chunks of a range that have got an object, with that.
    pub(crate) fn within(&self, first: u64, count: u64) -> impl Iterator<Item = (u64, Id)> + '_ {
        let objects = self.by_first.range(first..first + count).filter(|(_, (_, id))| !id.is_hole());
        objects.map(|(chunk, (_, id))| (*chunk, *id))
    }

    /// Changes chunks: to one object, or holes.
    pub(crate) fn set(&mut self, first: u64, count: u64, id: Id) {
        let (mut begin, mut end) = (first, first + count);
        self.cut_out(begin, end);
        if id.is_hole() {
            let before = self.by_first.range(..begin).next_back().map(|(at, run)| (*at, *run));
            if let Some((at, (len, _))) = before.filter(|(at, (len, id))| at + len == begin && id.is_hole()) {
                debug_assert!(len > 0, "no run is empty");
                self.by_first.remove(&at);
                begin = at;
            }
            if let Some((len, _)) = self.by_first.get(&end).copied().filter(|(_, id)| id.is_hole()) {
                self.by_first.remove(&end);
                end += len;
            }
        }
        self.by_first.insert(begin, (end - begin, id));
    }

    fn cut_out(&mut self, begin: u64, end: u64) {
        let before = self.by_first.range(..begin).next_back().filter(|(at, (len, _))| **at + len > begin);
        let from = before.map_or(begin, |(at, _)| *at);
        let touched: Vec<u64> = self.by_first.range(from..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some((len, id)) = self.by_first.remove(&at) else { continue };
            if at < begin {
                self.by_first.insert(at, (begin - at, id));
            }
            if at + len > end {
                self.by_first.insert(end, (at + len - end, id));
            }
        }
    }

    /// Makes all changes of `newer`, too.
    pub(crate) fn add(&mut self, newer: &Self) {
        newer.iter().for_each(|run| self.set(run.first, run.count, run.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_testkit::Rng;

    #[test]
    fn runs_are_what_a_table_of_all_chunks_says() {
        for seed in 0..50 {
            let (mut random, mut runs, mut table) = (Rng::new(seed), Runs::default(), [None; 64]);
            for step in 0..100 {
                let first = random.below(64);
                let is_hole = random.one_in(2);
                let count = if is_hole { 1 + random.below(64 - first) } else { 1 };
                let id = if is_hole { Id::HOLE } else { Id { generation: 1, nonce: step } };
                runs.set(first, count, id);
                table[first as usize..(first + count) as usize].fill(Some(id));
                let found: Vec<_> = (0..64).map(|chunk| runs.get(chunk)).collect();
                assert_eq!(found, table, "seed {seed}");
                let all: Vec<_> = runs.iter().collect();
                assert!(all.is_sorted_by(|a, b| a.first + a.count <= b.first), "seed {seed}");
                assert!(all.windows(2).all(|pair| {
                    !(pair[0].id.is_hole() && pair[1].id.is_hole() && pair[0].first + pair[0].count == pair[1].first)
                }));
            }
        }
    }
}
