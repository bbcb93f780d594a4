//! Admits everything: the paper's policy.

use super::{Admission, Admitted, Provenance};
use nitro_units::ExtentKey;

/// Admits all content (Nitro §3.1).
#[derive(Debug)]
pub struct All;

impl Admission for All {
    fn admit(&mut self, _key: ExtentKey, _from: Provenance) -> Option<Admitted> {
        Some(Admitted::NEW)
    }

    fn ram_bytes(&self) -> usize {
        0
    }
}
