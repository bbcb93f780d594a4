//! The fields of a line and their parsers, which do not allocate (except for lists of fingerprints).

use crate::Problem;
use nitro_units::Fingerprint;

/// Nanoseconds of the units of times in traces.
pub(super) const SECOND_NS: u64 = 1_000_000_000;
pub(super) const MILLISECOND_NS: u64 = 1_000_000;
pub(super) const MICROSECOND_NS: u64 = 1_000;

/// Hexadecimal digits of an MD5 digest.
pub const MD5_DIGITS: usize = 32;

/// The separator between fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Separator {
    /// A single byte.
    Byte(u8),
    /// Any number of spaces and tabs.
    Blanks,
}

/// An iterator over the fields of a line.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: Separator,
}

impl<'a> Fields<'a> {
    /// The fields of `line`.
    #[must_use]
    pub const fn new(line: &'a [u8], separator: Separator) -> Self {
        Self { rest: Some(line), separator }
    }

    /// The fields of a line of comma-separated values.
    #[must_use]
    pub const fn commas(line: &'a [u8]) -> Self {
        Self::new(line, Separator::Byte(b','))
    }

    /// The fields of a line with blanks between them.
    #[must_use]
    pub const fn blanks(line: &'a [u8]) -> Self {
        Self::new(line, Separator::Blanks)
    }

    /// The next field; the error has its `name`.
    ///
    /// # Errors
    /// There is no field left.
    pub fn field(&mut self, name: &'static str) -> Result<&'a [u8], Problem> {
        self.next().ok_or(Problem::new(name, "missing"))
    }

    /// The next field, as a number.
    ///
    /// # Errors
    /// There is no field left, or it is not a number of at most 64 bits.
    pub fn number(&mut self, name: &'static str) -> Result<u64, Problem> {
        number(self.field(name)?, name)
    }

    /// The next field, as a number of at most 32 bits.
    ///
    /// # Errors
    /// There is no field left, or it is not a number, or too large.
    pub fn number_u32(&mut self, name: &'static str) -> Result<u32, Problem> {
        u32::try_from(self.number(name)?).map_err(|_| Problem::new(name, "too large"))
    }

    /// Checks that no field is left.
    ///
    /// # Errors
    /// There is another field.
    pub fn end(&mut self) -> Result<(), Problem> {
        match self.next() {
            None | Some([]) => Ok(()),
            Some(_) => Err(Problem::new("record", "has too many fields")),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        match self.separator {
            Separator::Byte(separator) => {
                if let Some(end) = rest.iter().position(|&byte| byte == separator) {
                    self.rest = Some(&rest[end + 1..]);
                    Some(rest[..end].trim_ascii())
                } else {
                    self.rest = None;
                    Some(rest.trim_ascii())
                }
            }
            Separator::Blanks => {
                let start = rest.iter().position(|&byte| !is_blank(byte));
                let Some(start) = start else {
                    self.rest = None;
                    return None;
                };
                let rest = &rest[start..];
                let end = rest.iter().position(|&byte| is_blank(byte)).unwrap_or(rest.len());
                self.rest = Some(&rest[end..]);
                Some(&rest[..end])
            }
        }
    }
}

const fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Parses a decimal number.
///
/// # Errors
/// The field is not such a number, or has more than 64 bits.
pub fn number(field: &[u8], name: &'static str) -> Result<u64, Problem> {
    if field.is_empty() {
        return Err(Problem::new(name, "empty"));
    }
    let mut value = 0u64;
    for &byte in field {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Problem::new(name, "not a number"));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit.into()))
            .ok_or(Problem::new(name, "too large"))?;
    }
    Ok(value)
}

/// Parses a hexadecimal number, with or without `0x`.
///
/// # Errors
/// The field is not such a number, or has more than 64 bits.
pub fn hexadecimal(field: &[u8], name: &'static str) -> Result<u64, Problem> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    if digits.is_empty() || digits.len() > 16 {
        return Err(Problem::new(name, "not a hexadecimal number"));
    }
    digits.iter().try_fold(0, |value, &byte| match NIBBLES[usize::from(byte)] {
        0xFF => Err(Problem::new(name, "not a hexadecimal number")),
        nibble => Ok(value << 4 | u64::from(nibble)),
    })
}

