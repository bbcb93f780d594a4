//! Page-aligned, pooled buffers.
//!
//! A [`BufMut`] is filled by one owner and then frozen into a [`bytes::Bytes`], which is cheap to clone and to slice.
//! When the last clone is dropped, its memory returns to a pool.

mod pool;

pub use pool::POOLED_BYTES_MAX;

use bytemuck::{Pod, Zeroable};
use bytes::Bytes;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// The data of one read, in order: one buffer for each source.
pub type Pieces = SmallVec<[Bytes; 2]>;

/// Alignment of every buffer in bytes: enough for direct I/O on any device in use.
pub const BUF_ALIGNMENT_BYTES: usize = 4096;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; BUF_ALIGNMENT_BYTES]);

thread_local! {
    /// Bytes of the buffers that this thread took, less those that it gave back.
    static HELD_HERE: Cell<i64> = const { Cell::new(0) };
}

/// Counts pages that a buffer takes (`sign` 1), or gives back (-1).
fn note_held(pages: usize, sign: i64) {
    let bytes = (pages * BUF_ALIGNMENT_BYTES) as i64 * sign;
    // There is no count while the thread ends.
    let _ = HELD_HERE.try_with(|held| held.set(held.get() + bytes));
}

/// Bytes of the buffers that this thread took, less those that it gave back: what a simulation that runs on one thread
/// holds, whatever other threads do. Pooled buffers do not count.
#[must_use]
pub fn bytes_in_use_here() -> i64 {
    HELD_HERE.try_with(Cell::get).unwrap_or(0)
}

/// Pages of memory for a buffer of `pages`: sizes of larger buffers are rounded to quarters of powers of two, so that
/// reads of many sizes can reuse buffers.
const fn size_class(pages: usize) -> usize {
    match pages.checked_ilog2() {
        Some(log) if log >= 4 => pages.next_multiple_of(1 << (log - 2)),
        _ => pages,
    }
}

/// The RAM that a buffer of `len` bytes takes: its pages, and the page that the allocator loses by alignment.
#[must_use]
pub fn held_bytes(len: usize) -> u64 {
    pool::bytes_of(size_class(len.div_ceil(BUF_ALIGNMENT_BYTES))) as u64
}

/// A page-aligned buffer with one owner. Its memory consists of whole pages and may be larger than its length, which is
/// in bytes.
pub struct BufMut {
    pages: Vec<Page>,
    len: usize,
}

impl BufMut {
    /// A buffer of `len` bytes whose content is unspecified (but initialised: it may show an earlier use).
    #[must_use]
    pub fn with_len(len: usize) -> Self {
        let count = size_class(len.div_ceil(BUF_ALIGNMENT_BYTES));
        let pages = pool::take(count).unwrap_or_else(|| vec![Page::zeroed(); count]);
        note_held(pages.len(), 1);
        Self { pages, len }
    }

    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_len(len);
        buf.fill(0);
        buf
    }

    /// A copy of `bytes` at a page-aligned address.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::with_len(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// An empty buffer that can [grow](Self::grow_to) to `len` bytes in place. Memory is taken as it grows.
    #[must_use]
    pub fn with_capacity(len: usize) -> Self {
        let count = size_class(len.div_ceil(BUF_ALIGNMENT_BYTES));
        let pages = pool::take(count).unwrap_or_else(|| Vec::with_capacity(count));
        note_held(pages.len(), 1);
        Self { pages, len: 0 }
    }

    /// Lengthens the buffer to `len` bytes; the content of the added bytes is unspecified. Shorter lengths are ignored.
    pub fn grow_to(&mut self, len: usize) {
        let count = size_class(len.div_ceil(BUF_ALIGNMENT_BYTES));
        if self.pages.len() < count {
            note_held(count - self.pages.len(), 1);
            self.pages.resize(count, Page::zeroed());
        }
        self.len = self.len.max(len);
    }

    /// Shortens the buffer to `len` bytes; longer lengths are ignored.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Freezes the buffer into shared, immutable bytes without copying.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for BufMut {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Deref for BufMut {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.pages)[..self.len]
    }
}

