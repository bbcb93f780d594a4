//! New content is on probation, apart from the rest; what comes again soon after it was dropped is not (S3-FIFO's and ARC's ghosts).

use super::ghost::Ghost;
use super::{Admission, Admitted, Lane, Provenance};
use nitro_units::ExtentKey;

/// Takes everything: into [`Lane::Main`] what was dropped recently, else into [`Lane::Side`]. Remembers what was
/// dropped for as long as it takes to drop nine tenths as many extents as the cache holds.
#[derive(Debug)]
pub struct Probation {
    dropped: Ghost,
}

impl Probation {
    /// For a cache of so many extents.
    #[must_use]
    pub fn new(extents: u64, seed: u64) -> Self {
        Self { dropped: Ghost::new(extents, seed) }
    }

    pub(super) const fn ram_bytes_max(extents: u64) -> u64 {
        Ghost::ram_bytes_max(extents)
    }
}

impl Admission for Probation {
    fn admit(&mut self, key: ExtentKey, _from: Provenance) -> Option<Admitted> {
        match self.dropped.take(key) {
            Some((is_main, heat)) => {
                let lane = if is_main { Lane::Main } else { Lane::Side };
                Some(Admitted { lane, heat, ..Admitted::MAIN })
            }
            None => Some(Admitted { lane: Lane::Side, ..Admitted::NEW }),
        }
    }

    fn dropped(&mut self, key: ExtentKey, again: Admitted) {
        self.dropped.pass();
        self.dropped.put(key, (again.lane == Lane::Main, again.heat));
    }

    fn overwritten(&mut self, key: ExtentKey, again: Admitted) {
        self.dropped.put(key, (again.lane == Lane::Main, again.heat));
    }

    fn ram_bytes(&self) -> usize {
        self.dropped.ram_bytes()
    }
}
