//! All keys of a configuration file, described: as a table, a manual page, a page of the documentation. What a key means and its default
//! come from the option of `nitro serve` of the same name.

use crate::args::{OutputArgs, command};
use clap::builder::StyledStr;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::config::{SETTINGS, Scope, Setting};
use serde::Serialize;

/// A key, described.
#[derive(Debug, Serialize)]
struct Described {
    section: Scope,
    key: &'static str,
    kind: &'static str,
    default: String,
    min: &'static str,
    max: &'static str,
    /// The values that are taken, where they are names.
    values: Vec<String>,
    /// When a change has effect.
    change: &'static str,
    meaning: String,
}

fn described() -> Vec<Described> {
    let whole = command();
    let serve = whole.find_subcommand("serve");
    let describe = |setting: &Setting| {
        let option = setting.option();
        let arg = option.and_then(|name| serve?.get_arguments().find(|arg| arg.get_long() == Some(&name)));
        let help = match arg {
            Some(arg) => arg.get_help().map(StyledStr::to_string).unwrap_or_default(),
            None => setting.meaning.to_owned(),
        };
        let (meaning, default) = match help.split_once(" [default: ") {
            Some((meaning, default)) => (meaning.to_owned(), default.trim_end_matches(']').to_owned()),
            None if setting.kind == nitro_server::config::Kind::Switch => (help, "false".to_owned()),
            None => (help, "none".to_owned()),
        };
        let is_switch = setting.kind == nitro_server::config::Kind::Switch;
        let values = arg.filter(|_| !is_switch).map(clap::Arg::get_possible_values).unwrap_or_default();
        let spoken = |default: String| match (is_switch, default.as_str()) {
            (true, "on") => "true".to_owned(),
            (true, "off") => "false".to_owned(),
            _ => default,
        };
        Described {
            section: setting.scope,
            key: setting.key,
            kind: setting.kind.as_str(),
            default: in_file_terms(&spoken(default)),
            min: setting.bounds.0,
            max: setting.bounds.1,
            values: values.iter().map(|value| value.get_name().to_owned()).collect(),
            change: setting.effect.as_str(),
            meaning: in_file_terms(&meaning),
        }
    };
    SETTINGS.iter().map(describe).collect()
}

/// A text about options, about keys: `--socket-group` is `socket_group`.
fn in_file_terms(text: &str) -> String {
    let mut words = text.split(' ').map(|word| match word.strip_prefix("--") {
        Some(option) => option.replace('-', "_"),
        None => word.to_owned(),
    });
    let first = words.next().unwrap_or_default();
    words.fold(first, |text, word| text + " " + &word)
}

impl Described {
    /// The values that are taken, in words.
    fn takes(&self) -> String {
        let bounds = match (self.min, self.max) {
            ("", "") => String::new(),
            (min, "") => format!(", {min} or more"),
            (min, max) => format!(", {min} to {max}"),
        };
        let values = if self.values.is_empty() { String::new() } else { format!(": {}", self.values.join(", ")) };
        format!("{}{values}{bounds}", self.kind)
    }
}

/// All keys, as a command prints them.
pub(super) fn list(output: OutputArgs) -> Result<String, Error> {
    let all = described();
    if output.format == Format::Json {
        return output::json_pretty(&all);
    }
    let mut table = Table::new(["key", "takes", "default", "change", "meaning"]);
    for one in &all {
        let key = match one.section {
            Scope::Server => format!("server.{}", one.key),
            section => format!("{section}.NAME.{}", one.key),
        };
        table.row(vec![key, one.takes(), one.default.clone(), one.change.to_owned(), one.meaning.clone()]);
    }
    if output.format == Format::Csv {
        return Ok(table.csv(true));
    }
    // Meanings are long: they stand below their keys.
    let paragraphs = all.iter().zip(&table.rows).map(|(one, row)| {
        format!(
            "{}\n    {}; default {}; a change has effect: {}\n    {}\n",
            row[0], row[1], row[2], one.change, one.meaning
        )
    });
    Ok(paragraphs.collect())
}

