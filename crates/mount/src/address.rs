//! The address space of the disk behind which the files are: slots of a fixed size, each for a span of one file.

use std::iter;

/// Bytes of a file that are in one slot: 16 GiB. Longer files have several.
pub const SPAN_BYTES: u64 = 1 << 34;
/// The number of slots.
pub const SLOTS: u32 = 1 << 26;
/// The size of the address space: what the smallest extents (4 KiB) can number.
pub const SIZE_BYTES: u64 = SPAN_BYTES * SLOTS as u64;

const _: () = assert!(SIZE_BYTES == 1 << 60);

/// The number of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The address of a byte of the slot.
    #[must_use]
    pub const fn address(self, within: u64) -> u64 {
        self.0 as u64 * SPAN_BYTES + within
    }
}

/// A part of a range that lies within one span of a file, or within one slot of the address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The number of the span, or of the slot.
    pub number: u32,
    /// Where it begins there.
    pub within: u64,
    /// Length in bytes.
    pub len: u64,
}

/// The parts of a range, in order.
pub fn parts(offset: u64, len: u64) -> impl Iterator<Item = Part> {
    let (mut at, end) = (offset, offset.saturating_add(len));
    iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let within = at % SPAN_BYTES;
        let len = (SPAN_BYTES - within).min(end - at);
        // A file has at most 2⁶³ bytes, which is 2²⁹ spans.
        let part = Part { number: u32::try_from(at / SPAN_BYTES).ok()?, within, len };
        at += len;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_ends_of_spans() {
        let cut = |offset, len| parts(offset, len).map(|p| (p.number, p.within, p.len)).collect::<Vec<_>>();
        assert_eq!(cut(5, 0), []);
        assert_eq!(cut(5, 7), [(0, 5, 7)]);
        assert_eq!(cut(SPAN_BYTES - 1, 1), [(0, SPAN_BYTES - 1, 1)]);
        assert_eq!(cut(SPAN_BYTES - 1, 3), [(0, SPAN_BYTES - 1, 1), (1, 0, 2)]);
        assert_eq!(cut(SPAN_BYTES, 2 * SPAN_BYTES + 1), [(1, 0, SPAN_BYTES), (2, 0, SPAN_BYTES), (3, 0, 1)]);
        assert_eq!(cut(i64::MAX as u64 - 1, 1), [((1 << 29) - 1, SPAN_BYTES - 2, 1)]);
        let last = Slot(SLOTS - 1).address(SPAN_BYTES - 1);
        assert_eq!((last, cut(last, 1)[0].0), (SIZE_BYTES - 1, SLOTS - 1));
    }
}
