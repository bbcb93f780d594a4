//! Admits extents at their second miss: extents that are used once, such as most of a scan, never reach the SSD.

use super::{Admission, Admitted, Provenance};
use crate::file_index::mix;
use nitro_units::ExtentKey;

/// Admits an extent at its second miss. Remembers about as many extents as the cache holds, by 32 bits of their hash.
/// Each has one possible slot, in which a newer one replaces an older one.
#[derive(Debug)]
pub struct SecondMiss {
    /// Tags of extents that missed once; 0: none.
    seen: Box<[u32]>,
    seed: u64,
}

impl SecondMiss {
    /// A policy for a cache of `extents`.
    #[must_use]
    pub fn new(extents: u64, seed: u64) -> Self {
        Self { seen: vec![0; Self::places(extents) as usize].into(), seed }
    }

    const fn places(extents: u64) -> u64 {
        let extents = if extents > 1 << 32 { 1 << 32 } else { extents };
        extents.next_power_of_two()
    }

    pub(crate) const fn ram_bytes_max(extents: u64) -> u64 {
        Self::places(extents) * size_of::<u32>() as u64
    }
}

impl Admission for SecondMiss {
    fn admit(&mut self, key: ExtentKey, _from: Provenance) -> Option<Admitted> {
        let hash = mix(key.raw() ^ self.seed);
        let tag = (hash >> 32) as u32 | 1;
        let place = &mut self.seen[hash as usize & (self.seen.len() - 1)];
        if *place == tag {
            *place = 0;
            return Some(Admitted::MAIN);
        }
        *place = tag;
        None
    }

    fn ram_bytes(&self) -> usize {
        size_of_val(&*self.seen)
    }
}
