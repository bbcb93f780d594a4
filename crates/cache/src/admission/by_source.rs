//! Separates read content from written content.

use super::{Admission, Admitted, Lane, Provenance, Source};
use nitro_units::ExtentKey;

/// Admits all content; written content goes to separate units. If written content is soon overwritten, these units
/// become empty without eviction, and the units of read content have no holes.
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
