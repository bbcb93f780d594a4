//! The options of the command line, and their help texts.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use nitro_cli::command;

/// Sample values; each option takes at least one of them.
const VALUES: [&str; 21] = [
    "1",
    "http://127.0.0.1:4318",
    "1M",
    "7200",
    "on",
    "10s",
    "0.5dwpd",
    "unix:/run/x",
    "0660",
    "write-back",
    "ram",
    "heat",
    "all",
    "allocate",
    "oldest",
    "evicted",
    "worth",
    "blake3",
    "lz4",
    "required",
    "exact",
];

/// Parses an option together with `--config`.
fn beside_config(command: &Command, option: &Arg) -> Result<(), ErrorKind> {
    let name = format!("--{}", option.get_long().unwrap());
    let begun = ["serve", "--config", "nitro.toml", &name].map(str::to_owned).to_vec();
    let needs_no_value = option.get_num_args().is_some_and(|values| values.min_values() == 0);
    if needs_no_value || matches!(option.get_action(), ArgAction::SetTrue) {
        return command.clone().try_get_matches_from(begun).map(drop).map_err(|error| error.kind());
    }
    let mut kinds = VALUES.iter().map(|value| {
        let words = begun.iter().cloned().chain([(*value).to_owned()]);
        command.clone().try_get_matches_from(words).map(drop).map_err(|error| error.kind())
    });
    let is_no_value =
        |kind: &Result<(), ErrorKind>| matches!(kind, Err(ErrorKind::InvalidValue | ErrorKind::ValueValidation));
    kinds.find(|kind| !is_no_value(kind)).unwrap_or_else(|| panic!("{name} takes none of the values"))
}

#[test]
fn options_that_a_configuration_settles_are_refused_beside_it() {
    let whole = command();
    let command = whole.find_subcommand("serve").unwrap();
    let (mut refused, mut taken) = (0, 0);
    let settled = |option: &Arg| {
        let settles = |group: &str| {
            let group = command.get_groups().find(|held| held.get_id() == group).unwrap();
            group.get_args().any(|id| id == option.get_id())
        };
        let names_them = ["origin", "name", "path"].contains(&option.get_id().as_str());
        names_them || settles("VolumeConfig") || settles("CacheConfig")
    };
    for option in command.get_opts().filter(|option| option.get_id() != "config") {
        let (name, became) = (option.get_id(), beside_config(command, option));
        if settled(option) {
            assert_eq!(became, Err(ErrorKind::ArgumentConflict), "{name}");
            refused += 1;
        } else {
            assert_eq!(became, Ok(()), "{name}");
            taken += 1;
        }
    }
    assert!(refused > 35 && taken > 12, "{refused} refused, {taken} taken");
}

#[test]
fn every_command_is_listed_once_in_the_help() {
    let mut whole = command();
    let help = whole.render_long_help().to_string();
    for sub in whole.get_subcommands() {
        let listed = help
            .lines()
            .filter(|line| line.strip_prefix("  ").and_then(|l| l.split(' ').next()) == Some(sub.get_name()));
        assert_eq!(listed.count(), 1, "{}: add it to GROUPS: {help}", sub.get_name());
    }
}

#[test]
fn the_options_that_most_servers_need_come_first() {
    let whole = command();
    let mut serve = whole.find_subcommand("serve").cloned().unwrap();
    let help = serve.render_long_help().to_string();
    let headings: Vec<_> = help.lines().filter(|line| line.ends_with(':') && !line.starts_with(' ')).collect();
    assert_eq!(headings[..2], ["Options:", "First of all:"], "{help}");
    let first = help.split("First of all:").nth(1).unwrap().split("\nVolume:").next().unwrap();
    let count = first.lines().filter(|line| line.trim_start().starts_with("--")).count();
    assert_eq!(count, 10, "{first}");
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