impl DerefMut for BufMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.pages)[..self.len]
    }
}

impl Drop for BufMut {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        note_held(pages.len(), -1);
        if pages.len() < pages.capacity() {
            // The buffer never grew to its capacity: the pool takes full sizes only.
            return;
        }
        pool::put(pages);
    }
}

/// Whether `bytes` starts at an address that direct I/O accepts.
#[must_use]
pub fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(BUF_ALIGNMENT_BYTES)
}

/// Whether every byte is zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    let (head, words, tail) = bytemuck::pod_align_to::<u8, u64>(bytes);
    head.iter().chain(tail).all(|b| *b == 0) && words.chunks(32).all(|c| c.iter().fold(0, |a, w| a | w) == 0)
}

#[cfg(test)]
mod tests {
    use super::pool::POOLED_PAGES_MAX;
    use super::*;

    #[test]
    fn buffers_are_aligned_and_recycled() {
        let mut a = BufMut::zeroed(8192);
        assert!(is_aligned(&a));
        a[5] = 7;
        let frozen = a.freeze();
        let slice = frozen.slice(4..8);
        drop(frozen);
        assert_eq!(&slice[..], [0, 7, 0, 0]);
        let address = slice.as_ptr().addr() - 4;
        drop(slice);
        let b = BufMut::with_len(8000);
        assert_eq!((b.as_ptr().addr(), b.len()), (address, 8000));
    }

    #[test]
    fn a_thread_counts_the_buffers_that_it_holds() {
        let before = bytes_in_use_here();
        let (held, mut growing) = (BufMut::with_len(5000).freeze(), BufMut::with_capacity(3 << 20));
        assert_eq!(bytes_in_use_here() - before, 8192);
        growing.grow_to(4096);
        let others = std::thread::spawn(|| (BufMut::with_len(4096), bytes_in_use_here())).join().unwrap();
        assert_eq!((bytes_in_use_here() - before, others.1), (3 * 4096, 4096));
        drop((held, growing));
        assert_eq!(bytes_in_use_here(), before);
    }

    #[test]
    fn buffers_grow_in_place() {
        let mut buf = BufMut::with_capacity(3 << 20);
        assert!(buf.is_empty());
        buf.grow_to(5000);
        let address = buf.as_ptr().addr();
        buf[..5000].fill(7);
        buf.grow_to(1 << 20);
        buf.grow_to(4000);
        assert_eq!((buf.len(), buf.as_ptr().addr()), (1 << 20, address));
        assert!(buf[..5000].iter().all(|byte| *byte == 7));
        buf.grow_to(3 << 20);
        assert_eq!((buf.len(), buf.as_ptr().addr(), is_aligned(&buf)), (3 << 20, address, true));
        drop(buf);
        assert_eq!(BufMut::with_len(3 << 20).as_ptr().addr(), address);
    }

    #[test]
    fn sizes_that_are_much_alike_share_their_memory() {
        for pages in 1..=POOLED_PAGES_MAX {
            let class = size_class(pages);
            assert!(class >= pages && class <= pages + pages / 4 && size_class(class) == class, "{pages}: {class}");
        }
        let first = BufMut::with_len(81 * BUF_ALIGNMENT_BYTES);
        let address = first.as_ptr().addr();
        drop(first);
        assert_eq!(BufMut::with_len(95 * BUF_ALIGNMENT_BYTES).as_ptr().addr(), address);
    }

    #[test]
    fn zero_detection_sees_every_byte() {
        let mut buf = BufMut::zeroed(8192);
        assert!(is_zero(&buf) && is_zero(&buf[3..70]) && is_zero(&[]));
        for at in [0, 1, 255, 256, 4097, 8191] {
            buf[at] = 1;
            assert!(!is_zero(&buf));
            buf[at] = 0;
        }
    }
}
