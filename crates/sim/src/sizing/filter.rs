//! Which pieces of a trace belong to a sample.

use crate::workload::Piece;
use hashbrown::HashSet;
use nitro_trace::Op;

/// The range of hashes and thresholds.
const STEPS: u64 = 1 << 32;

/// What a sample is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Neighbouring extents of an object, so that requests stay whole: their number.
    Regions(u64),
    /// Contents: all extents with the same content are in the sample, or none. An extent that gets another content leaves
    /// it. Requests fall apart into extents, so streams are not seen.
    Contents,
}

/// Decides which pieces belong to a sample. Samples of smaller thresholds are parts of those of larger ones.
#[derive(Debug)]
pub(super) struct Filter {
    unit: Unit,
    threshold: u64,
    /// The extents whose present content is in the sample, for [`Unit::Contents`].
    inside: HashSet<u64>,
}

/// The finaliser of SplitMix64, cut to the range of the threshold.
fn hash(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (x ^ (x >> 31)) % STEPS
}

impl Filter {
    /// A filter that lets a share of the units pass, from 0 to 1.
    pub(super) fn new(unit: Unit, rate: f64) -> Self {
        let threshold = ((rate * STEPS as f64) as u64).clamp(1, STEPS);
        Self { unit, threshold, inside: HashSet::new() }
    }

    /// A filter with half of its threshold, for the pieces that this one let pass.
    pub(super) fn halved(&self) -> Self {
        Self { unit: self.unit, threshold: (self.threshold / 2).max(1), inside: HashSet::new() }
    }

    pub(super) fn rate(&self) -> f64 {
        self.threshold as f64 / STEPS as f64
    }

    pub(super) const fn unit(&self) -> Unit {
        self.unit
    }

    /// The piece as it is in the sample, if it is.
    pub(super) fn pass(&mut self, piece: &Piece) -> Option<Piece> {
        if self.threshold == STEPS {
            return Some(*piece);
        }
        if piece.op() == Op::Flush {
            // As many of the flushes as of everything else.
            return (hash(piece.time_ns) < self.threshold).then_some(*piece);
        }
        match self.unit {
            Unit::Regions(extents) => {
                let region = (u64::from(piece.key.object().0) << 48) | (piece.key.index().0 / extents);
                (hash(region) < self.threshold).then_some(*piece)
            }
            Unit::Contents => self.by_content(piece),
        }
    }

    fn by_content(&mut self, piece: &Piece) -> Option<Piece> {
        let key = piece.key.raw();
        let mut word = [0; 8];
        word.copy_from_slice(&piece.fingerprint.0[..8]);
        let is_in = hash(u64::from_le_bytes(word)) < self.threshold;
        match piece.op() {
            Op::Read | Op::Write if is_in => {
                self.inside.insert(key);
                Some(*piece)
            }
            // The extent's old content is gone.
            Op::Write => self.inside.remove(&key).then(|| piece.with_op(Op::Trim)),
            Op::Trim => self.inside.remove(&key).then_some(*piece),
            _ => None,
        }
    }
}

/// Pieces that passed a filter, as whole requests.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) pieces: Vec<Piece>,
    /// Where the current request begins.
    begin: usize,
}

impl Passed {
    /// Filters a piece.
    pub(super) fn take(&mut self, filter: &mut Filter, piece: &Piece) {
        let alone = filter.unit() == Unit::Contents && filter.rate() < 1.0;
        if let Some(passed) = filter.pass(piece) {
            self.pieces.push(passed.with_last(alone || piece.is_last()));
        } else if piece.is_last()
            && !alone
            && let Some(last) = self.pieces[self.begin..].last_mut()
        {
            *last = last.with_last(true);
        }
        if piece.is_last() {
            self.begin = self.pieces.len();
        }
    }

    /// Takes all pieces of requests that have ended.
    pub(super) fn drain_whole(&mut self) -> impl Iterator<Item = Piece> {
        let end = std::mem::take(&mut self.begin);
        self.pieces.drain(..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Pieces;
    use nitro_trace::{Reader, Request, TraceError};

    struct Requests(Vec<Request>);

    impl Reader for Requests {
        fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
            Ok(self.0.pop().map(|next| *request = next).is_some())
        }
    }

    /// Reads of 1 to 40 extents.
    fn pieces() -> Vec<Piece> {
        let read = |number: u64| Request {
            time_ns: number,
            offset: number * 7919 % 5000 * 8192,
            len: (number % 40 + 1) * 8192,
            ..Request::default()
        };
        let requests = Requests((0..4000).rev().map(read).collect());
        let mut live = crate::workload::without_contents(requests, 8192).unwrap_or_else(|e| panic!("{e}"));
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while live.next_batch(&mut batch).unwrap_or_else(|e| panic!("{e}")) {
            all.extend_from_slice(&batch);
        }
        all
    }

    fn passed(filter: &mut Filter, pieces: &[Piece]) -> Vec<Piece> {
        let mut passed = Passed::default();
        pieces.iter().for_each(|piece| passed.take(filter, piece));
        assert_eq!(passed.begin, passed.pieces.len());
        passed.pieces
    }

    #[test]
    fn requests_end_where_their_last_piece_in_the_sample_is_and_smaller_samples_are_parts_of_larger_ones() {
        let all = pieces();
        let mut half = Filter::new(Unit::Regions(16), 0.5);
        let sample = passed(&mut half, &all);
        let share = sample.len() as f64 / all.len() as f64;
        assert!((share - 0.5).abs() < 0.1, "{share}");
        let requests = |pieces: &[Piece]| {
            let ended = pieces.iter().filter(|piece| piece.is_last()).count();
            let times: std::collections::HashSet<u64> = pieces.iter().map(|piece| piece.time_ns).collect();
            assert_eq!(ended, times.len(), "each request ends once");
        };
        requests(&sample);
        let again = passed(&mut half.halved(), &sample);
        requests(&again);
        assert_eq!(again, passed(&mut Filter::new(Unit::Regions(16), 0.25), &all));
        assert_eq!(passed(&mut Filter::new(Unit::Regions(16), 1.0), &all), all);
    }

    #[test]
    fn what_has_another_content_leaves_a_sample_of_contents() {
        let mut filter = Filter::new(Unit::Contents, 0.5);
        let all = pieces();
        let inside = all.iter().find(|piece| filter.pass(piece).is_some()).copied();
        let outside = all.iter().find(|piece| filter.pass(piece).is_none()).copied();
        let (Some(inside), Some(mut outside)) = (inside, outside) else { panic!("half of them") };
        outside.key = inside.key;
        let write = outside.with_op(Op::Write);
        assert_eq!(filter.pass(&outside), None, "a read of another content is not of the sample");
        assert_eq!(filter.pass(&write).map(|piece| (piece.key, piece.op())), Some((inside.key, Op::Trim)));
        assert_eq!(filter.pass(&write), None, "it is gone");
    }
}
