//! `nitro config` and `nitro get`: the settings in force.

use crate::args::{ConfigArgs, GetArgs};
use nitro_config::KeyPath;
use nitro_config::reference::{Described, described};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::control::protocol::{SettingInForce, SettingSource, Settings};
use serde::Serialize;
use serde_json::Value;

/// A setting for people: each has a value.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    key: &'a str,
    value: Value,
    source: SettingSource,
    file: Option<&'a Value>,
    differs: bool,
}

/// The result of `nitro config`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    file: Option<&'a std::path::Path>,
    settings: Vec<Shown<'a>>,
    only_in_file: &'a [String],
    not_in_file: &'a [String],
}

/// Runs `nitro config`.
pub(crate) fn config(args: &ConfigArgs) -> Result<(), Error> {
    let settings = args.server.connect()?.settings()?;
    if args.diff {
        if settings.file.is_none() {
            return Err(Error::new("--diff", "the server was started without a configuration file")
                .or("nitro config shows all settings in force"));
        }
        if let Some(error) = &settings.file_error {
            return Err(Error::told(error).or("correct the file; nitro config shows all settings in force"));
        }
    }
    let described = described();
    let wanted = settings.settings.iter().filter(|setting| !args.diff || setting.differs);
    let report = Report {
        file: settings.file.as_deref(),
        settings: wanted.map(|setting| shown(setting, &described)).collect(),
        only_in_file: &settings.only_in_file,
        not_in_file: &settings.not_in_file,
    };
    let text = match args.server.output.format {
        Format::Json => output::json_pretty(&report)?,
        Format::Csv => table(&report, true).csv(true),
        Format::Table if args.diff => differences(&report),
        Format::Table => table(&report, false).aligned(),
    };
    output::print(&text).map(drop)
}

fn table(report: &Report<'_>, with_file: bool) -> Table {
    let columns: &[&str] = if with_file { &["key", "value", "source", "file"] } else { &["key", "value", "source"] };
    let mut table = Table::new(columns);
    for setting in &report.settings {
        let mut row = vec![setting.key.to_owned(), text(&setting.value), setting.source.as_str().to_owned()];
        if with_file {
            row.push(setting.file.map_or_else(String::new, text));
        }
        table.row(row);
    }
    table
}

fn differences(report: &Report<'_>) -> String {
    let file = report.file.map_or_else(String::new, |file| file.display().to_string());
    let mut lines: Vec<String> = Vec::new();
    for Shown { key, value, source, file, .. } in &report.settings {
        let there = file.map_or_else(|| "not set".to_owned(), text);
        lines.push(format!("{key}: {} in force ({}), {there} in the file", text(value), source.as_str()));
    }
    lines.extend(report.only_in_file.iter().map(|name| format!("{name}: in the file, but not served")));
    lines.extend(report.not_in_file.iter().map(|name| format!("{name}: served, but not in the file")));
    if lines.is_empty() {
        return format!("the settings in force are those of {file}\n");
    }
    lines.iter().map(|line| line.clone() + "\n").collect()
}

/// Runs `nitro get`.
pub(crate) fn get(args: &GetArgs) -> Result<(), Error> {
    let path: KeyPath = args.key.parse()?;
    let key = path.to_string();
    let settings = args.server.connect()?.settings()?;
    let found = settings.settings.iter().find(|setting| setting.key == key);
    let found = found.ok_or_else(|| not_served(&path, &settings))?;
    let found = shown(found, &described());
    let text = match args.server.output.format {
        Format::Json => output::json_pretty(&found)?,
        Format::Csv => {
            Table::of_one(["key", "value", "source"], vec![key, text(&found.value), found.source.as_str().to_owned()])
                .csv(true)
        }
        Format::Table => text(&found.value) + "\n",
    };
    output::print(&text).map(drop)
}

fn not_served(path: &KeyPath, settings: &Settings) -> Error {
    let beginning = format!("{}.", path.scope);
    let names = settings.settings.iter().filter_map(|setting| {
        let rest = setting.key.strip_prefix(&beginning)?;
        rest.rsplit_once('.').map(|(name, _)| name)
    });
    let names: std::collections::BTreeSet<_> = names.collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.into_iter().collect::<Vec<_>>().join(", ") };
    Error::new(path, format_args!("no {} {:?} is served", path.scope, path.name)).or(format_args!("there is: {names}"))
}

fn shown<'a>(setting: &'a SettingInForce, described: &[Described]) -> Shown<'a> {
    let value = setting.value.clone().unwrap_or_else(|| {
        let path = setting.key.parse::<KeyPath>().ok();
        let is_it =
            |one: &&Described| path.as_ref().is_some_and(|p| one.section == p.scope && one.key == p.setting.key);
        described.iter().find(is_it).map_or(Value::Null, |one| Value::from(one.default.clone()))
    });
    Shown { key: &setting.key, value, source: setting.source, file: setting.file.as_ref(), differs: setting.differs }
}

/// A value as it is written in a file, without quotes around a text.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(table) => {
            table.iter().map(|(key, value)| format!("{key} = {}", text(value))).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}
