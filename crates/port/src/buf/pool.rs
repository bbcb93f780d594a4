//! Free memory for buffers: each thread keeps a few buffers of each size; the surplus goes to depots that all threads
//! share. Without depots, a thread that fills buffers for another thread to drop would always allocate new ones, and
//! the other thread would keep too many. If there is no room, the least recently used sizes are freed.

use super::{BUF_ALIGNMENT_BYTES, Page, size_class};
use parking_lot::{Mutex, MutexGuard};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Buffers above this many pages are not pooled.
pub(super) const POOLED_PAGES_MAX: usize = 2048;
/// At most this many bytes are pooled by one thread.
const THREAD_BYTES_MAX: usize = 4 << 20;
/// At most this many bytes are pooled by all threads together, in addition to the depots.
const THREADS_BYTES_MAX: usize = 16 << 20;
/// At most this many bytes are in each depot.
const DEPOT_BYTES_MAX: usize = 24 << 20;
/// At most this many bytes are pooled in the process.
pub const POOLED_BYTES_MAX: usize = THREADS_BYTES_MAX + 2 * DEPOT_BYTES_MAX;
/// Buffers from this size on have a separate depot, so that small buffers, which may be many more, do not displace
/// them.
const LARGE_PAGES: usize = 64;
/// A thread takes its share of [`THREADS_BYTES_MAX`] in steps of this size, so that threads seldom contend for it.
const SHARE_STEP_BYTES: usize = 1 << 20;
/// Threads and the depot exchange this number of bytes of one size at a time, or one buffer.
const MAGAZINE_BYTES: usize = 128 << 10;
/// Different [sizes](size_class) that are pooled.
const CLASSES: usize = class_of(POOLED_PAGES_MAX) + 1;

/// Bytes assigned to the threads' pools, of [`THREADS_BYTES_MAX`].
static SHARED_OUT: AtomicUsize = AtomicUsize::new(0);
static DEPOTS: [Mutex<Shelf>; 2] = [const { Mutex::new(Shelf::new()) }; 2];

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { shelf: Shelf::new(), share: 0 }) };
}

/// Memory of `pages`, whose content is unspecified.
pub(super) fn take(pages: usize) -> Option<Vec<Page>> {
    if !is_pooled(pages) {
        return None;
    }
    POOL.try_with(|pool| pool.borrow_mut().take(pages)).ok().flatten()
}

/// Keeps memory for a later [`take`], or frees it. While a thread ends, its pool may not exist any more; then the
/// memory is freed.
pub(super) fn put(memory: Vec<Page>) {
    if is_pooled(memory.len()) {
        let _ = POOL.try_with(|pool| pool.borrow_mut().put(memory));
    }
}

const fn is_pooled(pages: usize) -> bool {
    pages > 0 && pages <= POOLED_PAGES_MAX && size_class(pages) == pages
}

/// The number of a [size](size_class).
const fn class_of(pages: usize) -> usize {
    match pages.checked_ilog2() {
        Some(log) if log >= 4 => 12 + (log as usize - 4) * 4 + (pages >> (log - 2)),
        _ => pages,
    }
}

/// Buffers of a size that are exchanged at a time.
const fn magazine(pages: usize) -> usize {
    let count = MAGAZINE_BYTES / (pages * BUF_ALIGNMENT_BYTES);
    if count == 0 { 1 } else { count }
}

/// The RAM that a buffer of `pages` pages takes: the pages, and one more that their alignment costs in the allocator.
pub(super) const fn bytes_of(pages: usize) -> usize {
    (pages + 1) * BUF_ALIGNMENT_BYTES
}

/// The depot for buffers of this number of pages.
fn depot(pages: usize) -> MutexGuard<'static, Shelf> {
    DEPOTS[usize::from(pages >= LARGE_PAGES)].lock()
}

/// Free buffers of one size.
struct Class {
    free: Vec<Vec<Page>>,
    /// When it was last used, in uses of the shelf.
    used: u64,
}

/// Free buffers by their size.
struct Shelf {
    classes: [Class; CLASSES],
    uses: u64,
    bytes: usize,
}

impl Shelf {
    const fn new() -> Self {
        Self { classes: [const { Class { free: Vec::new(), used: 0 } }; CLASSES], uses: 0, bytes: 0 }
    }

    fn class(&mut self, pages: usize) -> &mut Class {
        self.uses += 1;
        let class = &mut self.classes[class_of(pages)];
        class.used = self.uses;
        class
    }

    fn push(&mut self, memory: Vec<Page>) {
        self.bytes += bytes_of(memory.len());
        self.class(memory.len()).free.push(memory);
    }

    fn pop(&mut self, pages: usize) -> Option<Vec<Page>> {
        let popped = self.class(pages).free.pop()?;
        self.bytes -= bytes_of(pages);
        Some(popped)
    }

    fn count(&self, pages: usize) -> usize {
        self.classes[class_of(pages)].free.len()
    }

    /// Removes a buffer of the least recently used size other than `pages`.
    fn pop_stale(&mut self, pages: usize) -> Option<Vec<Page>> {
        let others = self.classes.iter_mut().enumerate().filter(|(number, _)| *number != class_of(pages));
        let (_, stale) = others.filter(|(_, class)| !class.free.is_empty()).min_by_key(|(_, class)| class.used)?;
        let popped = stale.free.pop()?;
        self.bytes -= bytes_of(popped.len());
        Some(popped)
    }

