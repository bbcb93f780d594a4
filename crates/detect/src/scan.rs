//! The ranges of a volume to read so that file systems are known before their files are used: all metadata.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of one read.
const WINDOW_BYTES: u64 = 64 << 10;
/// RAM of a run of windows in bytes: the nodes of a B-tree are two thirds full on average.
const RUN_BYTES: u64 = 32;

/// The windows of the volume that remain to be read. They are read in ascending order; windows that are added before
/// the current position are read in the next round.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Runs of windows that do not touch: the first window, and the one after the last.
    todo: BTreeMap<u64, u64>,
    len_max: usize,
    /// The number of windows of the volume.
    windows: u64,
    /// The number of windows that may still be read: contradictory inodes could otherwise add the same windows forever.
    left: u64,
    next: u64,
    forgotten: u64,
}

impl Scan {
    pub(crate) fn new(volume_bytes: u64, ram_bytes_max: u64) -> Self {
        let windows = volume_bytes.div_ceil(WINDOW_BYTES);
        let len_max = usize::try_from(ram_bytes_max / RUN_BYTES).unwrap_or(usize::MAX);
        Self { todo: BTreeMap::new(), len_max, windows, left: windows, next: 0, forgotten: 0 }
    }

    /// RAM in use, in bytes.
    pub(crate) fn ram_bytes(&self) -> u64 {
        self.todo.len() as u64 * RUN_BYTES
    }

    /// The number of ranges that are not read for lack of RAM.
    pub(crate) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Bytes that remain to be read, as far as known.
    pub(crate) fn bytes_left(&self) -> u64 {
        let windows: u64 = self.todo.iter().map(|(first, end)| end - first).sum();
        windows.min(self.left) * WINDOW_BYTES
    }

    /// Adds a range to those to be read.
    pub(crate) fn note(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start / WINDOW_BYTES, range.end.div_ceil(WINDOW_BYTES).min(self.windows));
        if start >= end {
            return;
        }
        while let Some((first, last)) = self.todo.range(..=end).next_back().map(|(first, last)| (*first, *last))
            && last >= start
        {
            if first <= start && last >= end {
                return;
            }
            self.todo.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        if self.todo.len() < self.len_max {
            self.todo.insert(start, end);
        } else {
            self.forgotten += 1;
        }
    }

    /// The next range to read, in bytes of the volume; `None` if none is left.
    pub(crate) fn next(&mut self) -> Option<Range<u64>> {
        self.left = self.left.checked_sub(1)?;
        // A run that was joined with others may contain the current position.
        let around = self.todo.range(..self.next).next_back().map(|(first, end)| (*first, *end));
        let around = around.filter(|(_, end)| *end > self.next && self.todo.len() < self.len_max);
        let (first, end) = if let Some((first, end)) = around {
            self.todo.insert(first, self.next);
            (self.next, end)
        } else {
            let ahead = self.todo.range(self.next..).next().or_else(|| self.todo.first_key_value());
            let (first, end) = ahead.map(|(first, end)| (*first, *end))?;
            self.todo.remove(&first);
            (first, end)
        };
        self.next = first + 1;
        if self.next < end {
            self.todo.insert(self.next, end);
        }
        Some(first * WINDOW_BYTES..self.next * WINDOW_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Compares with a set of windows.
        #[test]
        fn every_window_is_read_once_for_each_time_that_it_was_noted(
            noted in prop::collection::vec((0u64..300, 0u64..9, any::<bool>()), 0..60),
        ) {
            let mut scan = Scan::new(200 * WINDOW_BYTES - 1, 1 << 20);
            let mut model = BTreeSet::new();
            for (first, len, reads) in noted {
                scan.note(first * WINDOW_BYTES..(first + len) * WINDOW_BYTES);
                model.extend((first..first + len).filter(|window| *window < 200));
                if reads {
                    let next = model.range(scan.next..).next().or(model.first()).copied();
                    prop_assert_eq!(scan.next().map(|range| range.start / WINDOW_BYTES), next);
                    next.map(|next| model.remove(&next));
                }
                prop_assert_eq!(scan.bytes_left(), model.len() as u64 * WINDOW_BYTES);
            }
        }
    }

    #[test]
    fn no_more_is_read_than_the_volume_has() {
        let mut scan = Scan::new(10 * WINDOW_BYTES, 1 << 20);
        scan.note(0..u64::MAX);
        let mut read = 0;
        while let Some(range) = scan.next() {
            read += 1;
            scan.note(range);
        }
        assert_eq!((read, scan.bytes_left()), (10, 0));
    }

    #[test]
    fn ram_is_bounded() {
        let mut scan = Scan::new(1 << 40, 10 * RUN_BYTES);
        (0..100).for_each(|number| scan.note(number * (1 << 20)..number * (1 << 20) + 1));
        assert_eq!((scan.ram_bytes(), scan.forgotten()), (10 * RUN_BYTES, 90));
    }
}
