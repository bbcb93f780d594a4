//! How well an extent compresses.

use crate::rng::{hash, unit};
use nitro_units::Fingerprint;

/// Compression ratios, normally distributed and cut off below 1 (Nitro §5.2), each a function of the fingerprint: equal
/// extents compress alike, in every run with the same seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compressibility {
    /// Bytes per compressed byte on average, before the cut.
    pub mean: f64,
    /// The variance of that.
    pub variance: f64,
    /// Another seed gives other ratios to the same fingerprints.
    pub seed: u64,
}

impl Default for Compressibility {
    /// Mean 2 and variance 0.25, as in the paper.
    fn default() -> Self {
        Self { mean: 2.0, variance: 0.25, seed: 0 }
    }
}

impl Compressibility {
    /// Bytes per compressed byte: 1 or more.
    #[must_use]
    pub fn ratio(&self, fingerprint: &Fingerprint) -> f64 {
        let (words, _) = fingerprint.0.as_chunks::<8>();
        let content = hash(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(hash(self.seed, content))));
        let angle = std::f64::consts::TAU * unit(hash(!self.seed, content));
        // Box and Muller: two uniform numbers make a normal one.
        let ratio = self.mean + libm::sqrt(self.variance) * radius * libm::cos(angle);
        ratio.max(1.0)
    }

    /// What `len` bytes with that fingerprint take when compressed, at most `len`.
    #[must_use]
    pub fn compressed_bytes(&self, fingerprint: &Fingerprint, len: u32) -> u32 {
        libm::round(f64::from(len) / self.ratio(fingerprint)) as u32
    }
}
