//! Sizes as people write them: `4G`, `512M`, `64KiB`, `4096`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// A number of bytes. Suffixes are powers of 1024: `K`, `M`, `G`, `T`, `P`, also as `KiB` and the like; `B` is bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Size(pub u64);

const SUFFIXES: [char; 5] = ['K', 'M', 'G', 'T', 'P'];

/// The error of parsing a size, with the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeError(String);

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a size: write bytes or a number with K, M, G, T or P, such as 4G, 512M or 64KiB", self.0)
    }
}

impl std::error::Error for SizeError {}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let refuse = || SizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, unit) = trimmed.split_at(digits);
        let shift = unit_shift(unit.trim_start()).ok_or_else(refuse)?;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(1 << shift).map(Self).ok_or_else(refuse);
        }
        // A fraction is possible only with a unit above a byte, and must give a whole number of bytes.
        let value = number.parse::<f64>().map_err(|_| refuse())? * (1u64 << shift) as f64;
        let exact = shift > 0 && value.fract() == 0.0 && value < (1u64 << 53) as f64;
        if exact { Ok(Self(value as u64)) } else { Err(refuse()) }
    }
}

/// The binary logarithm of a unit; `None` if the text is not a unit.
fn unit_shift(unit: &str) -> Option<u32> {
    let upper = unit.to_ascii_uppercase();
    let mut letters = upper.chars();
    let Some(first) = letters.next() else { return Some(0) };
    if upper == "B" {
        return Some(0);
    }
    let power = SUFFIXES.iter().position(|&suffix| suffix == first)? as u32 + 1;
    matches!(letters.as_str(), "" | "B" | "IB").then_some(power * 10)
}

impl Size {
    /// The size as it is written in a configuration file: `76M`, or bytes if no unit fits exactly.
    #[must_use]
    pub fn exact(self) -> String {
        let power = (self.0.trailing_zeros() as usize / 10).min(SUFFIXES.len());
        match power.checked_sub(1).filter(|_| self.0 > 0) {
            Some(at) => format!("{}{}", self.0 >> (power * 10), SUFFIXES[at]),
            None => self.0.to_string(),
        }
    }
}

impl fmt::Display for Size {
    /// At most two decimals, in the largest unit that is not above the size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = if self.0 == 0 { 0 } else { (self.0.ilog2() / 10).min(SUFFIXES.len() as u32) };
        let Some(suffix) = power.checked_sub(1).map(|i| SUFFIXES[i as usize]) else {
            return write!(f, "{} B", self.0);
        };
        let value = format!("{:.2}", self.0 as f64 / (1u64 << (power * 10)) as f64);
        write!(f, "{} {suffix}iB", value.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl Serialize for Size {
    /// As a number of bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"4G\", \"512M\", \"64KiB\" or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Size, E> {
                u64::try_from(value).map(Size).map_err(|_| E::custom(SizeError(value.to_string())))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_all_their_spellings() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("17B", 17),
            ("4G", 4 << 30),
            ("4g", 4 << 30),
            ("512M", 512 << 20),
            ("64KiB", 64 << 10),
            ("64 kb", 64 << 10),
            ("1.5G", 3 << 29),
            ("2T", 2 << 40),
            ("1PiB", 1 << 50),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_what_is_accepted() {
        for text in ["", "G", "4X", "-1", "4GG", "1.5", "1..5G", "99999999P", "4 G iB", "1e3", "٣"] {
            let error = text.parse::<Size>().expect_err(text);
            assert!(error.to_string().contains("4G, 512M or 64KiB"), "{error}");
        }
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (8192, "8 KiB"), (3 << 29, "1.5 GiB"), (1 << 60, "1024 PiB")]
        {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }
}
