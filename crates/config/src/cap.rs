//! A limit that may also be none, so that a command can lift it.

use crate::settings::Bounded;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt::Display;
use std::str::FromStr;

/// The word for no limit.
const NONE: &str = "none";

/// A limit, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cap<T> {
    /// No limit.
    None,
    /// Not more than this.
    At(T),
}

impl<T> Cap<T> {
    /// The limit, if there is one.
    pub fn limit(self) -> Option<T> {
        match self {
            Self::None => None,
            Self::At(limit) => Some(limit),
        }
    }
}

impl<T: FromStr> FromStr for Cap<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == NONE { Ok(Self::None) } else { text.parse().map(Self::At) }
    }
}

impl<T: Serialize> Serialize for Cap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str(NONE),
            Self::At(limit) => limit.serialize(serializer),
        }
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Cap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number, a size such as \"20M\", or \"none\"")]
        enum Written {
            Number(u64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        let refused = |error: T::Err| de::Error::custom(format_args!("{text:?}: {error}; write a number, or \"none\""));
        text.parse().map_err(refused)
    }
}

impl<T: Bounded> Bounded for Cap<T> {
    fn amount(&self) -> Option<(u64, String)> {
        match self {
            Self::None => None,
            Self::At(limit) => limit.amount(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_console::size::Size;

    #[test]
    fn a_limit_is_read_in_all_its_spellings_and_written_as_it_is_read() {
        for (text, cap) in [("\"none\"", Cap::None), ("\"20M\"", Cap::At(Size(20 << 20))), ("7", Cap::At(Size(7)))] {
            assert_eq!(serde_json::from_str::<Cap<Size>>(text).unwrap(), cap, "{text}");
            assert_eq!(serde_json::from_str::<Cap<Size>>(&serde_json::to_string(&cap).unwrap()).unwrap(), cap);
        }
        for text in ["\"None\"", "-1", "\"\"", "true", "1.5"] {
            assert!(serde_json::from_str::<Cap<Size>>(text).is_err(), "{text}");
        }
    }
}
