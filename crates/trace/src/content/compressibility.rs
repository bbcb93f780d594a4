//! The compressibility of extents.

use crate::rng::{hash, unit};
use nitro_units::Fingerprint;

/// Compression ratios, normally distributed and not less than 1 (Nitro §5.2). Each is a function of fingerprint and
/// seed: equal extents have equal ratios, in every run with the same seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compressibility {
    /// Mean of the bytes per compressed byte, before ratios below 1 are raised to 1.
    pub mean: f64,
    /// The variance of the ratios, likewise.
    pub variance: f64,
    /// The seed: with another one, the same fingerprints have other ratios.
    pub seed: u64,
}

impl Default for Compressibility {
    /// Mean 2 and variance 0.25, as in the paper.
    fn default() -> Self {
        Self { mean: 2.0, variance: 0.25, seed: 0 }
    }
}

/// If an unrounded size is this close to the middle between two whole numbers, it is computed again with functions that
/// return the same on every machine.
const UNSURE: f64 = 1e-6;

impl Compressibility {
    /// Bytes per compressed byte: 1 or more.
    #[must_use]
    pub fn ratio(&self, fingerprint: &Fingerprint) -> f64 {
        self.ratio_by(fingerprint, libm::log, libm::cos)
    }

    /// As [`ratio`](Self::ratio), computed with these functions.
    fn ratio_by(&self, fingerprint: &Fingerprint, log: impl Fn(f64) -> f64, cos: impl Fn(f64) -> f64) -> f64 {
        let (words, _) = fingerprint.0.as_chunks::<8>();
        let content = hash(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        let radius = libm::sqrt(-2.0 * log(1.0 - unit(hash(self.seed, content))));
        let angle = std::f64::consts::TAU * unit(hash(!self.seed, content));
        // Box-Muller transform: a normally distributed number from two uniformly distributed ones.
        let ratio = self.mean + libm::sqrt(self.variance) * radius * cos(angle);
        ratio.max(1.0)
    }

    /// The compressed size in bytes of `len` bytes with this fingerprint; at most `len`.
    #[must_use]
    pub fn compressed_bytes(&self, fingerprint: &Fingerprint, len: u32) -> u32 {
        // The standard library's functions are faster, but their results differ between machines by a fraction of about
        // 2⁻⁵².
        let quick = f64::from(len) / self.ratio_by(fingerprint, f64::ln, f64::cos);
        if (quick.fract() - 0.5).abs() > UNSURE {
            return (quick + 0.5) as u32;
        }
        libm::round(f64::from(len) / self.ratio(fingerprint)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_same_on_every_machine() {
        let compressibility = Compressibility::default();
        let mut fingerprint = Fingerprint([0; 20]);
        for (number, len) in (0u64..200_000).zip([4096, 8192, 131_072].into_iter().cycle()) {
            fingerprint.0[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
            let exact = libm::round(f64::from(len) / compressibility.ratio(&fingerprint)) as u32;
            assert_eq!(compressibility.compressed_bytes(&fingerprint, len), exact, "{number}");
        }
    }
}
