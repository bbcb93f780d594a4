//! Help texts that flow with the terminal's width.

use clap::Command;
use clap::builder::StyledStr;

/// The same command, with each paragraph of the closing texts in one line, so that only the terminal's width determines
/// the line breaks.
#[must_use]
pub fn flowing(command: Command) -> Command {
    let text = command.get_after_long_help().map(StyledStr::to_string);
    let command = match text {
        Some(text) => command.after_long_help(unwrapped(&text)),
        None => command,
    };
    command.mut_subcommands(flowing)
}

/// Joins the lines of each paragraph. Indented lines, and lines that end with a colon, are not joined.
fn unwrapped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = "";
    for line in text.lines() {
        let is_plain = |line: &str| !line.is_empty() && !line.starts_with(' ');
        if !out.is_empty() {
            let joins = is_plain(line) && is_plain(before) && !before.ends_with(':');
            out.push(if joins { ' ' } else { '\n' });
        }
        out += line;
        before = line;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_examples_stay() {
        let text = "Examples:\n  one\n    two\n\nA paragraph\nof two lines.\n\nAnother:\n  three\nend";
        assert_eq!(unwrapped(text), "Examples:\n  one\n    two\n\nA paragraph of two lines.\n\nAnother:\n  three\nend");
    }
}
