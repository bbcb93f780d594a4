//! The options of both programs, and their help texts.

use clap::{Arg, Command};
use std::collections::BTreeMap;

/// The options of one of a program's commands: long name, and names of its values.
fn options(program: &Command, command: &str) -> BTreeMap<String, Vec<String>> {
    let command = program.find_subcommand(command).unwrap();
    let values = |option: &Arg| option.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect();
    command.get_opts().filter_map(|option| Some((option.get_long()?.to_owned(), values(option)))).collect()
}

#[test]
fn options_that_serve_has_too_take_the_same_values() {
    let (serve, sim) = (options(&nitro_cli::command(), "serve"), options(&nitro_lab::command(), "sim"));
    let mut shared: Vec<_> = serve.keys().filter(|name| sim.contains_key(*name)).map(String::as_str).collect();
    shared.iter().for_each(|name| assert_eq!(serve[*name], sim[*name], "{name}"));
    // A name that is added here must mean the same in both.
    shared.retain(|name| *name != "threads");
    let expected = [
        "admission",
        "cache-size",
        "classes",
        "compression",
        "dedup",
        "destage",
        "dirty-age",
        "dirty-max",
        "dirty-start",
        "eviction",
        "extent-size",
        "fingerprint-index-ratio",
        "index",
        "mode",
        "partial-writes",
        "patterns",
        "ram",
        "sequential-threshold",
        "staging",
        "weu-size",
        "write-policy",
    ];
    assert_eq!(shared, expected);
}

#[test]
fn options_of_size_that_others_have_too_take_the_same_values() {
    let size = options(&nitro_lab::command(), "size");
    for (others, least) in [(options(&nitro_cli::command(), "serve"), 20), (options(&nitro_lab::command(), "sim"), 25)]
    {
        let shared: Vec<_> = size.keys().filter(|name| others.contains_key(*name) && *name != "threads").collect();
        assert!(shared.len() >= least, "{shared:?}");
        shared.iter().for_each(|name| assert_eq!(size[*name], others[*name], "{name}"));
    }
}

fn each(command: &mut Command, path: &str, check: &mut dyn FnMut(&str, &mut Command)) {
    check(path, command);
    for sub in command.get_subcommands_mut() {
        let path = format!("{path} {}", sub.get_name());
        each(sub, &path, check);
    }
}

#[test]
fn no_help_has_a_link_of_the_code_or_a_line_that_is_wrapped_twice() {
    for whole in [nitro_cli::command(), nitro_lab::command()] {
        let mut whole = whole.term_width(72).disable_help_subcommand(true);
        whole.build();
        let name = whole.get_name().to_owned();
        each(&mut whole, &name, &mut check);
    }
}

fn check(path: &str, command: &mut Command) {
    let help = command.clone().term_width(72).render_long_help().to_string();
    for leaked in ["[`", "`]", "crate::", "::Volume", "nitro_"] {
        assert!(!help.contains(leaked), "{path}: {leaked}: {help}");
    }
    // In a closing text that is wrapped only once, every line of a paragraph but the last is full.
    let lines: Vec<&str> = help.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| !line.starts_with(' ') && !line.is_empty())) {
        let next = pair[1].split(' ').next().unwrap_or_default();
        let is_heading = pair[0].ends_with(':') || pair[0].starts_with("Usage");
        assert!(is_heading || pair[0].len() + next.len() >= 72, "{path}: {pair:?}");
    }
}
