//! By offset, up and up again.

use super::{Destage, DirtyExtents};
use nitro_units::ExtentIndex;

/// Gives extents in order of offset and goes on where it ended, so that neighbours leave together and a hard disk's arm moves one
/// way: a write far back waits for one pass at most.
#[derive(Debug, Default)]
pub struct Elevator {
    /// Where the next call begins.
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
