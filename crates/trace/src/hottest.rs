//! The parts of a volume that a trace reads most.

use crate::{Op, Reader, Request, TraceError};
use hashbrown::HashMap;
use std::ops::Range;

/// Most regions that are counted; if there are more, those with the fewest reads are dropped.
const REGIONS_MAX: usize = 1 << 20;

/// Counts the reads of one object, or of the only one if `object` is `None`, by regions of `region_bytes`. Returns the regions
/// with the most reads as ranges of bytes in ascending order, with adjacent ranges merged: at most `bytes_max` in
/// total, and no byte beyond `end`. Of regions with equally many reads, those read last are preferred. A read that
/// touches several regions counts for each.
///
/// Memory: at most 2²⁰ regions are counted (about 32 MiB); if there are more, the half with the fewest reads is
/// dropped.
///
/// # Errors
/// The reader's, and a trace with reads of several objects if `object` is `None`.
///
/// # Panics
/// `region_bytes` is 0.
pub fn hottest(
    reader: &mut dyn Reader,
    object: Option<u32>,
    region_bytes: u64,
    bytes_max: u64,
    end: u64,
) -> Result<Vec<Range<u64>>, TraceError> {
    let mut heats = Heats { of: HashMap::new(), max: REGIONS_MAX };
    let mut request = Request::default();
    let (mut number, mut only) = (0, None);
    while reader.next(&mut request)? {
        if request.op != Op::Read || object.is_some_and(|wanted| wanted != request.object) {
            continue;
        }
        if *only.get_or_insert(request.object) != request.object {
            return Err(several(reader, [only.unwrap_or_default(), request.object]));
        }
        if request.offset >= end {
            continue;
        }
        number += 1;
        for region in request.blocks(region_bytes).take_while(|region| region * region_bytes < end) {
            heats.note(region, number);
        }
    }
    Ok(merged(heats.most((bytes_max / region_bytes) as usize), region_bytes, end))
}

/// The error of a trace with reads of several objects.
fn several(reader: &dyn Reader, objects: [u32; 2]) -> TraceError {
    let [first, second] = objects.map(|object| match reader.object_name(object).short() {
        Some(name) => format!("{object} ({name})"),
        None => object.to_string(),
    });
    TraceError::setting(format_args!(
        "the trace has reads of several disks, such as {first} and {second}; choose one by its number"
    ))
}

/// The number of reads, and the number of the last read, by region.
struct Heats {
    of: HashMap<u64, (u64, u64)>,
    max: usize,
}

impl Heats {
    fn note(&mut self, region: u64, number: u64) {
        let (reads, last) = self.of.entry(region).or_default();
        (*reads, *last) = (*reads + 1, number);
        if self.of.len() > self.max {
            let kept = self.most(self.max / 2);
            let kept: HashMap<_, _> = kept.into_iter().map(|region| (region, self.of[&region])).collect();
            self.of = kept;
        }
    }

    /// The regions with the most reads, in no order.
    fn most(&self, count: usize) -> Vec<u64> {
        let mut all: Vec<(u64, u64, u64)> =
            self.of.iter().map(|(region, (reads, last))| (*reads, *last, *region)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.truncate(count);
        all.into_iter().map(|(_, _, region)| region).collect()
    }
}

/// Converts regions into ranges of bytes in ascending order; merges adjacent ones, and cuts off bytes beyond `end`.
fn merged(mut regions: Vec<u64>, region_bytes: u64, end: u64) -> Vec<Range<u64>> {
    regions.sort_unstable();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for region in regions {
        let range = region * region_bytes..((region + 1) * region_bytes).min(end);
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listed;

    const MIB: u64 = 1 << 20;

    /// A reader of these requests: operation, object, offset, length.
    fn given(requests: Vec<(Op, u32, u64, u64)>) -> impl Reader {
        let request = |(op, object, offset, len)| Request { op, object, offset, len, ..Request::default() };
        Listed::new(requests.into_iter().map(request))
    }

    fn found(requests: Vec<(Op, u32, u64, u64)>, object: Option<u32>, bytes_max: u64) -> Vec<Range<u64>> {
        hottest(&mut given(requests), object, MIB, bytes_max, 10 * MIB - 5).unwrap()
    }

    #[test]
    fn what_is_read_most_comes_first_and_neighbours_are_one_range() {
        let read = |at: u64| (Op::Read, 0, at * MIB, 4096);
        let requests =
            vec![read(1), read(1), read(7), read(2), read(7), read(5), (Op::Write, 0, 3 * MIB, 4096), read(40)];
        assert_eq!(found(requests.clone(), None, 2 * MIB), [MIB..2 * MIB, 7 * MIB..8 * MIB]);
        assert_eq!(
            found(requests.clone(), Some(0), 3 * MIB),
            [MIB..2 * MIB, 5 * MIB..6 * MIB, 7 * MIB..8 * MIB],
            "5 after 2"
        );
        assert_eq!(found(requests.clone(), Some(0), 100 * MIB), [MIB..3 * MIB, 5 * MIB..6 * MIB, 7 * MIB..8 * MIB]);
        assert_eq!(found(requests, Some(1), 100 * MIB), []);
        let both = vec![read(1), (Op::Write, 1, 0, 4096), (Op::Read, 2, 0, 4096)];
        assert_eq!(found(both.clone(), Some(0), 100 * MIB).as_slice(), std::slice::from_ref(&(MIB..2 * MIB)));
        let error = hottest(&mut given(both), None, MIB, MIB, 10 * MIB).unwrap_err().to_string();
        assert!(error.contains("several disks, such as 0 and 2"), "{error}");
        let over_the_end = vec![(Op::Read, 0, 8 * MIB + 1, 3 * MIB)];
        assert_eq!(found(over_the_end, None, 100 * MIB).first(), Some(&(8 * MIB..10 * MIB - 5)));
    }

    #[test]
    fn memory_is_bounded_and_what_is_hot_stays() {
        let mut heats = Heats { of: HashMap::new(), max: 64 };
        for number in 0..10_000 {
            heats.note(if number % 2 == 0 { 7 } else { number }, number);
        }
        assert!(heats.of.len() <= 64);
        assert_eq!(heats.most(1), [7]);
    }
}
