//! Reading of numbers from slices that may be too short.

macro_rules! reader {
    ($name:ident, $kind:ty, $from:ident) => {
        pub(crate) fn $name(bytes: &[u8], at: usize) -> Option<$kind> {
            let end = at.checked_add(size_of::<$kind>())?;
            Some(<$kind>::$from(bytes.get(at..end)?.try_into().ok()?))
        }
    };
}

reader!(u16_le, u16, from_le_bytes);
reader!(u32_le, u32, from_le_bytes);
reader!(u64_le, u64, from_le_bytes);
reader!(u16_be, u16, from_be_bytes);
reader!(u32_be, u32, from_be_bytes);
reader!(u64_be, u64, from_be_bytes);

/// A number from its lower and upper half.
pub(crate) fn joined(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}
