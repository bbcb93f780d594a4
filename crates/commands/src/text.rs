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

/// Width of the list of commands, in columns.
const LIST_WIDTH: usize = 100;

/// A list of a program's commands under headings, each with its description.
#[must_use]
pub fn grouped(program: &Command, groups: &[(&str, &[&str])]) -> String {
    let longest = groups.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let indent = longest + 4;
    let mut out = String::new();
    for (heading, names) in groups {
        out += &format!("{heading}:\n");
        for name in *names {
            // The built-in help is added only when the program runs.
            let about = program.find_subcommand(name).and_then(Command::get_about).map(StyledStr::to_string);
            let about = about.unwrap_or_else(|| "Print this message or the help of the given commands".to_owned());
            let mut line = format!("  {name:<longest$}  ");
            let mut column = indent;
            for word in about.split_whitespace() {
                if column > indent && column + word.chars().count() > LIST_WIDTH {
                    line = format!("{}\n{}", line.trim_end(), " ".repeat(indent));
                    column = indent;
                }
                line += &format!("{word} ");
                column += word.chars().count() + 1;
            }
            out += &format!("{}\n", line.trim_end());
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_listed_under_headings_and_wrapped() {
        let about = "Serve volumes ".repeat(12);
        let program = Command::new("it").subcommand(Command::new("serve").about(about));
        let list = grouped(&program, &[("First", &["serve"]), ("Then", &["help"])]);
        assert!(
            list.starts_with("First:\n  serve  Serve volumes") && list.contains("\n\nThen:\n  help   Print"),
            "{list}"
        );
        assert!(list.lines().all(|line| line.len() <= LIST_WIDTH) && list.contains("\n         "), "{list}");
    }

    #[test]
    fn paragraphs_are_joined_and_examples_stay() {
        let text = "Examples:\n  one\n    two\n\nA paragraph\nof two lines.\n\nAnother:\n  three\nend";
        assert_eq!(unwrapped(text), "Examples:\n  one\n    two\n\nA paragraph of two lines.\n\nAnother:\n  three\nend");
    }
}
