//! Collisions of short fingerprints, by drawing them.

use crate::load::mix;
use nitro_cos::short_spot;
use nitro_units::Fingerprint;

/// One page of this number is kept in a pass, which bounds the RAM: 16 bytes for each of its entries.
const PASSES: u32 = 16;
/// Passes that are made: pages are independent, so that these are a sample.
const PASSES_MADE: u32 = 4;
/// Bits of the paper's short fingerprint.
const PAPER_BITS: u32 = 32;

/// Short fingerprints that were drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    /// Contents of the store, and of them those in the pages that were looked at.
    pub(super) contents: u64,
    pub(super) sampled: u64,
    /// Of these, those that collide with another one: with the entries of our own store (24 bits in a page), and with
    /// four bytes in the same page.
    own: u64,
    paper: u64,
    /// The mean number of entries of a page.
    entries_a_page: f64,
}

/// The fingerprint of a content: uniform bits, as those of a hash.
fn fingerprint(number: u64) -> Fingerprint {
    let mut bytes = [0; 20];
    let words = [mix(number), mix(number ^ 0x5EED_0000_0000_0001), mix(number ^ 0x0F1C_E000_0000_0002)];
    for (field, word) in bytes.chunks_mut(8).zip(words) {
        field.copy_from_slice(&word.to_le_bytes()[..field.len()]);
    }
    Fingerprint(bytes)
}

/// The number of entries that have the same bits as another one; sorts them.
fn colliding(entries: &mut [u64]) -> u64 {
    entries.sort_unstable();
    entries.chunk_by(|a, b| a == b).filter(|equal| equal.len() > 1).map(|equal| equal.len() as u64).sum()
}

impl Drawn {
    /// Draws the fingerprints of `contents` contents, for a store that is planned for as many.
    pub(super) fn draw(contents: u64) -> Self {
        let mut drawn = Self { contents, sampled: 0, own: 0, paper: 0, entries_a_page: 0.0 };
        let mut pages = 0;
        for pass in 0..PASSES_MADE {
            let (mut own, mut paper): (Vec<u64>, Vec<u64>) = (Vec::new(), Vec::new());
            for number in 0..contents {
                let fingerprint = fingerprint(number);
                let (page, tag) = short_spot(&fingerprint, contents);
                if page % PASSES != pass {
                    continue;
                }
                pages = pages.max(page + 1);
                let [a, b, c, d, ..] = fingerprint.0;
                let four = u32::from_le_bytes([a, b, c, d]);
                own.push(u64::from(page) << PAPER_BITS | u64::from(tag));
                paper.push(u64::from(page) << PAPER_BITS | u64::from(four));
            }
            drawn.sampled += own.len() as u64;
            drawn.own += colliding(&mut own);
            drawn.paper += colliding(&mut paper);
        }
        drawn.entries_a_page = contents as f64 / f64::from(pages.max(1));
        drawn
    }

    fn percent(&self, colliding: u64) -> f64 {
        100.0 * colliding as f64 / self.sampled.max(1) as f64
    }

    /// Percent of the contents whose entry in our own store is that of another one, too.
    pub(super) fn own_percent(&self) -> f64 {
        self.percent(self.own)
    }

    /// The same for four bytes in a page.
    pub(super) fn paper_percent(&self) -> f64 {
        self.percent(self.paper)
    }

    /// What the birthday argument says of `bits` bits in a page: each of the other entries has the same ones with a
    /// probability of 1 in 2^bits, whatever the number of pages.
    pub(super) fn law_percent(&self, bits: u32) -> f64 {
        100.0 * (self.entries_a_page - 1.0).max(0.0) / 2_f64.powi(bits as i32)
    }

    /// The same without pages: four bytes alone, among all contents.
    pub(super) fn alone_percent(&self) -> f64 {
        100.0 * (1.0 - (-(self.contents as f64) / 2_f64.powi(PAPER_BITS as i32)).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_collisions_follow_the_law() {
        assert_eq!(colliding(&mut [3, 1, 3, 2, 3, 1]), 5);
        assert_eq!(colliding(&mut [3, 1, 2]), 0);
        let drawn = Drawn::draw(2_000_000);
        let (found, law) = (drawn.own_percent(), drawn.law_percent(24));
        // About 18 are expected; the bounds are four standard deviations away.
        assert!(found > 0.0 && (found - law).abs() < law, "{found} %, {law} %");
        assert!(drawn.sampled * 5 > drawn.contents && drawn.sampled * 3 < drawn.contents, "{}", drawn.sampled);
        assert!(drawn.paper_percent() < 0.001 && drawn.alone_percent() > 0.04);
    }
}
