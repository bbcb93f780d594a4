//! Duplicates that are to be recorded in the header of the next unit, so that a restart brings them back.

use std::collections::VecDeque;

/// The numbers of dups that have no record, or not any more, in the order in which they are to get one. Each number is in
/// the queue at most once, so that there are never more than dups.
#[derive(Debug, Default)]
pub(crate) struct Unrecorded {
    /// Whether there are records at all.
    is_on: bool,
    queue: VecDeque<u32>,
    /// One bit for each number: it is in the queue.
    queued: Vec<u64>,
}

impl Unrecorded {
    /// From now on, dups are recorded.
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn push(&mut self, number: u32) {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if !self.is_on {
            return;
        }
        if self.queued.len() <= word {
            self.queued.resize(word + 1, 0);
        }
        if self.queued[word] & bit == 0 {
            self.queued[word] |= bit;
            self.queue.push_back(number);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        let number = self.queue.pop_front()?;
        self.queued[number as usize / 64] &= !(1 << (number % 64));
        Some(number)
    }

    pub(crate) fn ram_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<u32>() + self.queued.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_waits_once() {
        let mut waiting = Unrecorded::default();
        waiting.push(3);
        assert_eq!(waiting.len(), 0, "there are no records");
        waiting.begin();
        [200, 3, 200, 64, 3].into_iter().for_each(|number| waiting.push(number));
        assert_eq!([(); 4].map(|()| waiting.pop()), [Some(200), Some(3), Some(64), None]);
        waiting.push(3);
        assert_eq!(waiting.len(), 1);
    }
}
