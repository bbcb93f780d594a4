//! Division by a constant divisor as a multiplication.

/// A divisor with its reciprocal (Lemire, Kaser and Kurz, "Faster remainder by direct computation", 2019): exact for
/// 32-bit numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divisor {
    divisor: u32,
    /// 2⁶⁴ / divisor, rounded up; a divisor of 1 does not need it.
    reciprocal: u64,
}

impl Divisor {
    /// The divisor must not be 0.
    pub(crate) const fn new(divisor: u32) -> Self {
        Self { divisor, reciprocal: (u64::MAX / divisor as u64).wrapping_add(1) }
    }

    pub(crate) const fn quotient(self, x: u32) -> u32 {
        if self.divisor == 1 {
            return x;
        }
        ((self.reciprocal as u128 * x as u128) >> 64) as u32
    }

    pub(crate) const fn remainder(self, x: u32) -> u32 {
        x - self.quotient(x) * self.divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn divides_exactly(divisor in prop_oneof![1u32..70, 1u32..], x: u32, multiple: u32) {
            let by = Divisor::new(divisor);
            let edge = (multiple / divisor).wrapping_mul(divisor);
            for x in [x, edge, edge.wrapping_sub(1), u32::MAX] {
                prop_assert_eq!((by.quotient(x), by.remainder(x)), (x / divisor, x % divisor));
            }
        }
    }
}
