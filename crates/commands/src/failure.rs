//! How a command that fails says so: a line on standard error for people, or with `-o json` an object.

use nitro_console::error::Error;
use nitro_console::{logging, output};
use serde::Serialize;
use std::ffi::OsString;

/// The exit code of wrong usage.
pub const WRONG_USAGE: u8 = 2;

/// A failure for programs: the last line of standard error.
#[derive(Debug, Serialize)]
struct Failure<'a> {
    /// The subject and the cause.
    error: &'a str,
    /// What the user can do; may be empty.
    remedy: &'a str,
    /// The exit code.
    code: u8,
}

/// Prints why a command of `program` failed, which exits with `code`.
pub fn print(program: &str, error: &Error, code: u8) {
    if is_json(std::env::args_os()) {
        let (text, remedy) = error.clone().into_parts();
        print_json(&text, &remedy, code);
    } else {
        logging::print(format_args!("{program}: {error}"));
    }
}

/// Prints what is wrong with the arguments, or the help that was asked for, and ends the process.
pub fn wrong_usage(program: &str, error: &clap::Error) -> ! {
    if !error.use_stderr() || !is_json(std::env::args_os()) {
        error.exit();
    }
    print_json(&problem(error), &format!("{program} --help, and {program} COMMAND --help"), WRONG_USAGE);
    std::process::exit(WRONG_USAGE.into());
}

/// What is wrong with arguments, in one line.
#[must_use]
pub fn problem(error: &clap::Error) -> String {
    let text = error.to_string();
    let (problem, _) = text.split_once("\n\nUsage").or_else(|| text.split_once("\n\nFor more")).unwrap_or((&text, ""));
    let words: Vec<_> = problem.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}

fn print_json(error: &str, remedy: &str, code: u8) {
    // Texts and a number can always be serialized.
    if let Ok(line) = output::json_line(&Failure { error, remedy, code }) {
        logging::print(format_args!("{}", line.trim_end()));
    }
}

/// Whether the arguments ask for JSON. They may be wrong otherwise.
fn is_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<_> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let given = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let given = &arguments[..given];
    let apart = given.windows(2).any(|pair| (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json");
    apart || given.iter().any(|one| matches!(one.as_str(), "-ojson" | "-o=json" | "--output=json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_recognized_in_each_spelling() {
        let is = |text: &str| is_json(text.split(' ').map(OsString::from));
        for text in
            ["nitro status -o json", "nitro --log info status --output json x", "nitro -ojson", "nitro a --output=json"]
        {
            assert!(is(text), "{text}");
        }
        for text in ["nitro status", "nitro -o csv json", "nitro status -- -o json", "nitro json -o"] {
            assert!(!is(text), "{text}");
        }
    }
}
