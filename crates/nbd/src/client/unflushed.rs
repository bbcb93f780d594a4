//! What a server has acknowledged since its last successful FLUSH: what is lost if the server dies, and is sent again then.
//!
//! Of overlapping changes the one that was acknowledged last counts, so that what is kept does not overlap, and the order
//! in which it is sent again does not matter. A change counts towards the bound until a FLUSH covers it, also if others
//! have replaced it: its memory may be in use as long.

use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};

/// RAM for one change besides its data, in bytes: what a piece takes in the map, and what replacing a part of it leaves.
const CHANGE_BYTES: u64 = 512;

/// The new content of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Data(Bytes),
    Zeroes {
        /// `COMMAND_*` bits of the request.
        flags: u16,
    },
    /// Trimmed: the content is whatever the server makes of it.
    Trimmed,
}

#[derive(Debug, Clone)]
struct Piece {
    len: u64,
    content: Content,
    change: u64,
}

impl Piece {
    /// The part from `from` to `to`, relative to its start.
    fn part(&self, from: u64, to: u64) -> Self {
        let content = match &self.content {
            Content::Data(data) => Content::Data(data.slice(from as usize..to as usize)),
            other => other.clone(),
        };
        Self { len: to - from, content, change: self.change }
    }
}

/// The changes since the last FLUSH.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    /// By the start of their range; they do not overlap.
    pieces: BTreeMap<u64, Piece>,
    /// What the changes count, in the order of their acknowledgement.
    changes: VecDeque<u64>,
    bytes: u64,
    /// The number of the first of `changes`.
    first: u64,
}

impl Unflushed {
    /// What a change of this content counts.
    pub(super) fn cost(data_bytes: usize) -> u64 {
        data_bytes as u64 + CHANGE_BYTES
    }

    /// Bytes that the changes count.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A mark before which all changes are that were acknowledged so far.
    pub(super) fn mark(&self) -> u64 {
        self.first + self.changes.len() as u64
    }

    /// Adds a change that was acknowledged. Data are copied: the request's buffer may be a part of a larger one.
    pub(super) fn add(&mut self, offset: u64, len: u64, content: &Content) {
        let (content, cost) = match content {
            Content::Data(data) => (Content::Data(Bytes::copy_from_slice(data)), Self::cost(data.len())),
            other => (other.clone(), Self::cost(0)),
        };
        let change = self.mark();
        self.changes.push_back(cost);
        self.bytes += cost;
        self.cut_out(offset, offset + len);
        self.pieces.insert(offset, Piece { len, content, change });
    }

    /// Removes a range from the pieces.
    fn cut_out(&mut self, start: u64, end: u64) {
        let before = self.pieces.range(..start).next_back().filter(|(at, piece)| **at + piece.len > start);
        let first = before.map_or(start, |(at, _)| *at);
        let touched: Vec<u64> = self.pieces.range(first..end).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(piece) = self.pieces.remove(&at) else { continue };
            let piece_end = at + piece.len;
            if at < start {
                self.pieces.insert(at, piece.part(0, start - at));
            }
            if piece_end > end {
                self.pieces.insert(end, piece.part(end - at, piece.len));
            }
        }
    }

    /// Removes the changes before a mark: a FLUSH that began at the mark has made them durable.
    pub(super) fn flushed(&mut self, mark: u64) {
        while self.first < mark
            && let Some(cost) = self.changes.pop_front()
        {
            self.bytes -= cost;
            self.first += 1;
        }
        self.pieces.retain(|_, piece| piece.change >= mark);
    }

    /// What has to be sent again: ranges that do not overlap.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, u64, &Content)> {
        self.pieces.iter().map(|(at, piece)| (*at, piece.len, &piece.content))
    }

    /// The content of a range, if it is known as a whole.
    pub(super) fn read(&self, offset: u64, len: u64) -> Option<Bytes> {
        let end = offset + len;
        let before = self.pieces.range(..=offset).next_back()?;
        if let (Content::Data(data), true) = (&before.1.content, before.0 + before.1.len >= end) {
            let from = (offset - before.0) as usize;
            return Some(data.slice(from..from + len as usize));
        }
        // Examined before memory is taken.
        let mut at = offset;
        for (start, piece) in self.pieces.range(*before.0..end) {
            if *start > at || piece.content == Content::Trimmed {
                return None;
            }
            at = start + piece.len;
        }
        if at < end {
            return None;
        }
        let mut bytes = BytesMut::with_capacity(len as usize);
        for (start, piece) in self.pieces.range(*before.0..end) {
            let part = piece.part(offset.saturating_sub(*start), piece.len.min(end - start));
            match part.content {
                Content::Data(data) => bytes.extend_from_slice(&data),
                _ => bytes.resize(bytes.len() + part.len as usize, 0),
            }
        }
        Some(bytes.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_testkit::Rng;

    const SIZE: usize = 256;

    /// What a range would read as: `None` for what is not known.
    type Model = Vec<Option<u8>>;

    fn read_back(log: &Unflushed) -> Model {
        let mut bytes = vec![None; SIZE];
        let mut end = 0;
        for (offset, len, content) in log.pieces() {
            assert!(offset >= end && len > 0, "pieces overlap or are empty");
            end = offset + len;
            for at in 0..len as usize {
                bytes[offset as usize + at] = match content {
                    Content::Data(data) => Some(data[at]),
                    Content::Zeroes { .. } => Some(0),
                    Content::Trimmed => None,
                };
            }
        }
        bytes
    }

    #[test]
    fn the_newest_change_of_each_byte_is_kept_until_it_is_flushed() {
        for seed in 0..50 {
            let (mut random, mut log) = (Rng::new(seed), Unflushed::default());
            // The changes with their numbers, oldest first.
            let mut changes: Vec<(u64, usize, usize, Content)> = Vec::new();
            for _ in 0..100 {
                let start = random.below(SIZE as u64 - 1) as usize;
                let end = start + 1 + random.below((SIZE - start) as u64) as usize;
                let content = match random.below(8) {
                    0 => Content::Trimmed,
                    1 => Content::Zeroes { flags: 0 },
                    _ => Content::Data(vec![random.below(255) as u8 + 1; end - start].into()),
                };
                if random.below(9) == 0 {
                    let mark = log.mark() - random.below(log.mark() - log.first + 1);
                    log.flushed(mark);
                    changes.retain(|(number, ..)| *number >= mark);
                }
                changes.push((log.mark(), start, end, content.clone()));
                log.add(start as u64, (end - start) as u64, &content);
                let mut model: Model = vec![None; SIZE];
                for (_, start, end, content) in &changes {
                    let byte = match content {
                        Content::Data(data) => Some(data[0]),
                        Content::Zeroes { .. } => Some(0),
                        Content::Trimmed => None,
                    };
                    model[*start..*end].fill(byte);
                }
                assert_eq!(read_back(&log), model, "seed {seed}");
                let (from, to) = (start.saturating_sub(3), (end + 3).min(SIZE));
                let wanted: Option<Vec<u8>> = model[from..to].iter().copied().collect();
                assert_eq!(log.read(from as u64, (to - from) as u64).map(Vec::from), wanted, "seed {seed}");
            }
            let mark = log.mark();
            log.flushed(mark);
            assert_eq!((log.bytes(), log.pieces().count()), (0, 0));
        }
    }
}
