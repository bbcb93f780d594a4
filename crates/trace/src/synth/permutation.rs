//! Random permutations in constant memory.

use crate::rng::mix;

/// Rounds of the Feistel network; four are enough to look random (Luby and Rackoff, 1988).
const ROUNDS: u64 = 4;

/// A permutation of 0 to `count` - 1.
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// A permutation for each seed; `count` is 1 or more.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        Self { count: count.max(1), half_bits: bits.div_ceil(2), seed }
    }

    /// The image of `x`, which is below `count`.
    pub fn of(&self, x: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut y = x;
        // The network permutes up to four times as many numbers; it is applied again until the result is below `count`.
        loop {
            for round in 0..ROUNDS {
                let (left, right) = (y >> self.half_bits, y & mask);
                let mixed = mix(right ^ mix(self.seed.wrapping_add(round))) & mask;
                y = right << self.half_bits | (left ^ mixed);
            }
            if y < self.count {
                return y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_hit_once() {
        for count in [1, 2, 3, 5, 64, 1000, 4097] {
            let permutation = Permutation::new(count, 7);
            let mut hit: Vec<u64> = (0..count).map(|x| permutation.of(x)).collect();
            hit.sort_unstable();
            assert!(hit.into_iter().eq(0..count), "{count}");
        }
    }
}
