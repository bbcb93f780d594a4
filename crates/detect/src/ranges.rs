//! The classification of ranges of a volume.

use crate::{Found, PIECE_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;

/// RAM of a range in bytes: the nodes of a B-tree are two thirds full on average.
const RANGE_BYTES: u64 = 96;
/// The maximum number of pieces that one look-up covers.
const WINDOW_PIECES: u64 = 64;
/// The maximum number of newer ranges around which an older range is split.
const NEWER_MAX: usize = 64;

/// The knowledge of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// The classification of its content.
    Is(Found),
    /// A metadata block with the locations of data of kind `of`.
    Node { of: Found, form: Form },
    /// Inodes, starting with this number.
    Inodes { first: u64 },
    /// Descriptors of block groups, starting with this number.
    Descriptors { first: u32 },
}

/// The format of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A block of an extent tree.
    Extents,
    /// An array of block numbers: those of data at level 1, those of other arrays above.
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

/// The time of a write, in its file system's own count (generations, positions in a log): of two contradictory ranges,
/// the later is right. Zero for file systems without a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(pub(crate) u64);

/// A range without its first piece.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The piece after the last one.
    end: u64,
    known: Known,
    stamp: Stamp,
}

/// Ranges that do not overlap, in pieces.
#[derive(Debug)]
pub(crate) struct Ranges {
    by_start: BTreeMap<u64, Held>,
    /// The pieces that are being read: their ranges are in `inside`, the last first, and need no look-up.
    window: Range<u64>,
    inside: Vec<(u64, Held)>,
    len_max: usize,
    forgotten: u64,
}

impl Ranges {
    pub(crate) fn new(ram_bytes_max: u64) -> Self {
        let mut ranges = Self { by_start: BTreeMap::new(), window: 0..0, inside: Vec::new(), len_max: 0, forgotten: 0 };
        ranges.limit(ram_bytes_max);
        ranges
    }

    /// Sets the limit of RAM in bytes: from now on, a range that would exceed the limit is not added.
    pub(crate) fn limit(&mut self, ram_bytes_max: u64) {
        self.len_max = usize::try_from(ram_bytes_max / RANGE_BYTES).unwrap_or(usize::MAX);
    }

    /// The ranges of file-system metadata, in bytes.
    pub(crate) fn own(&self) -> impl Iterator<Item = Range<u64>> {
        let own = self.by_start.iter().filter(|(_, held)| held.known.found() == Found::Metadata);
        own.map(|(first, held)| first * PIECE_BYTES..held.end.saturating_mul(PIECE_BYTES))
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

    /// Announces that the pieces of a range are read next: one look-up is then enough for the first [`WINDOW_PIECES`]
    /// of them.
    pub(crate) fn open(&mut self, range: Range<u64>) {
        let start = range.start / PIECE_BYTES;
        let end = range.end.div_ceil(PIECE_BYTES).min(start.saturating_add(WINDOW_PIECES));
        self.inside.clear();
        let held = self.by_start.range(..end).rev().map(|(first, held)| (*first, *held));
        self.inside.extend(held.take_while(|(_, held)| held.end > start));
        self.window = start..end;
    }

    /// The range that contains a byte: its first byte, and its content.
    pub(crate) fn find(&self, at: u64) -> Option<(u64, Known)> {
        let piece = at / PIECE_BYTES;
        let found = if self.window.contains(&piece) {
            self.inside.get(self.inside.partition_point(|(first, _)| *first > piece)).copied()
        } else {
            self.last_before(piece.saturating_add(1))
        };
        found.filter(|(_, held)| piece < held.end).map(|(first, held)| (first * PIECE_BYTES, held.known))
    }

    /// The last range that begins before a piece.
    fn last_before(&self, piece: u64) -> Option<(u64, Held)> {
        self.by_start.range(..piece).next_back().map(|(first, held)| (*first, *held))
    }

    /// Records a range; newer ranges within it remain. `news` is called with each part that changes, in bytes, and with
    /// the former content of the part's first byte.
    pub(crate) fn insert(
        &mut self,
        range: Range<u64>,
        known: Known,
        stamp: Stamp,
        mut news: impl FnMut(Range<u64>, Option<Known>),
    ) {
        // If several ranges share a piece (clusters of 512 bytes), the range of its first byte determines it.
        let (start, end) = (range.start.div_ceil(PIECE_BYTES), range.end.div_ceil(PIECE_BYTES));
        if start >= end {
            return;
        }
        let overlapped = self.last_before(end).filter(|(_, held)| held.end > start);
        if let Some((first, held)) = overlapped
            && first <= start
            && held.end >= end
            && (held.stamp > stamp || held.known == known && self.confirms(first, &held, start..end, stamp))
        {
            return;
        }
        // Two ranges may be added, because a range may be split.
        if self.by_start.len() + 2 > self.len_max {
            self.forgotten += 1;
            return;
        }
        let held = Held { end, known, stamp };
        if overlapped.is_some() {
            self.put_between(start, held, &mut news);
        } else {
            self.close(start..end);
            self.by_start.insert(start, held);
            news(start * PIECE_BYTES..end.saturating_mul(PIECE_BYTES), None);
        }
    }

    /// Whether the range `held`, which covers `pieces`, has the new content already; it then gets the new stamp.
    fn confirms(&mut self, first: u64, held: &Held, pieces: Range<u64>, stamp: Stamp) -> bool {
        if held.stamp == stamp {
            return matches!(held.known, Known::Is(_)) || first == pieces.start;
        }
        let is_same = first == pieces.start && held.end == pieces.end;
        if is_same && let Some(held) = self.by_start.get_mut(&first) {
            held.stamp = stamp;
        }
        is_same
    }

    /// Records a range where no newer one exists, from its end to its beginning.
    fn put_between(&mut self, start: u64, mut held: Held, news: &mut impl FnMut(Range<u64>, Option<Known>)) {
        for _ in 0..NEWER_MAX {
            let there = self.by_start.range(..held.end).rev().take_while(|(_, there)| there.end > start);
            let newer = there.map(|(first, there)| (*first, *there)).find(|(_, there)| there.stamp > held.stamp);
            let from = newer.map_or(start, |(_, newer)| newer.end.min(held.end));
            // A table that begins with another byte would be read with wrong numbers.
            let known = if from > start { rest_of(held.known) } else { held.known };
            self.put(from, Held { known, ..held }, news);
            match newer {
                Some((first, _)) if first > start => held.end = first,
                _ => return,
            }
        }
    }

    fn put(&mut self, start: u64, held: Held, news: &mut impl FnMut(Range<u64>, Option<Known>)) {
        if start >= held.end {
            return;
        }
        let was = self.find(start * PIECE_BYTES).map(|(_, was)| was);
        self.close(start..held.end);
        self.cut(start..held.end);
        self.by_start.insert(start, held);
        news(start * PIECE_BYTES..held.end.saturating_mul(PIECE_BYTES), was);
    }

    /// Removes the knowledge of a range.
    pub(crate) fn forget(&mut self, range: Range<u64>) {
        let pieces = range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES);
        self.close(pieces.clone());
        self.cut(pieces);
    }

