//! The description of the command line, with help texts that flow with the terminal's width.

use super::Cli;
use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

/// The description of the whole command line.
pub(crate) fn command() -> Command {
    flowing(Cli::command())
}

/// The same command, with each paragraph of the closing texts in one line, so that only the terminal's width determines
/// the line breaks.
fn flowing(command: Command) -> Command {
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
    use std::fs;
    use std::path::{Path, PathBuf};

    fn each(command: &mut Command, path: &str, check: &mut dyn FnMut(&str, &mut Command)) {
        check(path, command);
        for sub in command.get_subcommands_mut() {
            let path = format!("{path} {}", sub.get_name());
            each(sub, &path, check);
        }
    }

    #[test]
    fn paragraphs_are_joined_and_examples_stay() {
        let text = "Examples:\n  one\n    two\n\nA paragraph\nof two lines.\n\nAnother:\n  three\nend";
        assert_eq!(unwrapped(text), "Examples:\n  one\n    two\n\nA paragraph of two lines.\n\nAnother:\n  three\nend");
    }

    #[test]
    fn no_help_has_a_link_of_the_code_or_a_line_that_is_wrapped_twice() {
        let mut whole = command().term_width(72).disable_help_subcommand(true);
        whole.build();
        each(&mut whole, "nitro", &mut |path, command| {
            let help = command.clone().term_width(72).render_long_help().to_string();
            for leaked in ["[`", "`]", "crate::", "::Volume", "nitro_"] {
                assert!(!help.contains(leaked), "{path}: {leaked}: {help}");
            }
            // In a closing text that is wrapped only once, every line of a paragraph but the last is full.
            let lines: Vec<&str> = help.lines().collect();
            for pair in
                lines.windows(2).filter(|pair| pair.iter().all(|line| !line.starts_with(' ') && !line.is_empty()))
            {
                let next = pair[1].split(' ').next().unwrap_or_default();
                let is_heading = pair[0].ends_with(':') || pair[0].starts_with("Usage");
                assert!(is_heading || pair[0].len() + next.len() >= 72, "{path}: {pair:?}");
            }
        });
    }

    #[test]
    fn options_of_the_log_have_a_heading_of_their_own() {
        let mut whole = command();
        whole.build();
        let mut status = whole.find_subcommand("status").cloned().unwrap();
        let text = status.render_long_help().to_string();
        let (own, logging) = text.split_once("Logging:").expect("a heading");
        assert!(!own.contains("--log") && logging.contains("--log-format"), "{text}");
    }

    /// The Markdown pages of the project, apart from those that are generated or are history.
    fn pages() -> Vec<(PathBuf, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folders = ["docs", "docs/guide"].map(|folder| root.join(folder));
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
        let is_read = |path: &PathBuf| {
            let name = path.file_name().unwrap();
            path.extension().is_some_and(|extension| extension == "md") && name != "CLI.md" && name != "REPRODUCTION.md"
        };
        let read = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
        files.filter(is_read).chain([root.join("README.md")]).map(read).collect()
    }

    /// The command lines of `nitro` in a page: lines of code blocks, and code in the text.
    fn command_lines(page: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut fenced = false;
        let mut before = String::new();
        for line in page.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if let (true, Some(part)) = (fenced, line.strip_suffix('\\')) {
                before += part;
            } else if fenced {
                let line = std::mem::take(&mut before) + line;
                let commands = line.trim_start_matches("$ ").split(['|', ';', '&', '#']).map(str::trim);
                found.extend(commands.filter(|command| command.starts_with("nitro ")).map(str::to_owned));
            }
        }
        let text: String = page.split("```").step_by(2).collect::<Vec<_>>().join("\n").replace('\n', " ");
        found.extend(text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("nitro ")).map(str::to_owned));
        found
    }

    /// The words of a command line, up to a redirection or the end of the command.
    fn words(line: &str) -> Vec<String> {
        let end = line.find([';', '>', '<', '&']).unwrap_or(line.len());
        let mut words = Vec::new();
        let mut quoted = None;
        let mut word = String::new();
        for character in line[..end].chars().chain([' ']) {
            match (character, quoted) {
                (quote, Some(open)) if quote == open => quoted = None,
                ('"' | '\'', None) => quoted = Some(character),
                (' ', None) => words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty())),
                _ => word.push(character),
            }
        }
        // Places for further options, alternatives, and optional parts.
        words.retain(|word| !["...", "…"].contains(&word.as_str()) && !word.starts_with('['));
        words.iter().map(|word| word.split(['|', '[']).next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn every_command_of_the_documentation_exists() {
        use clap::error::ErrorKind::{InvalidSubcommand, TooManyValues, UnknownArgument};
        let mut checked = 0;
        let mut wrong = Vec::new();
        for (path, page) in pages() {
            for line in command_lines(&page) {
                checked += 1;
                if let Err(error) = command().try_get_matches_from(words(&line))
                    && matches!(error.kind(), InvalidSubcommand | TooManyValues | UnknownArgument)
                {
                    wrong.push(format!("{}: {line}: {error}", path.display()));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(checked > 200, "{checked} commands");
    }
}
