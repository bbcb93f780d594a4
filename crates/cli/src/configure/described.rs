//! The meaning and the default of each key of a configuration file, from the help of the `nitro serve` option with the
//! same name.

use crate::args::command;
use clap::builder::StyledStr;
use nitro_config::reference::Described;
use nitro_config::{Kind, SETTINGS, Setting};

/// The descriptions of all keys.
pub(super) fn described() -> Vec<Described> {
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
            None if setting.kind == Kind::Switch => (help, "false".to_owned()),
            None => (help, "none".to_owned()),
        };
        let is_switch = setting.kind == Kind::Switch;
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

/// Turns a text about options into one about keys: `--socket-group` becomes `socket_group`.
fn in_file_terms(text: &str) -> String {
    let mut words = text.split(' ').map(|word| match word.strip_prefix("--") {
        Some(option) => option.replace('-', "_"),
        None => word.to_owned(),
    });
    let first = words.next().unwrap_or_default();
    words.fold(first, |text, word| text + " " + &word)
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
