//! Allocation of segments of the flash. The holder of a [`Segment`] may read and write it; it becomes free when the
//! last holder drops it. Thus a store that was merged into another one stays until the last look-up that began before
//! has ended.

use crate::Error;
use event_listener::{Event, listener};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The segments of an index's flash.
pub(super) struct Space {
    start: u64,
    segment_bytes: u64,
    state: Mutex<State>,
    freed: Event,
}

struct State {
    used: Vec<bool>,
    /// All segments with a lower index are in use.
    first: usize,
    /// The number of segments that become free when the look-ups in progress have ended.
    retired: u32,
}

/// A segment in use.
pub(super) struct Segment {
    index: u32,
    space: Arc<Space>,
    retired: AtomicBool,
}

impl Space {
    /// `count` segments from `start` on, all free.
    pub(super) fn new(start: u64, segment_bytes: u64, count: u32) -> Arc<Self> {
        let state = State { used: vec![false; count as usize], first: 0, retired: 0 };
        Arc::new(Self { start, segment_bytes, state: Mutex::new(state), freed: Event::new() })
    }

    /// Takes the segment with this number; `None` if it is in use or does not exist.
    pub(super) fn claim(self: &Arc<Self>, index: u32) -> Option<Segment> {
        let state = &mut *self.state.lock();
        let used = state.used.get_mut(index as usize)?;
        (!std::mem::replace(used, true)).then(|| self.segment(index))
    }

    fn segment(self: &Arc<Self>, index: u32) -> Segment {
        Segment { index, space: Arc::clone(self), retired: AtomicBool::new(false) }
    }

    /// Takes a free segment; the error is whether one will be free soon.
    fn try_take(self: &Arc<Self>) -> Result<Segment, bool> {
        let state = &mut *self.state.lock();
        match state.used[state.first..].iter().position(|used| !used) {
            Some(free) => {
                let index = state.first + free;
                state.used[index] = true;
                state.first = index + 1;
                Ok(self.segment(index as u32))
            }
            None => Err(state.retired > 0),
        }
    }

    /// Takes a free segment. If only retired segments are left, waits until look-ups release one.
    pub(super) async fn take(self: &Arc<Self>, entries: u64) -> Result<Segment, Error> {
        loop {
            listener!(self.freed => freed);
            match self.try_take() {
                Ok(segment) => return Ok(segment),
                Err(true) => freed.await,
                Err(false) => return Err(Error::Full { entries }),
            }
        }
    }

    /// RAM in use, in bytes.
    pub(super) fn ram_bytes(&self) -> u64 {
        self.state.lock().used.capacity() as u64
    }
}

impl Segment {
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// The offset of the segment.
    pub(super) fn offset(&self) -> u64 {
        self.space.start + u64::from(self.index) * self.space.segment_bytes
    }

    /// Retires the segment: it becomes free when its holders drop it.
    pub(super) fn retire(&self) {
        if !self.retired.swap(true, Ordering::Relaxed) {
            self.space.state.lock().retired += 1;
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        {
            let state = &mut *self.space.state.lock();
            state.used[self.index as usize] = false;
            state.first = state.first.min(self.index as usize);
            state.retired -= u32::from(*self.retired.get_mut());
        }
        self.space.freed.notify(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use futures_util::FutureExt as _;

    #[test]
    fn a_segment_is_free_when_its_last_holder_lets_go() {
        let space = Space::new(8192, 4096, 2);
        let first = Arc::new(block_on(space.take(0)).unwrap());
        assert_eq!((first.index(), first.offset()), (0, 8192));
        assert!(space.claim(0).is_none() && space.claim(2).is_none());
        let second = space.claim(1).unwrap();
        assert!(matches!(block_on(space.take(9)), Err(Error::Full { entries: 9 })));
        let reader = Arc::clone(&first);
        first.retire();
        drop(first);
        assert!(space.take(0).now_or_never().is_none(), "it is still read");
        drop(reader);
        assert_eq!(block_on(space.take(0)).unwrap().index(), 0);
        drop(second);
    }
}