    /// Closes the window if it overlaps these pieces, because it is no longer up to date.
    fn close(&mut self, pieces: Range<u64>) {
        if pieces.start < self.window.end && self.window.start < pieces.end {
            self.window = 0..0;
        }
    }

    fn cut(&mut self, range: Range<u64>) {
        while let Some((start, held)) = self.last_before(range.end).filter(|(_, held)| held.end > range.start) {
            if start < range.start {
                self.by_start.insert(start, Held { end: range.start, ..held });
            } else {
                self.by_start.remove(&start);
            }
            if held.end > range.end {
                self.by_start.insert(range.end, Held { known: rest_of(held.known), ..held });
            }
        }
    }
}

/// The rest of a range whose beginning was overwritten. Tables that were cut are no longer read as tables: their
/// numbers would be wrong.
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
        /// Compares with a plain array of pieces.
        #[test]
        fn stretches_are_what_was_noted_last_among_the_newest(
            noted in prop::collection::vec((0u64..200, 1u64..40, 0u64..4, 0u64..200, 0u64..3), 0..80),
        ) {
            let mut ranges = Ranges::new(1 << 20);
            let mut model = vec![None; 300];
            for (start, len, size, at, stamp) in noted {
                let (pieces, stamp) = (start as usize..(start + len) as usize, Stamp(stamp));
                let range = start * PIECE_BYTES..(start + len) * PIECE_BYTES;
                // With a window next to the change, and around it.
                ranges.open(at * PIECE_BYTES..(at + len) * PIECE_BYTES);
                let before = model.clone();
                let mut told = vec![false; 300];
                if size == 0 {
                    ranges.forget(range);
                    model[pieces].fill(None);
                } else {
                    let known = Known::Is(Found::File(size));
                    ranges.insert(range, known, stamp, |news, was| {
                        let news = (news.start / PIECE_BYTES) as usize..(news.end / PIECE_BYTES) as usize;
                        assert_eq!(was, before[news.start].map(|(known, _)| known));
                        told[news].fill(true);
                    });
                    for piece in &mut model[pieces] {
                        if piece.is_none_or(|(_, newest)| newest <= stamp) {
                            *piece = Some((known, stamp));
                        }
                    }
                }
                for (piece, held) in model.iter().enumerate() {
                    let (is, was) = (held.map(|(known, _)| known), before[piece].map(|(known, _)| known));
                    prop_assert_eq!(ranges.find(piece as u64 * PIECE_BYTES).map(|(_, known)| known), is);
                    prop_assert!(size == 0 || is == was || told[piece], "{} is not told", piece);
                    prop_assert!(!told[piece] || is == Some(Known::Is(Found::File(size))), "{} is told", piece);
                }
            }
        }
    }

    #[test]
    fn ram_is_bounded() {
        let mut ranges = Ranges::new(100 * RANGE_BYTES);
        for n in 0..1000 {
            ranges.insert(n * 4096..n * 4096 + 1024, Known::Is(Found::Metadata), Stamp(0), |_, _| ());
        }
        assert!(ranges.len() <= 100 && ranges.forgotten() >= 900, "{} stretches", ranges.len());
        assert_eq!(ranges.find(0), Some((0, Known::Is(Found::Metadata))));
    }
}
