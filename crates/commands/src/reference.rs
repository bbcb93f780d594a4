//! Manual pages, the reference in Markdown, and shell completions, generated from the description of a command line.

use clap::{Args, Command, Subcommand};
use clap_complete::Shell;
use nitro_console::error::Error;
use nitro_console::output;
use std::fs;
use std::path::{Path, PathBuf};

/// Width of the help texts of the reference, in columns.
const WIDTH: usize = 120;

/// The commands that every program has.
#[derive(Debug, Subcommand)]
pub enum ReferenceCommand {
    /// Write the manual pages into a directory
    Man(ManArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
}

/// Where the manual pages go.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Target directory; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// For which shell.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl ReferenceCommand {
    /// Runs one of these commands of the program that `whole` describes. `man` writes a page in roff for the program and for each
    /// of its commands, the reference in Markdown as `markdown`, and `further` files, given by names and contents.
    ///
    /// # Errors
    /// A file or standard output cannot be written.
    pub fn run(&self, whole: Command, head: &str, markdown: &str, further: &[(&str, String)]) -> Result<(), Error> {
        match self {
            Self::Man(args) => man(&args.folder, whole, head, markdown, further),
            Self::Completions(args) => completions(args.shell, whole),
        }
    }
}

fn man(folder: &Path, whole: Command, head: &str, markdown: &str, further: &[(&str, String)]) -> Result<(), Error> {
    let fail = |e| Error::new(folder.display(), e).or("name a directory that can be written to");
    fs::create_dir_all(folder).map_err(fail)?;
    clap_mangen::generate_to(whole.clone().disable_help_subcommand(true), folder).map_err(fail)?;
    fs::write(folder.join(markdown), reference(whole, head)).map_err(fail)?;
    further.iter().try_for_each(|(name, content)| fs::write(folder.join(name), content)).map_err(fail)
}

/// All commands with their help, in Markdown, below `head`.
fn reference(whole: Command, head: &str) -> String {
    let mut out = head.to_owned();
    let name = whole.get_name().to_owned();
    let mut whole = plain(whole.disable_help_subcommand(true).term_width(WIDTH));
    let global = whole.clone().render_long_help().to_string();
    whole = whole.mut_args(|option| if option.is_global_set() { option.hide(true) } else { option });
    whole.build();
    out += &section(&name, &global);
    append_commands(&mut out, &name, &mut whole);
    out
}

/// The same commands without the options that every command has.
fn plain(command: Command) -> Command {
    command.disable_help_flag(true).disable_version_flag(true).mut_subcommands(plain)
}

/// Appends a section for each command that has no commands of its own, below `path`.
fn append_commands(out: &mut String, path: &str, command: &mut Command) {
    for sub in command.get_subcommands_mut() {
        let path = format!("{path} {}", sub.get_name());
        if !sub.has_subcommands() {
            *out += &section(&path, &sub.render_long_help().to_string());
        }
        append_commands(out, &path, sub);
    }
}

fn section(path: &str, help: &str) -> String {
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    format!("\n## {path}\n\n```text\n{}\n```\n", lines.join("\n"))
}

fn completions(shell: Shell, mut whole: Command) -> Result<(), Error> {
    let (name, mut text) = (whole.get_name().to_owned(), Vec::new());
    clap_complete::generate(shell, &mut whole, name, &mut text);
    output::print(&String::from_utf8_lossy(&text)).map(|_| ())
}
