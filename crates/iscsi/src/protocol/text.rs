//! Text of keys and values (RFC 7143 §6.1).

use bytes::{BufMut as _, BytesMut};

/// The longest key and the longest value that are accepted, in bytes (§6.1: 63 and 255; binary values of CHAP are
/// longer).
const KEY_BYTES_MAX: usize = 63;
const VALUE_BYTES_MAX: usize = 8192;
/// Most keys of one request.
const PAIRS_MAX: usize = 128;

/// The error of parsing a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// A key or value is not UTF-8.
    #[error("a text is not in UTF-8")]
    Encoding,
    /// An item has no `=`, or no key before it.
    #[error("a text contains an item that is not of the form key=value")]
    NoPair,
    /// A key or value is too long, or there are too many.
    #[error("a key or value is too long, or there are too many")]
    TooLong,
}

/// Keys and values in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pairs<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Pairs<'a> {
    /// Parses `key=value` pairs, each ended by a zero byte.
    ///
    /// # Errors
    /// [`TextError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, TextError> {
        let mut pairs = Vec::new();
        for item in bytes.split(|byte| *byte == 0).filter(|item| !item.is_empty()) {
            let item = std::str::from_utf8(item).map_err(|_| TextError::Encoding)?;
            let (key, value) = item.split_once('=').ok_or(TextError::NoPair)?;
            if key.is_empty() {
                return Err(TextError::NoPair);
            }
            if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX || pairs.len() == PAIRS_MAX {
                return Err(TextError::TooLong);
            }
            pairs.push((key, value));
        }
        Ok(Self(pairs))
    }

    /// The value of the first pair with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All keys and values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().copied()
    }
}

/// Appends `key=value` and a zero byte.
pub fn put_pair(out: &mut BytesMut, key: &str, value: &str) {
    for part in [key.as_bytes(), b"=", value.as_bytes(), b"\0"] {
        out.put_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_they_are_written() {
        let mut out = BytesMut::new();
        put_pair(&mut out, "A", "1");
        put_pair(&mut out, "B", "x=y");
        assert_eq!(&out[..], b"A=1\0B=x=y\0");
        let pairs = Pairs::parse(&out).unwrap();
        assert_eq!((pairs.get("A"), pairs.get("B"), pairs.get("C")), (Some("1"), Some("x=y"), None));
        assert_eq!(Pairs::parse(b"A"), Err(TextError::NoPair));
        assert_eq!(Pairs::parse(b"=1\0"), Err(TextError::NoPair));
        assert_eq!(Pairs::parse(b"A=\xff\0"), Err(TextError::Encoding));
        assert_eq!(Pairs::parse(&b"A=1\0".repeat(200)), Err(TextError::TooLong));
        assert_eq!(Pairs::parse(&[b'A'; 64].iter().chain(b"=").copied().collect::<Vec<_>>()), Err(TextError::TooLong));
    }
}
