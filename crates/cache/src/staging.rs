//! Staging: clean content waits in RAM before it is packed into a write-evict unit. Content that is overwritten meanwhile
//! never reaches the SSD (the paper's NVRAM does this for writes, Nitro §4).

use std::collections::VecDeque;

/// Contents are packed in batches of so many bytes, at most an eighth of the RAM: to wake the packing thread for every content
/// costs more than to pack it.
const BATCH_BYTES_MAX: u64 = 2 << 20;

/// Contents that wait, in the order in which they came. A content is *void* once its extent was written or trimmed. A void
/// content keeps its memory until it is taken or swept.
#[derive(Debug)]
pub struct Staging<J> {
    jobs: VecDeque<J>,
    bytes_max: u64,
    /// The RAM was full, and not enough of it is free again.
    draining: bool,
    /// Contents that came since the last sweep.
    unswept: usize,
}

impl<J> Default for Staging<J> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<J> Staging<J> {
    /// Staging in `bytes_max` bytes of RAM; 0: nothing is staged.
    #[must_use]
    pub const fn new(bytes_max: u64) -> Self {
        Self { jobs: VecDeque::new(), bytes_max, draining: false, unswept: 0 }
    }

    /// Whether contents are staged.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.bytes_max > 0
    }

    /// Whether the oldest content has to be packed, if all that waits keeps `held_bytes` of RAM in use: from the time when the
    /// RAM is full, until a batch of it is free.
    pub const fn is_due(&mut self, held_bytes: u64) -> bool {
        self.draining = held_bytes > if self.draining { self.bytes_low() } else { self.bytes_max };
        !self.is_used() || self.draining
    }

    const fn bytes_low(&self) -> u64 {
        let eighth = self.bytes_max / 8;
        self.bytes_max - if eighth < BATCH_BYTES_MAX { eighth } else { BATCH_BYTES_MAX }
    }

    /// Adds a content.
    pub fn push(&mut self, job: J) {
        self.jobs.push_back(job);
    }

    /// Counts an insertion, of whatever content. Removes and returns the void contents if more insertions were counted since
    /// the last sweep than contents wait: a sweep costs O(1) an insertion.
    pub fn sweep(&mut self, is_void: impl Fn(&J) -> bool) -> Vec<J> {
        if !self.is_used() {
            return Vec::new();
        }
        self.unswept += 1;
        if self.unswept <= self.jobs.len() {
            return Vec::new();
        }
        self.unswept = 0;
        let (void, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.jobs).into_iter().partition(is_void);
        self.jobs = left.into();
        void
    }

    /// Removes and returns the oldest content.
    pub fn pop(&mut self) -> Option<J> {
        self.jobs.pop_front()
    }

    /// Number of contents, void ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Bytes of RAM of the list itself.
    #[must_use]
    pub fn list_bytes(&self) -> usize {
        self.jobs.capacity() * size_of::<J>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_leave_in_order_once_their_ram_is_full() {
        let mut staging = Staging::new(16);
        for job in 0..=16 {
            staging.push(job);
            assert!(staging.sweep(|_| false).is_empty());
            assert_eq!(staging.is_due(staging.len() as u64), job == 16);
        }
        // An eighth of the RAM is freed.
        assert_eq!((staging.pop(), staging.pop(), staging.is_due(15)), (Some(0), Some(1), true));
        assert_eq!((staging.pop(), staging.is_due(14), staging.is_due(16)), (Some(2), false, false));
        assert!(Staging::<u8>::new(0).is_due(0));
    }

    #[test]
    fn void_contents_go_after_as_many_insertions_as_wait() {
        let mut staging = Staging::new(100);
        (0..4).for_each(|job| staging.push(job));
        let swept: Vec<_> = (0..5).map(|_| staging.sweep(|job| job % 2 == 0)).collect();
        assert_eq!(swept, [vec![], vec![], vec![], vec![], vec![0, 2]]);
        assert_eq!((staging.pop(), staging.pop(), staging.pop()), (Some(1), Some(3), None));
    }
}
