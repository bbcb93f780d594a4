//! What stretches of a volume are.

use crate::{Found, PIECE_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// RAM of a stretch in bytes: a node of a B-tree is two thirds full.
const RANGE_BYTES: u64 = 80;
/// Pieces that are looked at with one look-up, at most.
const WINDOW_PIECES: u64 = 64;

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

/// A stretch: its first piece, the one behind its last, and what it is.
type Stretch = (u64, u64, Known);

/// Stretches that do not overlap, in pieces.
#[derive(Debug)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, (u64, Known)>,
    /// Pieces that are being looked at: what they belong to is in `inside`, the last stretch first, and needs no look-up.
    window: Range<u64>,
    inside: Vec<Stretch>,
    len_max: usize,
    forgotten: u64,
}

impl Ranges {
    pub(crate) fn new(ram_bytes_max: u64) -> Self {
        let len_max = usize::try_from(ram_bytes_max / RANGE_BYTES).unwrap_or(usize::MAX);
        Self { by_start: BTreeMap::new(), window: 0..0, inside: Vec::new(), len_max, forgotten: 0 }
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

    /// Says that the pieces of a stretch are looked at next: one look-up is then enough for all of them.
    pub(crate) fn open(&mut self, range: Range<u64>) {
        let start = range.start / PIECE_BYTES;
        let end = range.end.div_ceil(PIECE_BYTES).min(start.saturating_add(WINDOW_PIECES));
        self.inside.clear();
        let held = self.by_start.range(..end).rev().map(|(first, (last, known))| (*first, *last, *known));
        self.inside.extend(held.take_while(|(_, last, _)| *last > start));
        self.window = start..end;
    }

    /// What a byte belongs to, and where that begins.
    pub(crate) fn find(&self, at: u64) -> Option<(u64, Known)> {
        let piece = at / PIECE_BYTES;
        let found = if self.window.contains(&piece) {
            self.inside.get(self.inside.partition_point(|(first, _, _)| *first > piece)).copied()
        } else {
            self.last_before(piece.saturating_add(1))
        };
        found.filter(|(_, last, _)| piece < *last).map(|(first, _, known)| (first * PIECE_BYTES, known))
    }

    /// The last stretch that begins before a piece.
    fn last_before(&self, piece: u64) -> Option<Stretch> {
        self.by_start.range(..piece).next_back().map(|(first, (last, known))| (*first, *last, *known))
    }

    /// Notes what a stretch is. If that is news, says what its first byte was known as before.
    pub(crate) fn insert(&mut self, range: Range<u64>, known: Known) -> Option<Option<Known>> {
        // A piece that several share, as clusters of 512 bytes do, is what its first byte is.
        let (start, end) = (range.start.div_ceil(PIECE_BYTES), range.end.div_ceil(PIECE_BYTES));
        if start >= end {
            return None;
        }
        let overlapped = self.last_before(end).filter(|(_, last, _)| *last > start);
        if let Some((first, last, was)) = overlapped
            && was == known
            && first <= start
            && last >= end
            && (matches!(known, Known::Is(_)) || first == start)
        {
            return None;
        }
        // A stretch may be cut in two.
        if self.by_start.len() + 2 > self.len_max {
            self.forgotten += 1;
            return None;
        }
        let was = match overlapped {
            Some((first, _, was)) if first <= start => Some(was),
            Some(_) => self.find(start * PIECE_BYTES).map(|(_, was)| was),
            None => None,
        };
        self.close(start..end);
        if overlapped.is_some() {
            self.cut(start..end);
        }
        self.by_start.insert(start, (end, known));
        Some(was)
    }

    /// Forgets what is known of a stretch.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        let pieces = range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES);
        self.close(pieces.clone());
        self.cut(pieces);
    }

    /// The window does not show any more what is there, if it has some of these pieces.
    fn close(&mut self, pieces: Range<u64>) {
        if pieces.start < self.window.end && self.window.start < pieces.end {
            self.window = 0..0;
        }
    }

    fn cut(&mut self, range: Range<u64>) {
        while let Some((start, end, known)) = self.last_before(range.end).filter(|(_, end, _)| *end > range.start) {
            if start < range.start {
                self.by_start.insert(start, (range.start, known));
            } else {
                self.by_start.remove(&start);
            }
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
        fn stretches_are_what_was_noted_last(noted in prop::collection::vec((0u64..200, 1u64..40, 0u64..4, 0u64..200), 0..80)) {
            let mut ranges = Ranges::new(1 << 20);
            let mut model = vec![None; 300];
            for (start, len, size, at) in noted {
                let range = start * PIECE_BYTES..(start + len) * PIECE_BYTES;
                // With a window beside the change, and around it.
                ranges.open(at * PIECE_BYTES..(at + len) * PIECE_BYTES);
                if size == 0 {
                    ranges.forget(range);
                } else {
                    let is = Some(Known::Is(Found::File(size)));
                    let was = ranges.insert(range, Known::Is(Found::File(size)));
                    let is_news = model[start as usize..(start + len) as usize].iter().any(|known| *known != is);
                    prop_assert!(was.is_none() || was == Some(model[start as usize]), "{:?}", was);
                    prop_assert!(was.is_some() || !is_news);
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