    /// Adds a buffer, and frees others if more than `bytes_max` would be kept.
    fn push_within(&mut self, memory: Vec<Page>, bytes_max: usize) {
        while self.bytes + bytes_of(memory.len()) > bytes_max {
            if self.pop_stale(memory.len()).is_none() {
                return;
            }
        }
        self.push(memory);
    }
}

/// A thread's pool.
struct Pool {
    shelf: Shelf,
    /// This thread's part of [`SHARED_OUT`].
    share: usize,
}

impl Pool {
    fn take(&mut self, pages: usize) -> Option<Vec<Page>> {
        if self.shelf.count(pages) == 0 {
            let mut depot = depot(pages);
            let first = depot.pop(pages)?;
            for _ in 1..magazine(pages) {
                if !self.has_room(bytes_of(pages)) {
                    break;
                }
                let Some(memory) = depot.pop(pages) else { break };
                self.shelf.push(memory);
            }
            return Some(first);
        }
        self.shelf.pop(pages)
    }

    fn put(&mut self, memory: Vec<Page>) {
        let pages = memory.len();
        let full = self.shelf.count(pages) >= 2 * magazine(pages);
        if !full && self.make_room(pages) {
            return self.shelf.push(memory);
        }
        let mut depot = depot(pages);
        depot.push_within(memory, DEPOT_BYTES_MAX);
        if full {
            (0..magazine(pages))
                .map_while(|_| self.shelf.pop(pages))
                .for_each(|memory| depot.push_within(memory, DEPOT_BYTES_MAX));
        }
    }

    /// Makes room for a buffer by freeing others that were not used recently.
    fn make_room(&mut self, pages: usize) -> bool {
        while !self.has_room(bytes_of(pages)) {
            let Some(stale) = self.shelf.pop_stale(pages) else { return false };
            depot(stale.len()).push_within(stale, DEPOT_BYTES_MAX);
        }
        true
    }

    /// Whether this number of bytes may be pooled here in addition.
    fn has_room(&mut self, bytes: usize) -> bool {
        let wanted = self.shelf.bytes + bytes;
        if wanted > self.share && wanted <= THREAD_BYTES_MAX {
            let step = (wanted - self.share).next_multiple_of(SHARE_STEP_BYTES);
            let grown = |shared: usize| Some(shared + step).filter(|shared| *shared <= THREADS_BYTES_MAX);
            if SHARED_OUT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok() {
                self.share += step;
            }
        }
        wanted <= self.share
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        SHARED_OUT.fetch_sub(self.share, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buf::BufMut;
    use bytemuck::Zeroable;

    fn memory(pages: usize) -> Vec<Page> {
        vec![Page::zeroed(); pages]
    }

    /// Held by tests that depend on the content of the depots, or that fill them.
    static TESTED: Mutex<()> = Mutex::new(());

    #[test]
    fn what_one_thread_drops_another_finds() {
        let _alone = TESTED.lock();
        // A size that other tests do not use.
        let len = 3 * BUF_ALIGNMENT_BYTES;
        let filled: Vec<BufMut> = (0..100).map(|_| BufMut::with_len(len)).collect();
        let addresses: Vec<usize> = filled.iter().map(|buf| buf.as_ptr().addr()).collect();
        std::thread::spawn(move || drop(filled)).join().unwrap();
        let again: Vec<BufMut> = (0..50).map(|_| BufMut::with_len(len)).collect();
        assert!(again.iter().all(|buf| addresses.contains(&buf.as_ptr().addr())));
    }

    #[test]
    fn each_size_has_its_place() {
        let sizes: Vec<usize> = (1..=POOLED_PAGES_MAX).filter(|pages| is_pooled(*pages)).map(class_of).collect();
        assert_eq!(sizes, (1..CLASSES).collect::<Vec<_>>());
    }

    #[test]
    fn a_size_that_is_in_use_takes_the_place_of_one_that_is_not() {
        let (mut shelf, bytes_max) = (Shelf::new(), 4 * bytes_of(64));
        for _ in 0..4 {
            shelf.push_within(memory(64), bytes_max);
        }
        for _ in 0..10 {
            shelf.push_within(memory(32), bytes_max);
            assert!(shelf.bytes <= bytes_max);
        }
        assert!(shelf.count(64) < 4 && shelf.count(32) > 3);
        let bytes = shelf.count(64) * bytes_of(64) + shelf.count(32) * bytes_of(32);
        assert_eq!(shelf.bytes, bytes);
    }

    #[test]
    fn a_thread_keeps_no_more_than_its_part() {
        let _alone = TESTED.lock();
        let mut pool = Pool { shelf: Shelf::new(), share: 0 };
        for pages in (1..=POOLED_PAGES_MAX).filter(|pages| is_pooled(*pages)) {
            for _ in 0..3 * magazine(pages) {
                pool.put(memory(pages));
            }
        }
        assert!(pool.shelf.bytes <= pool.share && pool.share <= THREAD_BYTES_MAX);
        assert!(DEPOTS.iter().all(|depot| depot.lock().bytes <= DEPOT_BYTES_MAX));
    }
}