const INTRODUCTION: &str = "A configuration file is in TOML. It has a section [server], a section [cache.NAME] for each cache, and a \
section [volume.NAME] for each volume, which is an NBD export of that name. All keys but cache.NAME.path and volume.NAME.origin may be \
left out. Sizes are bytes, or a text such as \"4G\" with K, M, G, T or P (powers of 1024); times are seconds, or a text such as \"30s\", \
\"5m\" or \"1h\", a week at most.";

const CHANGES: &str = "nitro check FILE checks a file. nitro reload, SIGHUP and systemctl reload nitro have the server take over what has \
changed in it, as far as it can change at once; the rest is named, and has effect when the server is started again. nitro set changes one \
key of a running server, with --persist also in the file.";

const EXAMPLE: &str = "\
[server]
listen = [\"unix:/run/nitro/nbd.sock\", \"tcp:127.0.0.1:10809\"]

[cache.fast]
path = \"/fast/cache.img\"
size = \"64G\"
dirty_max = 40

[volume.vm]
origin = \"/slow/vm.img\"
mode = \"write-back\"

[volume.db]
origin = \"/dev/sdb\"
";

fn heading(scope: Scope) -> &'static str {
    match scope {
        Scope::Server => "[server]",
        Scope::Cache => "[cache.NAME]",
        Scope::Volume => "[volume.NAME]",
    }
}

/// The manual page `nitro.toml(5)`.
pub(crate) fn manual() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out =
        format!(".TH NITRO.TOML 5 \"\" \"nitro {version}\"\n.SH NAME\nnitro.toml \\- configuration of nitro serve\n");
    out += &format!(".SH DESCRIPTION\n{}\n.PP\n{}\n", roff(INTRODUCTION), roff(CHANGES));
    let all = described();
    for scope in Scope::ALL {
        out += &format!(".SH {}\n", heading(scope));
        for one in all.iter().filter(|one| one.section == scope) {
            out += &format!(".TP\n\\fB{}\\fR ({})\n{}.\n", one.key, roff(&one.takes()), roff(&one.meaning));
            out += &format!("Default: {}. A change has effect: {}.\n", roff(&one.default), one.change);
        }
    }
    out += &format!(".SH EXAMPLE\n.nf\n{}.fi\n", roff(EXAMPLE));
    out += ".SH FILES\n/etc/nitro/nitro.toml\n.SH SEE ALSO\nnitro\\-serve(1), nitro\\-check(1), nitro\\-set(1), nitro\\-reload(1)\n";
    out
}

/// Text without what troff(1) would take as its own.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line.to_owned(),
    });
    let joined = lines.collect::<Vec<_>>().join("\n");
    if text.ends_with('\n') { joined + "\n" } else { joined }
}

/// `docs/CONFIGURATION.md`.
pub(crate) fn markdown() -> String {
    let mut out = format!(
        "# Configuration\n\n<!-- Made of the program's own description by `nitro man`; a test compares. -->\n\n{INTRODUCTION}\n\n{CHANGES}\n\n```toml\n{EXAMPLE}```\n"
    );
    let all = described();
    for scope in Scope::ALL {
        out += &format!(
            "\n## {}\n\n| key | takes | default | a change has effect | meaning |\n|---|---|---|---|---|\n",
            heading(scope)
        );
        for one in all.iter().filter(|one| one.section == scope) {
            let cell = |text: &str| text.replace('|', "\\|");
            let (takes, default, meaning) = (cell(&one.takes()), cell(&one.default), cell(&one.meaning));
            out += &format!("| `{}` | {takes} | {default} | {} | {meaning} |\n", one.key, one.change);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_meaning_and_a_default() {
        for one in described() {
            assert!(!one.meaning.is_empty() && !one.default.is_empty(), "{} {}", one.section, one.key);
            assert!(!one.meaning.contains("--") && !one.default.contains("--"), "{}: {}", one.key, one.meaning);
        }
    }
}
