//! Destages by ascending offset, in repeated passes.

use super::{Destage, DirtyExtents};
use nitro_units::ExtentIndex;

/// Returns extents in order of offset and continues where it ended, so that adjacent extents are destaged together and
/// a hard disk's arm moves in one direction. Each extent is returned within one pass.
#[derive(Debug, Default)]
pub struct Elevator {
    /// The extent at which the next call begins.
    at: u64,
}

impl Destage for Elevator {
    fn next(&mut self, dirty: DirtyExtents<'_>, before: u32, count: usize) -> Vec<ExtentIndex> {
        let due = dirty.from(ExtentIndex(self.at)).filter(|(_, since)| *since <= before);
        let chosen: Vec<_> = due.take(count).map(|(index, _)| index).collect();
        self.at = chosen.last().map_or(0, |last| last.0 + 1);
        chosen
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}
