//! The endurance of an SSD in the vendors' units: `1 dwpd`, `600 TBW`.

use nitro_engine::Endurance;
use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// The years to which drive writes per day and terabytes written refer: those of most warranties.
const YEARS: f64 = 5.0;
const DAYS: f64 = 365.0 * YEARS;
/// A terabyte as vendors define it.
const TERABYTE: f64 = 1e12;
/// Maximum of both units, above that of any device.
const DWPD_MAX: f64 = 1000.0;
const TBW_MAX: f64 = 1e7;

/// A drive's endurance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DriveEndurance {
    /// Writes of the whole drive per day.
    Dwpd(f64),
    /// Total terabytes written, of 10¹² bytes each.
    Tbw(f64),
}

impl DriveEndurance {
    /// The endurance of a drive of this size: the bytes that may be written to it, in total and in a day.
    #[must_use]
    pub fn of(self, drive_bytes: u64) -> Endurance {
        let rated = match self {
            Self::Dwpd(writes) => writes * drive_bytes as f64 * DAYS,
            Self::Tbw(terabytes) => terabytes * TERABYTE,
        };
        Endurance { bytes_per_day: ((rated / DAYS) as u64).max(1), rated_bytes: rated as u64 }
    }
}

/// An invalid endurance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveEnduranceError(String);

impl fmt::Display for DriveEnduranceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "{text:?} is not an endurance: write drive writes per day, such as 0.5dwpd, or terabytes written, such as 600TBW"
        )
    }
}

impl std::error::Error for DriveEnduranceError {}

impl FromStr for DriveEndurance {
    type Err = DriveEnduranceError;

    fn from_str(text: &str) -> Result<Self, DriveEnduranceError> {
        let refuse = || DriveEnduranceError(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let number = |digits: &str, max: f64| {
            let number = digits.trim_end().parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= max);
            number.ok_or_else(refuse)
        };
        match (lower.strip_suffix("dwpd"), lower.strip_suffix("tbw")) {
            (Some(digits), _) => number(digits, DWPD_MAX).map(Self::Dwpd),
            (None, Some(digits)) => number(digits, TBW_MAX).map(Self::Tbw),
            (None, None) => Err(refuse()),
        }
    }
}

impl<'de> Deserialize<'de> for DriveEndurance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endurance_is_read_as_vendors_say_it() {
        let of = |text: &str| text.parse::<DriveEndurance>().map(|endurance| endurance.of(1_000_000_000_000));
        let one = of("1 DWPD").unwrap();
        assert_eq!(one, Endurance { bytes_per_day: 1_000_000_000_000, rated_bytes: 1_825_000_000_000_000 });
        assert_eq!(of("1825TBW").unwrap(), one);
        assert_eq!(of("0.5dwpd").unwrap().bytes_per_day, one.bytes_per_day / 2);
        for wrong in ["", "1", "dwpd", "0 dwpd", "-1 dwpd", "nan dwpd", "inf tbw", "1 pbw", "1e9 dwpd"] {
            assert!(of(wrong).unwrap_err().to_string().contains("600TBW"), "{wrong}");
        }
    }
}
