//! The commands in the documentation.

use nitro_testkit::pages;
use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown pages of the project, apart from those that are generated or are history.
fn described() -> impl Iterator<Item = (PathBuf, String)> {
    let is_read = |path: &PathBuf| {
        !["CLI.md", "LAB.md", "REPRODUCTION.md"].map(Path::new).contains(&path.as_path())
            && !path.starts_with("decisions")
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = root.join("README.md");
    let read = fs::read_to_string(&readme).unwrap();
    pages(&root.join("docs")).into_iter().filter(move |(path, _)| is_read(path)).chain([(readme, read)])
}

/// The command lines of `program` in a page: lines of code blocks, and code in the text.
fn command_lines(program: &str, page: &str) -> Vec<String> {
    let begin = format!("{program} ");
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
            found.extend(commands.filter(|command| command.starts_with(&begin)).map(str::to_owned));
        }
    }
    let text: String = page.split("```").step_by(2).collect::<Vec<_>>().join("\n").replace('\n', " ");
    found.extend(text.split('`').skip(1).step_by(2).filter(|code| code.starts_with(&begin)).map(str::to_owned));
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
    for (program, command, least) in [("nitro", nitro_cli::command(), 150), ("nitro-lab", nitro_lab::command(), 40)] {
        let (mut checked, mut wrong) = (0, Vec::new());
        for (path, page) in described() {
            for line in command_lines(program, &page) {
                checked += 1;
                if let Err(error) = command.clone().try_get_matches_from(words(&line))
                    && matches!(error.kind(), InvalidSubcommand | TooManyValues | UnknownArgument)
                {
                    wrong.push(format!("{}: {line}: {error}", path.display()));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(checked > least, "{program}: {checked} commands");
    }
}
