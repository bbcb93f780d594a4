//! Reads of extents of which parts were written while they were not cached, and that are worth it. They begin after the client
//! was answered. Like any read of the origin, they have tokens, which the next write of the extent makes void.

use super::Volume;
use super::flights::Start;
use super::readahead::Wanted;
use crate::insert::Patch;
use crate::kept::Kept;
use nitro_cache::admission::Provenance;
use nitro_port::{Clock, Device, Origin, Urgency};
use nitro_units::{ExtentIndex, ExtentRange};
use std::sync::Arc;

/// Extents read at once.
pub(crate) const AT_ONCE_MAX: usize = 4;

/// The rest of an extent, which is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remainder {
    pub(super) index: ExtentIndex,
    /// The provenance of the part that was written last.
    pub(super) from: Provenance,
}

/// Parts of an extent that is not cached, and where to ask for its rest.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(super) patch: Patch,
    pub(super) remainder: Remainder,
    pub(super) remainders: Arc<Wanted<Remainder>>,
}

impl Parts {
    /// Asks for the rest; returns whether another extent's was given up for it. The write has ended.
    pub(super) fn want_remainder(self) -> bool {
        self.remainders.push(self.remainder)
    }
}

impl<F: Device, O: Origin, C: Clock> Volume<F, O, C> {
    /// Reads an extent from the origin, and inserts it, unless it is written or read meanwhile.
    pub(super) async fn read_remainder(&self, Remainder { index, from }: Remainder) {
        let one = ExtentRange::one(index);
        if self.fill_paused() || self.is_at_hand(index) || !self.flights.is_idle(one) {
            return;
        }
        // From here on, a write makes it void. One that is in progress wants the rest itself when it ends.
        let (Start::Own, _, Some(reading)) = self.flights.start(one) else { return };
        if !self.is_cached() || self.first_dirty(one).is_some() {
            return;
        }
        self.metrics.partial_fetched.add(1);
        let Some(Ok(read)) = self.read_missing(&[one], Urgency::Low).await.runs.pop() else { return };
        let keep = read.iter().map(|extent| Kept::own(extent.clone())).collect();
        self.insert_read(reading, Ok(read), keep, |_| None, from);
    }
}
