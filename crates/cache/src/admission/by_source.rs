//! What is read and what is written, apart from one another.

use super::{Admission, Admitted, Lane, Provenance, Source};
use nitro_units::ExtentKey;

/// Takes whatever comes; what clients write fills units of its own. Where what was written is soon written again, its units empty
/// by themselves, and those of what is read have no holes.
#[derive(Debug)]
pub struct BySource;

impl Admission for BySource {
    fn admit(&mut self, _key: ExtentKey, from: Provenance) -> Option<Admitted> {
        match from.source {
            Source::Read => Some(Admitted::NEW),
            Source::Write => Some(Admitted { lane: Lane::Side, ..Admitted::NEW }),
        }
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}
