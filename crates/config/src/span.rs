//! Time spans in the form `30s`, `5m`, `1h`, `90`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A span of whole seconds; suffixes are `s`, `m` and `h`, none means seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// The longest span: a week.
const SECONDS_MAX: u64 = 7 * 24 * 3600;

/// An invalid time span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanError(String);

impl fmt::Display for SpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a time span: write seconds, or a number with s, m or h, such as 30s (a week at most)",
            self.0
        )
    }
}

impl std::error::Error for SpanError {}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let refuse = || SpanError(text.to_owned());
        let trimmed = text.trim();
        let (number, each) = match trimmed.char_indices().next_back() {
            Some((at, 's')) => (&trimmed[..at], 1),
            Some((at, 'm')) => (&trimmed[..at], 60),
            Some((at, 'h')) => (&trimmed[..at], 3600),
            _ => (trimmed, 1),
        };
        let seconds = number.trim_end().parse::<u64>().ok().and_then(|n| n.checked_mul(each));
        seconds.filter(|seconds| *seconds <= SECONDS_MAX).map(|s| Self(Duration::from_secs(s))).ok_or_else(refuse)
    }
}

impl Serialize for Span {
    /// As a number of seconds.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.as_secs())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a span of time such as \"30s\", \"5m\" or a number of seconds")]
        enum Written {
            Number(u64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(seconds) => seconds.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_in_all_their_spellings() {
        for (text, seconds) in [("0", 0), ("90", 90), ("30s", 30), ("5 m", 300), ("1h", 3600)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_secs(seconds))), "{text}");
        }
        for text in ["", "s", "-1", "1d", "200h", "1.5", "٣s"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
