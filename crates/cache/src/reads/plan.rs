//! The plan: which pieces of a stretch are read with one request.

use super::Costs;
use std::ops::Range;

/// What a piece of a stretch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has to be read.
    Wanted,
    /// It need not be read, but may be.
    Gap,
    /// It must not be read.
    Barred,
}

/// Adjacent bytes of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// Its length in bytes.
    pub bytes: u64,
}

/// A wanted piece: its number, and its bytes in the stretch.
struct Wanted {
    number: usize,
    bytes: Range<u64>,
    /// A request may begin before it and go on through it.
    joins: bool,
}

/// Divides the pieces of a stretch, in their order, into requests with the least total cost: each range of pieces begins
/// and ends with a wanted one, and all wanted pieces are in ranges. A range has at most `bytes_max` bytes, unless it is a
/// single piece.
#[must_use]
pub fn plan(pieces: &[Piece], costs: &Costs, bytes_max: u64) -> Vec<Range<usize>> {
    let wanted = wanted(pieces, costs);
    let mut ranges = Vec::new();
    for segment in wanted.chunk_by(|_, next| next.joins) {
        divide(segment, costs, bytes_max, &mut ranges);
    }
    ranges
}

/// The wanted pieces. A gap that costs more than a request is never read through: to go around it is always allowed.
fn wanted(pieces: &[Piece], costs: &Costs) -> Vec<Wanted> {
    let (mut wanted, mut at): (Vec<Wanted>, u64) = (Vec::new(), 0);
    let (mut gap, mut is_barred) = (0, false);
    for (number, piece) in pieces.iter().enumerate() {
        match piece.kind {
            Kind::Wanted => {
                let joins = !is_barred && (gap == 0 || costs.byte_ns * (gap as f64) < costs.request_ns);
                wanted.push(Wanted { number, bytes: at..at + piece.bytes, joins });
                (gap, is_barred) = (0, false);
            }
            Kind::Gap => gap += piece.bytes,
            Kind::Barred => is_barred = true,
        }
        at += piece.bytes;
    }
    wanted
}

/// Divides pieces whose gaps are all worth reading through, as far as the limit allows.
fn divide(segment: &[Wanted], costs: &Costs, bytes_max: u64, ranges: &mut Vec<Range<usize>>) {
    let span = |from: usize, to: usize| segment[to].bytes.end - segment[from].bytes.start;
    let range = |from: usize, to: usize| segment[from].number..segment[to].number + 1;
    let Some(last) = segment.len().checked_sub(1) else { return };
    if last == 0 || span(0, last) <= bytes_max {
        ranges.push(range(0, last));
        return;
    }
    // The least cost of the first pieces, and the first piece of the last range of these.
    let mut best: Vec<(f64, usize)> = vec![(0.0, 0)];
    for to in 0..segment.len() {
        let mut least = (f64::INFINITY, to);
        for from in (0..=to).rev() {
            if from < to && span(from, to) > bytes_max {
                break;
            }
            let cost = best[from].0 + costs.of(span(from, to));
            if cost <= least.0 {
                least = (cost, from);
            }
        }
        best.push(least);
    }
    let (begin, mut to) = (ranges.len(), segment.len());
    while to > 0 {
        let from = best[to].1;
        ranges.push(range(from, to - 1));
        to = from;
    }
    ranges[begin..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COSTS: Costs = Costs { request_ns: 100.0, byte_ns: 1.0 };

    fn piece(kind: Kind, bytes: u64) -> Piece {
        Piece { kind, bytes }
    }

    fn bytes(pieces: &[Piece]) -> u64 {
        pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// The cost of ranges; `None` if they are not a plan.
    fn cost(pieces: &[Piece], ranges: &[Range<usize>], costs: &Costs, bytes_max: u64) -> Option<f64> {
        let mut at = 0;
        let mut sum = 0.0;
        for range in ranges {
            let is_skipped = pieces.get(at..range.start)?.iter().all(|piece| piece.kind != Kind::Wanted);
            let read = &pieces[range.clone()];
            let fits = bytes(read) <= bytes_max || read.len() == 1;
            let is_barred = read.iter().any(|piece| piece.kind == Kind::Barred);
            let ends = [read.first()?.kind, read.last()?.kind] == [Kind::Wanted; 2];
            if !is_skipped || !fits || is_barred || !ends {
                return None;
            }
            (at, sum) = (range.end, sum + costs.of(bytes(read)));
        }
        pieces[at..].iter().all(|piece| piece.kind != Kind::Wanted).then_some(sum)
    }

    /// The least cost of all ways to divide the pieces.
    fn least(pieces: &[Piece], costs: &Costs, bytes_max: u64) -> f64 {
        let wanted: Vec<_> = (0..pieces.len()).filter(|i| pieces[*i].kind == Kind::Wanted).collect();
        if wanted.is_empty() {
            return 0.0;
        }
        let ways = (0_u32..1 << (wanted.len() - 1)).filter_map(|cuts| {
            let mut ranges = vec![Range { start: wanted[0], end: wanted[0] + 1 }];
            for (at, number) in wanted.iter().enumerate().skip(1) {
                match ranges.last_mut() {
                    Some(last) if cuts & (1 << (at - 1)) == 0 => last.end = number + 1,
                    _ => ranges.push(*number..number + 1),
                }
            }
            cost(pieces, &ranges, costs, bytes_max)
        });
        ways.fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn a_gap_is_read_through_if_that_costs_less_than_a_request() {
        let stretch = |gap| [piece(Kind::Wanted, 10), piece(Kind::Gap, gap), piece(Kind::Wanted, 10)];
        assert_eq!(plan(&stretch(99), &COSTS, u64::MAX), [Range { start: 0, end: 3 }]);
        assert_eq!(plan(&stretch(100), &COSTS, u64::MAX), [0..1, 2..3]);
        let barred = [piece(Kind::Wanted, 10), piece(Kind::Barred, 1), piece(Kind::Wanted, 10)];
        assert_eq!(plan(&barred, &COSTS, u64::MAX), [0..1, 2..3]);
        assert_eq!(plan(&[piece(Kind::Gap, 1)], &COSTS, u64::MAX), []);
    }

    proptest! {
        #[test]
        fn no_plan_costs_less(
            pieces in prop::collection::vec((0_u8..7, 1_u64..120), 0..16),
            byte_ns in 0.0..3.0,
            bytes_max in 50_u64..600,
        ) {
            let kinds = [Kind::Wanted, Kind::Wanted, Kind::Wanted, Kind::Gap, Kind::Gap, Kind::Gap, Kind::Barred];
            let pieces: Vec<_> = pieces.iter().map(|(kind, bytes)| piece(kinds[usize::from(*kind)], *bytes)).collect();
            let costs = Costs { byte_ns, ..COSTS };
            let planned = cost(&pieces, &plan(&pieces, &costs, bytes_max), &costs, bytes_max);
            let least = least(&pieces, &costs, bytes_max);
            prop_assert!(planned.is_some_and(|planned| planned <= least + 1e-6), "{planned:?}, and {least} is possible");
        }
    }
}
