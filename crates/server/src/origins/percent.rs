//! Percent-encoding of parts of URIs (RFC 3986 §2.1).

use std::fmt::Write as _;

/// A part of a URI without its percent-encoding.
pub(super) fn decoded(part: &str) -> Result<String, &'static str> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits =
                    [rest.next(), rest.next()].map(|digit| digit.and_then(|digit| char::from(digit).to_digit(16)));
                match digits {
                    [Some(high), Some(low)] => (high << 4 | low) as u8,
                    _ => return Err("two hexadecimal digits follow a %"),
                }
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    if text.contains('\0') { Err("it has a zero byte") } else { Ok(text) }
}

/// Text with percent-encoding where a URI needs it.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(byte.into()),
            // Writing to a string cannot fail.
            byte => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}
