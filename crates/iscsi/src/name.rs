//! Names of initiators and targets (RFC 7143 §4.2.7, RFC 3722).

use std::fmt;
use std::str::FromStr;

/// The longest name in bytes (RFC 7143 §4.2.7.1).
const BYTES_MAX: usize = 223;
/// The kinds of names, with the valid numbers of hexadecimal digits that follow; none: any text follows.
const KINDS: [(&str, &[usize]); 3] = [("iqn.", &[]), ("eui.", &[16]), ("naa.", &[16, 32])];

/// The name of an initiator or a target, in the form in which names are compared and sent: in lower case. Of the
/// characters that RFC 3722 allows, only those of ASCII are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name(String);

impl Name {
    /// The name as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

/// Why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameError {
    /// It is longer than 223 bytes.
    Long,
    /// It does not begin with `iqn.`, `eui.` or `naa.`.
    Kind,
    /// It has a character that names must not have.
    Character(char),
    /// After `eui.` or `naa.`, there is not the right number of hexadecimal digits.
    Digits,
    /// Nothing follows `iqn.`.
    Empty,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long => write!(f, "an iSCSI name has at most {BYTES_MAX} characters"),
            Self::Kind => f.write_str("an iSCSI name begins with iqn., eui. or naa."),
            Self::Character(wrong) => write!(
                f,
                "an iSCSI name must not contain {wrong:?} (RFC 3722), only letters and digits of ASCII, '-', '.' and ':'"
            ),
            Self::Digits => f.write_str("after eui., 16 hexadecimal digits follow, and after naa., 16 or 32"),
            Self::Empty => f.write_str("nothing follows its type"),
        }
    }
}

impl std::error::Error for NameError {}

/// A text in lower case, if a name may begin with it.
fn lowered(text: &str) -> Result<String, NameError> {
    if text.len() > BYTES_MAX {
        return Err(NameError::Long);
    }
    let wrong = text.chars().find(|c| !c.is_ascii_alphanumeric() && !"-.:".contains(*c));
    wrong.map_or_else(|| Ok(text.to_ascii_lowercase()), |wrong| Err(NameError::Character(wrong)))
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let name = lowered(text)?;
        let found = KINDS.iter().find_map(|(kind, digits)| name.strip_prefix(kind).map(|rest| (rest, digits)));
        match found.ok_or(NameError::Kind)? {
            ("", _) => Err(NameError::Empty),
            (rest, digits) if !digits.is_empty() => {
                let is_number = digits.contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_hexdigit());
                if is_number { Ok(Self(name)) } else { Err(NameError::Digits) }
            }
            _ => Ok(Self(name)),
        }
    }
}

/// A name, or the beginning of names: `iqn.1993-08.org.debian:*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamePattern {
    /// This name.
    Whole(Name),
    /// All names that begin with this text, which is in lower case.
    Start(String),
}

impl NamePattern {
    /// Whether a name is one of those meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Whole(whole) => whole.as_str().eq_ignore_ascii_case(name),
            Self::Start(start) => {
                name.as_bytes().get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start.as_bytes()))
            }
        }
    }

    /// Whether a name matches both patterns.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Whole(name), pattern) | (pattern, Self::Whole(name)) => pattern.matches(name.as_str()),
            (Self::Start(one), Self::Start(other)) => one.starts_with(other) || other.starts_with(one),
        }
    }
}

impl FromStr for NamePattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let Some(start) = text.strip_suffix('*') else { return text.parse().map(Self::Whole) };
        let start = lowered(start)?;
        let shared = |kind: &str| kind.bytes().zip(start.bytes()).all(|(a, b)| a == b);
        if KINDS.iter().any(|(kind, _)| shared(kind)) { Ok(Self::Start(start)) } else { Err(NameError::Kind) }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(name) => name.fmt(f),
            Self::Start(start) => write!(f, "{start}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_others_are_refused() {
        let of = |text: &str| text.parse::<Name>().map(String::from);
        assert_eq!(of("IQN.1991-05.com.Microsoft:HOST1"), Ok("iqn.1991-05.com.microsoft:host1".into()));
        assert_eq!(of("eui.02004567A425678D"), Ok("eui.02004567a425678d".into()));
        assert!(of("naa.52004567BA64678D").is_ok() && of(&format!("naa.{}", "6".repeat(32))).is_ok());
        for (text, error) in [
            ("", NameError::Kind),
            ("iqn", NameError::Kind),
            ("iqn.", NameError::Empty),
            ("vm", NameError::Kind),
            ("iqn.2000-01.org.example:a_b", NameError::Character('_')),
            ("iqn.2000-01.org.example:a b", NameError::Character(' ')),
            ("iqn.2000-01.org.example:a\n", NameError::Character('\n')),
            ("iqn.2000-01.org.example:a,b", NameError::Character(',')),
            ("iqn.2000-01.org.example:\u{212a}", NameError::Character('\u{212a}')),
            ("eui.02004567A425678", NameError::Digits),
            ("eui.02004567A425678G", NameError::Digits),
            ("naa.520", NameError::Digits),
        ] {
            assert_eq!(of(text), Err(error), "{text:?}");
        }
        assert_eq!(of(&format!("iqn.{}", "a".repeat(220))), Err(NameError::Long));
    }

    #[test]
    fn patterns_match_whole_names_or_their_beginning() {
        let matches = |pattern: &str, name: &str| pattern.parse::<NamePattern>().unwrap().matches(name);
        assert!(matches("iqn.A:One", "iqn.a:one") && matches("iqn.a:one", "IQN.A:ONE"));
        assert!(matches("iqn.B:*", "iqn.b:") && matches("iqn.b:*", "iqn.B:x") && matches("*", "eui.0200"));
        assert!(!matches("iqn.a:one", "iqn.a:one2") && !matches("iqn.b:*", "iqn.b") && !matches("iqn.b:*", "é"));
        let overlaps = |one: &str, other: &str| one.parse::<NamePattern>().unwrap().overlaps(&other.parse().unwrap());
        assert!(overlaps("iqn.a:*", "iqn.a:b*") && overlaps("iqn.a:b", "iqn.a:*") && overlaps("*", "*"));
        assert!(
            !overlaps("iqn.a:*", "iqn.b:*") && !overlaps("iqn.a:b", "iqn.a:b2") && !overlaps("iqn.a:b", "iqn.a:bc*")
        );
        for wrong in ["host", "host*", "iqn.a_b*", "iqn.a*b", ""] {
            assert!(wrong.parse::<NamePattern>().is_err(), "{wrong}");
        }
        for text in ["iqn.a:*", "iq*", "*", "iqn.a:b"] {
            assert_eq!(text.parse::<NamePattern>().unwrap().to_string(), text);
        }
    }
}
