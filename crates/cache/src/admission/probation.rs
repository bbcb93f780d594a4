//! New content is on probation, apart from the rest; what comes again soon after it was dropped is not (S3-FIFO's and ARC's ghosts).

use super::{Admission, Admitted, Lane, Provenance};
use crate::file_index::mix;
use nitro_units::ExtentKey;

/// Tags that share a place: of these the oldest is driven out.
const WAYS: usize = 8;

/// Bits of a tag that are no hash: what the extent deserves should it come again.
const HEAT_BITS: u32 = 0b11;
const MAIN_BIT: u32 = 0b100;
const SET_BIT: u32 = 0b1000;
const HASH_BITS: u32 = !0b1111;

/// Takes everything: into [`Lane::Main`] what was dropped lately, else into [`Lane::Side`]. Remembers seven tenths as many dropped
/// extents as the cache holds, by 28 bits of their hash beside their place.
#[derive(Debug)]
pub struct Probation {
    /// Tags of dropped extents, the newest of each place first; 0: none.
    dropped: Box<[[u32; WAYS]]>,
    seed: u64,
}

impl Probation {
    /// For a cache of so many extents.
    #[must_use]
    pub fn new(extents: u64, seed: u64) -> Self {
        Self { dropped: vec![[0; WAYS]; Self::places(extents)].into(), seed }
    }

    const fn places(extents: u64) -> usize {
        let extents = if extents > 1 << 32 { 1 << 32 } else { extents };
        let places = extents * 7 / 10 / WAYS as u64;
        if places == 0 { 1 } else { places as usize }
    }

    pub(super) const fn ram_bytes_max(extents: u64) -> u64 {
        (Self::places(extents) * WAYS * size_of::<u32>()) as u64
    }

    fn find(&mut self, key: ExtentKey) -> (&mut [u32; WAYS], u32) {
        let hash = mix(key.raw() ^ self.seed);
        let place = ((u128::from(hash) * self.dropped.len() as u128) >> 64) as usize;
        (&mut self.dropped[place], hash as u32 & HASH_BITS | SET_BIT)
    }
}

impl Admission for Probation {
    fn admit(&mut self, key: ExtentKey, _from: Provenance) -> Option<Admitted> {
        let (tags, tag) = self.find(key);
        let Some(at) = tags.iter().position(|known| is_of(*known, tag)) else {
            return Some(Admitted { lane: Lane::Side, ..Admitted::NEW });
        };
        let known = tags[at];
        tags[at..].rotate_left(1);
        tags[WAYS - 1] = 0;
        let lane = if known & MAIN_BIT == 0 { Lane::Side } else { Lane::Main };
        Some(Admitted { lane, heat: (known & HEAT_BITS) as u8, ..Admitted::MAIN })
    }

    fn dropped(&mut self, key: ExtentKey, again: Admitted) {
        let (tags, tag) = self.find(key);
        let at = tags.iter().position(|known| is_of(*known, tag) || *known == 0).unwrap_or(WAYS - 1);
        tags[..=at].rotate_right(1);
        let main = if again.lane == Lane::Main { MAIN_BIT } else { 0 };
        tags[0] = tag | main | u32::from(again.heat) & HEAT_BITS;
    }

    fn ram_bytes(&self) -> usize {
        size_of_val(&*self.dropped)
    }
}

/// Whether a tag is that of an extent.
const fn is_of(known: u32, tag: u32) -> bool {
    known & (HASH_BITS | SET_BIT) == tag
}