/// Parses a time with or without a decimal point, in units of `unit_ns` (a power of ten). Returns nanoseconds.
///
/// # Errors
/// The field is not a time, or 2⁶⁴ ns or more.
pub fn time_ns(field: &[u8], unit_ns: u64) -> Result<u64, Problem> {
    const NAME: &str = "time";
    let point = field.iter().position(|&byte| byte == b'.').unwrap_or(field.len());
    let whole = if point == 0 { 0 } else { number(&field[..point], NAME)? };
    let mut time = whole.checked_mul(unit_ns).ok_or(Problem::new(NAME, "too large"))?;
    let mut digit_ns = unit_ns;
    let decimals = field.get(point + 1..).unwrap_or_default();
    if point == 0 && decimals.is_empty() {
        return Err(Problem::new(NAME, "empty"));
    }
    for &byte in decimals {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Problem::new(NAME, "not a number"));
        }
        digit_ns /= 10;
        time = time.checked_add(u64::from(digit) * digit_ns).ok_or(Problem::new(NAME, "too large"))?;
    }
    Ok(time)
}

/// Parses a sequence of digests of `digits` hexadecimal digits each, and adds them to `prints`, truncated or padded
/// with zeroes to the length of a fingerprint.
///
/// # Errors
/// The field is not such a sequence.
pub fn digests(field: &[u8], digits: usize, prints: &mut Vec<Fingerprint>) -> Result<(), Problem> {
    const NAME: &str = "fingerprint";
    if field.is_empty() || !field.len().is_multiple_of(digits) {
        return Err(Problem::new(NAME, "not a whole number of digests"));
    }
    for digest in field.chunks_exact(digits) {
        let mut print = [0; 20];
        for (byte, pair) in print.iter_mut().zip(digest.chunks_exact(2)) {
            let high = NIBBLES[usize::from(pair[0])];
            let low = NIBBLES[usize::from(pair[1])];
            if high | low == 0xFF {
                return Err(Problem::new(NAME, "not hexadecimal"));
            }
            *byte = high << 4 | low;
        }
        prints.push(Fingerprint(print));
    }
    Ok(())
}

/// The value of each hexadecimal digit; 0xFF for other bytes.
static NIBBLES: [u8; 256] = {
    let mut table = [0xFF; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value];
        table[digit as usize] = value as u8;
        table[digit.to_ascii_uppercase() as usize] = value as u8;
        value += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(time_ns(b"1456095145.133076000", 1_000_000_000), Ok(1_456_095_145_133_076_000));
        assert_eq!(time_ns(b"7", 1_000), Ok(7_000));
        assert_eq!(time_ns(b".5", 1_000_000), Ok(500_000));
        assert_eq!(time_ns(b"0.0000000019", 1_000_000_000), Ok(1));
        for bad in [&b""[..], b".", b"-1", b"1.x", b"99999999999999999999", b"18446744073709551615"] {
            assert!(time_ns(bad, 1_000_000_000).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn fields_by_commas_and_blanks() {
        let commas: Vec<&[u8]> = Fields::commas(b"a,, b ").collect();
        assert_eq!(commas, [&b"a"[..], b"", b"b"]);
        let blanks: Vec<&[u8]> = Fields::blanks(b"  a\t b ").collect();
        assert_eq!(blanks, [&b"a"[..], b"b"]);
    }

    #[test]
    fn numbers_end_at_64_bits() {
        assert_eq!(number(b"18446744073709551615", "n"), Ok(u64::MAX));
        assert_eq!(number(b"18446744073709551616", "n"), Err(Problem::new("n", "too large")));
        assert_eq!(hexadecimal(b"0x2A", "n"), Ok(0x2A));
        assert!(hexadecimal(b"0x", "n").is_err());
    }

    #[test]
    fn digests_of_any_length() {
        let mut prints = Vec::new();
        digests(b"00ff10Aa", 4, &mut prints).unwrap();
        assert_eq!((prints[0].0[..3].to_vec(), prints[1].0[..3].to_vec()), (vec![0, 0xFF, 0], vec![0x10, 0xAA, 0]));
        assert!(digests(b"0g", 2, &mut prints).is_err());
        assert!(digests(b"000", 2, &mut prints).is_err());
    }
}
