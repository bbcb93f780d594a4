//! What stretches of a volume are.

use crate::{Found, PIECE_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// RAM of a stretch in bytes: a node of a B-tree is two thirds full.
const RANGE_BYTES: u64 = 80;

/// What is known of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// What it is.
    Is(Found),
    /// The file system's own: it says where data of that kind are.
    Node { of: Found, form: Form },
    /// Inodes, from that number on.
    Inodes { first: u64 },
    /// Descriptors of block groups, from that number on.
    Descriptors { first: u32 },
}

/// How a node is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An extent tree's block.
    Extents,
    /// Block numbers: of data at level 1, of such blocks above.
    Blocks { level: u8 },
}

impl Known {
    pub(crate) const fn found(self) -> Found {
        match self {
            Self::Is(found) => found,
            Self::Node { .. } | Self::Inodes { .. } | Self::Descriptors { .. } => Found::Metadata,
        }
    }
}

/// Stretches that do not overlap, in pieces.
#[derive(Debug)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, (u64, Known)>,
    len_max: usize,
    forgotten: u64,
}

impl Ranges {
    pub(crate) fn new(ram_bytes_max: u64) -> Self {
        let len_max = usize::try_from(ram_bytes_max / RANGE_BYTES).unwrap_or(usize::MAX);
        Self { by_start: BTreeMap::new(), len_max, forgotten: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_start.len()
    }

    pub(crate) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn ram_bytes(&self) -> u64 {
        self.by_start.len() as u64 * RANGE_BYTES
    }

    /// What a byte belongs to, and where that begins.
    pub(crate) fn find(&self, at: u64) -> Option<(u64, Known)> {
        let piece = at / PIECE_BYTES;
        let (start, (end, known)) = self.by_start.range(..=piece).next_back()?;
        (piece < *end).then_some((start * PIECE_BYTES, *known))
    }

    /// Notes what a stretch is; says whether that is news.
    pub(crate) fn insert(&mut self, range: Range<u64>, known: Known) -> bool {
        let (start, end) = (range.start / PIECE_BYTES, range.end.div_ceil(PIECE_BYTES));
        if start >= end {
            return false;
        }
        if let Some((first, (last, was))) = self.by_start.range(..=start).next_back()
            && *was == known
            && *last >= end
            && (matches!(known, Known::Is(_)) || *first == start)
        {
            return false;
        }
        // A stretch may be cut in two.
        if self.by_start.len() + 2 > self.len_max {
            self.forgotten += 1;
            return false;
        }
        self.cut(start..end);
        self.by_start.insert(start, (end, known));
        true
    }

    /// Forgets what is known of a stretch.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        self.cut(range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES));
    }

    fn cut(&mut self, range: Range<u64>) {
        let before = self.by_start.range(..range.start).next_back().map(|(start, held)| (*start, *held));
        if let Some((start, (end, known))) = before
            && end > range.start
        {
            self.by_start.insert(start, (range.start, known));
            if end > range.end {
                self.by_start.insert(range.end, (end, rest_of(known)));
            }
        }
        while let Some((start, (end, known))) =
            self.by_start.range(range.start..range.end).next().map(|(start, held)| (*start, *held))
        {
            self.by_start.remove(&start);
            if end > range.end {
                self.by_start.insert(range.end, (end, rest_of(known)));
            }
        }
    }
}

/// What the rest of a stretch is of which the beginning was overwritten. Tables that were cut are not read any more: their numbers
/// would be wrong.
const fn rest_of(known: Known) -> Known {
    match known {
        Known::Inodes { .. } | Known::Descriptors { .. } => Known::Is(Found::Metadata),
        Known::Is(_) | Known::Node { .. } => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Beside a plain array of pieces.
        #[test]
        fn stretches_are_what_was_noted_last(noted in prop::collection::vec((0u64..200, 1u64..40, 0u64..4), 0..80)) {
            let mut ranges = Ranges::new(1 << 20);
            let mut model = vec![None; 300];
            for (start, len, size) in noted {
                let range = start * PIECE_BYTES..(start + len) * PIECE_BYTES;
                if size == 0 {
                    ranges.forget(range);
                } else {
                    ranges.insert(range, Known::Is(Found::File(size)));
                }
                model[start as usize..(start + len) as usize].fill((size > 0).then_some(Known::Is(Found::File(size))));
                for (piece, known) in model.iter().enumerate() {
                    prop_assert_eq!(ranges.find(piece as u64 * PIECE_BYTES).map(|(_, known)| known), *known);
                }
            }
        }
    }

    #[test]
    fn ram_is_bounded() {
        let mut ranges = Ranges::new(100 * RANGE_BYTES);
        for n in 0..1000 {
            ranges.insert(n * 4096..n * 4096 + 1024, Known::Is(Found::Metadata));
        }
        assert!(ranges.len() <= 100 && ranges.forgotten() >= 900, "{} stretches", ranges.len());
        assert_eq!(ranges.find(0), Some((0, Known::Is(Found::Metadata))));
    }
}
