//! Text from outside on a terminal: names that clients, files and devices have must not control it.

use std::borrow::Cow;

/// The text with control characters as `\u{1b}`, also those that change the direction of text (Unicode, UAX #9) and that end a line or a
/// paragraph.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    replaced(text, is_control)
}

/// As [`escaped`], of a text of several lines: line feeds and tabs stay.
#[must_use]
pub fn escaped_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |c| is_control(c) && c != '\n' && c != '\t')
}

/// JSON with the characters escaped, in the form of JSON, that [`escaped_lines`] would escape. JSON itself asks for some of them only.
#[must_use]
pub fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Line feeds and tabs can only stand between values. All characters that are escaped have four digits at most.
        if is_control(c) && c != '\n' && c != '\t' { out += &format!("\\u{:04x}", u32::from(c)) } else { out.push(c) }
    }
    out
}

fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replaced(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_harmful(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped() {
        assert_eq!(escaped("a\u{1b}[2J\nb\u{7f}\u{9b}\u{202e}"), "a\\u{1b}[2J\\u{a}b\\u{7f}\\u{9b}\\u{202e}");
        assert_eq!(escaped_lines("a\tb\n\r\u{7}"), "a\tb\n\\u{d}\\u{7}");
        let json = escaped_json("{\n \"a\": \"\u{9b}\u{202e}\"}");
        assert_eq!(json, "{\n \"a\": \"\\u009b\\u202e\"}");
        assert_eq!(escaped_lines(&json), json);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["a"], "\u{9b}\u{202e}");
        for plain in ["", "größer – 10 µs", "日本"] {
            assert!(matches!(escaped(plain), Cow::Borrowed(same) if same == plain));
        }
    }
}
