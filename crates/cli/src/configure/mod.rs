//! The configuration: commands that check, reload, change and describe it.

mod described;
mod effective;

pub(crate) use effective::{config, get};

use crate::args::{CheckArgs, OutputArgs, ServerArgs, SetArgs};
use crate::volume;
use nitro_config::{KeyPath, Scope, Setting, file, reference};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_server::control::protocol::{Command, Done, Outcome};
use nitro_server::serve;
use serde::Serialize;

/// The manual page `nitro.toml(5)`.
pub(crate) fn manual() -> String {
    reference::manual(&described::described())
}

/// `docs/CONFIGURATION.md`.
pub(crate) fn markdown() -> String {
    reference::markdown(&described::described())
}

/// The result of `nitro check`.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    caches: Vec<String>,
    volumes: Vec<String>,
    /// What a start would not find, or would create.
    notes: Vec<String>,
}

/// Runs `nitro check`.
pub(crate) fn check(args: &CheckArgs) -> Result<(), Error> {
    let config = file::load(&args.file)?;
    config.server.socket_access()?;
    config.server.control_access()?;
    serve::check_limits(&config)?;
    let checked = Checked {
        file: args.file.display().to_string(),
        caches: config.caches.keys().cloned().collect(),
        volumes: config.volumes.keys().cloned().collect(),
        notes: nitro_server::notes::notes(&config)?,
    };
    let text = match args.output.format {
        Format::Json => output::json_pretty(&checked)?,
        Format::Csv => {
            let Checked { file, caches, volumes, notes } = checked;
            let row = vec![file, caches.join(" "), volumes.join(" "), notes.join("; ")];
            Table::of_one(["file", "caches", "volumes", "notes"], row).csv(true)
        }
        Format::Table => {
            let Checked { file, caches, volumes, notes } = checked;
            let mut out =
                format!("{file} can be used\n  caches   {}\n  volumes  {}\n", caches.join(", "), volumes.join(", "));
            notes.iter().for_each(|note| out += &format!("  note     {note}\n"));
            out
        }
    };
    output::print(&text).map(drop)
}

/// Runs `nitro reload`.
pub(crate) fn reload(server: &ServerArgs) -> Result<(), Error> {
    let done = server.connect()?.execute(Command::Reload)?;
    volume::print(&done, server.output)?;
    let failed: Vec<_> =
        done.changes.iter().filter(|change| change.done == Done::Failed).map(|c| c.what.clone()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Error::new("reload", format_args!("not in force: {}", failed.join(", ")))
            .or("correct the file, and reload again")),
    }
}

/// Runs `nitro set`.
pub(crate) fn set(args: &SetArgs) -> Result<(), Error> {
    let (Some(key), Some(value)) = (&args.key, &args.value) else {
        return output::print(&reference::list(&described::described(), args.server.output.format)?).map(drop);
    };
    let path: KeyPath = key.parse()?;
    if let Some(file) = &args.file {
        file::change(file, &path, value)?;
        let message = format!("{path} = {value} in {}", file.display());
        return volume::print(&Outcome { message, ..Outcome::default() }, args.server.output);
    }
    let mut client = args.server.connect()?;
    let mut done = client.execute(Command::Set { key: key.clone(), value: value.clone() })?;
    let waits = done.changes.iter().any(|change| change.done == Done::Restart);
    if args.persist {
        let file = client.status()?.server.config_file.ok_or_else(|| {
            Error::new("--persist", "the server was started without a configuration file").or("give --file FILE")
        })?;
        file::change(&file, &path, value)?;
        let when = if waits { "from the next start on" } else { "from now on" };
        done.message = format!("{path} = {value} {when}; kept in {}", file.display());
    } else if waits {
        let why = done.changes.first().map_or_else(String::new, |change| change.message.clone());
        return Err(Error::new(path, why).or("give --persist to have it in force from the next start on"));
    }
    volume::print(&done, args.server.output)
}

/// Reports that the configuration file has another size of a cache, or writes the new size to the file.
pub(crate) fn keep_size(
    mut done: Outcome,
    cache: &str,
    size: Size,
    persist: bool,
    output: OutputArgs,
) -> Result<(), Error> {
    let Some(file) = done.config_file.take() else {
        return match persist {
            true => {
                volume::print(&done, output)?;
                Err(Error::new("--persist", "the server was started without a configuration file")
                    .or("leave --cache-size out when you start it again, or give the new one"))
            }
            false => volume::print(&done, output),
        };
    };
    let setting = Setting::find(Scope::Cache, "size");
    let setting = setting.ok_or_else(|| Error::new("size", "it is not a setting"))?;
    let path = KeyPath { scope: Scope::Cache, name: cache.to_owned(), setting };
    if persist {
        file::change(&file, &path, &size.exact())?;
        done.message += &format!("; kept in {}", file.display());
    } else if let Some(said) = file::size_of_cache(&file, cache).filter(|said| *said != size) {
        done.message += &format!(
            "; {} says size = {said}, and a start would be refused: change it, or give --persist",
            file.display()
        );
    }
    volume::print(&done, output)
}
