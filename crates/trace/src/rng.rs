//! Random numbers that are the same on every machine and in every version: xoshiro256** 1.0 (Blackman and Vigna, 2018),
//! seeded by splitmix64, and bit mixers.

/// Mixes the bits of `x` (a bijection): the finalizer of splitmix64.
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hash of two numbers; for each `seed`, a bijection of `x`.
pub const fn hash(seed: u64, x: u64) -> u64 {
    mix(mix(seed.wrapping_add(GOLDEN)) ^ x.wrapping_add(GOLDEN))
}

/// `x` / 2⁶⁴, rounded down to a multiple of 2⁻⁵³: from 0 to below 1.
pub fn unit(x: u64) -> f64 {
    (x >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// The random number generator.
#[derive(Debug, Clone)]
pub struct Rng([u64; 4]);

impl Rng {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        let at = |n: u64| mix(seed.wrapping_add(GOLDEN.wrapping_mul(n)));
        Self([at(1), at(2), at(3), at(4)])
    }

    /// 64 random bits.
    pub const fn next(&mut self) -> u64 {
        let state = &mut self.0;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// A number from 0 to below 1, uniformly distributed.
    pub fn unit(&mut self) -> f64 {
        unit(self.next())
    }

    /// A number from 0 to below `end`, which is not 0. Lemire's multiplication; the bias is below `end` / 2⁶⁴.
    pub const fn below(&mut self, end: u64) -> u64 {
        ((self.next() as u128 * end as u128) >> 64) as u64
    }

    /// An exponentially distributed number with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut words = bytes.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next().to_le_bytes());
        }
        let rest = words.into_remainder();
        rest.copy_from_slice(&self.next().to_le_bytes()[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_the_reference_implementations() {
        // xoshiro256starstar.c with the state 1, 2, 3, 4.
        let mut rng = Rng([1, 2, 3, 4]);
        assert_eq!([rng.next(), rng.next(), rng.next()], [11520, 0, 1_509_978_240]);
        // splitmix64.c with the seed 1234567.
        assert_eq!(Rng::new(1_234_567).0[..2], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn exponentials_have_mean_one() {
        let mut rng = Rng::new(1);
        let sum: f64 = (0..100_000).map(|_| rng.exponential()).sum();
        assert!((sum / 1e5 - 1.0).abs() < 0.02);
    }
}
