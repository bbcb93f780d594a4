//! Descriptions of all keys of a configuration file: as a table, a manual page, a page of the documentation.

use super::{Kind, Scope, Setting};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use serde::Serialize;

/// A key with its description.
#[derive(Debug, Clone, Serialize)]
pub struct Described {
    /// The section.
    pub section: Scope,
    /// The name of the key.
    pub key: &'static str,
    /// The kind of the value.
    pub kind: &'static str,
    /// The value if the file does not set the key, in words.
    pub default: String,
    /// The minimum; empty: there is none.
    pub min: &'static str,
    /// The maximum; empty: there is none.
    pub max: &'static str,
    /// The accepted values, if they are names.
    pub values: Vec<String>,
    /// When a change takes effect.
    pub change: &'static str,
    /// The meaning of the key.
    pub meaning: String,
}

impl Described {
    /// The accepted values, in words.
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

/// The descriptions of all keys.
#[must_use]
pub fn described() -> Vec<Described> {
    let of_scope = |scope: Scope| {
        let options = scope.options();
        scope.settings().iter().map(move |setting| describe(setting, &options))
    };
    Scope::ALL.into_iter().flat_map(of_scope).collect()
}

fn describe(setting: &Setting, options: &clap::Command) -> Described {
    let is_switch = setting.kind == Kind::Switch;
    let arg = options.get_arguments().find(|arg| arg.get_id() == setting.key && !is_switch);
    let (meaning, default) = setting.meaning_and_default();
    let default = match (is_switch, default) {
        (true, Some("on")) => "true",
        (true, Some("off") | None) => "false",
        (_, default) => default.unwrap_or("none"),
    };
    let values = arg.map(clap::Arg::get_possible_values).unwrap_or_default();
    Described {
        section: setting.scope,
        key: setting.key,
        kind: setting.kind.as_str(),
        default: in_file_terms(default),
        min: setting.bounds.0,
        max: setting.bounds.1,
        values: values.iter().map(|value| value.get_name().to_owned()).collect(),
        change: setting.effect.as_str(),
        meaning: in_file_terms(meaning),
    }
}

/// Turns a text about options into one about keys: `--socket-group` becomes `socket_group`.
fn in_file_terms(text: &str) -> String {
    let mut words = text.split(' ').map(|word| match word.strip_prefix("--") {
        Some(option) => option.replace('-', "_"),
        None => word.to_owned(),
    });
    let first = words.next().unwrap_or_default();
    words.fold(first, |text, word| text + " " + &word)
}

/// All keys in an output format of commands.
///
/// # Errors
/// They cannot be encoded.
pub fn list(all: &[Described], format: Format) -> Result<String, Error> {
    if format == Format::Json {
        return output::json_pretty(&all);
    }
    let mut table = Table::new(["key", "takes", "default", "change", "meaning"]);
    for one in all {
        let key = match one.section {
            Scope::Server => format!("server.{}", one.key),
            section => format!("{section}.NAME.{}", one.key),
        };
        table.row(vec![key, one.takes(), one.default.clone(), one.change.to_owned(), one.meaning.clone()]);
    }
    if format == Format::Csv {
        return Ok(table.csv(true));
    }
    // Meanings are long: each one is below its key.
    let paragraphs = all.iter().zip(&table.rows).map(|(one, row)| {
        format!(
            "{}\n    {}; default {}; a change takes effect: {}\n    {}\n",
            row[0], row[1], row[2], one.change, one.meaning
        )
    });
    Ok(paragraphs.collect())
}

const INTRODUCTION: &str = "A configuration file is in TOML. It has a section [server], a section [cache.NAME] for each cache, and a \
section [volume.NAME] for each volume, which is an NBD export of that name. All keys except cache.NAME.path and volume.NAME.origin are \
optional. Sizes are bytes, or a text such as \"4G\" with K, M, G, T or P (powers of 1024); times are seconds, or a text such as \"30s\", \
\"5m\" or \"1h\", a week at most.";

const CHANGES: &str = "nitro check FILE checks a file. After nitro reload, SIGHUP or systemctl reload nitro, the server applies those changes \
of the file that can take effect at once; it names the others, which take effect when the server is started again. nitro set changes one \
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
#[must_use]
pub fn manual(all: &[Described]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out =
        format!(".TH NITRO.TOML 5 \"\" \"nitro {version}\"\n.SH NAME\nnitro.toml \\- configuration of nitro serve\n");
    out += &format!(".SH DESCRIPTION\n{}\n.PP\n{}\n", roff(INTRODUCTION), roff(CHANGES));
    for scope in Scope::ALL {
        out += &format!(".SH {}\n", heading(scope));
        for one in all.iter().filter(|one| one.section == scope) {
            out += &format!(".TP\n\\fB{}\\fR ({})\n{}.\n", one.key, roff(&one.takes()), roff(&one.meaning));
            out += &format!("Default: {}. A change takes effect: {}.\n", roff(&one.default), one.change);
        }
    }
    out += &format!(".SH EXAMPLE\n.nf\n{}.fi\n", roff(EXAMPLE));
    out += ".SH FILES\n/etc/nitro/nitro.toml\n.SH SEE ALSO\nnitro\\-serve(1), nitro\\-check(1), nitro\\-set(1), nitro\\-reload(1)\n";
    out
}

/// Text with characters escaped that are special in troff(1).
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
#[must_use]
pub fn markdown(all: &[Described]) -> String {
    let mut out = format!(
        "# Configuration\n\n<!-- Generated from the program's help texts by `nitro man`; a test compares it. -->\n\n{INTRODUCTION}\n\n{CHANGES}\n\n```toml\n{EXAMPLE}```\n"
    );
    for scope in Scope::ALL {
        out += &format!(
            "\n## {}\n\n| key | takes | default | a change takes effect | meaning |\n|---|---|---|---|---|\n",
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
