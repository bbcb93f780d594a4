//! New content is on probation, in separate units. Content that is inserted again soon after it was dropped goes to
//! main units (the ghosts of S3-FIFO and ARC).

use super::ghost::{Deserved, Ghost};
use super::{Admission, Admitted, Lane, Provenance};
use nitro_units::ExtentKey;

/// Admits everything: recently dropped extents into [`Lane::Main`], recently overwritten ones into their former lane,
/// and others into [`Lane::Side`]. An extent is remembered until nine tenths of the number of extents in the cache have
/// been dropped after it.
#[derive(Debug)]
pub struct Probation {
    dropped: Ghost,
}

impl Probation {
    /// A policy for a cache of `extents`.
    #[must_use]
    pub fn new(extents: u64, seed: u64) -> Self {
        Self { dropped: Ghost::new(extents, seed) }
    }

    pub(super) const fn ram_bytes_max(extents: u64) -> u64 {
        Ghost::ram_bytes_max(extents)
    }
}

fn deserved(again: Admitted) -> Deserved {
    Deserved { is_main: again.lane == Lane::Main, heat: again.heat }
}

impl Admission for Probation {
    fn admit(&mut self, key: ExtentKey, _from: Provenance) -> Option<Admitted> {
        match self.dropped.take(key) {
            Some(Deserved { is_main, heat }) => {
                let lane = if is_main { Lane::Main } else { Lane::Side };
                Some(Admitted { lane, heat, ..Admitted::MAIN })
            }
            None => Some(Admitted { lane: Lane::Side, ..Admitted::NEW }),
        }
    }

    fn dropped(&mut self, key: ExtentKey, again: Admitted) {
        self.dropped.pass();
        self.dropped.put(key, deserved(again));
    }

    fn overwritten(&mut self, key: ExtentKey, again: Admitted) {
        self.dropped.put(key, deserved(again));
    }

    fn ram_bytes(&self) -> usize {
        self.dropped.ram_bytes()
    }
}
