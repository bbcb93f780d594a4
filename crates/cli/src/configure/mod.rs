//! The configuration: checked, taken over, changed, described.

mod reference;

pub(crate) use reference::{manual, markdown};

use crate::args::{CheckArgs, ControlArgs, OutputArgs, SetArgs};
use crate::volume;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::size::Size;
use nitro_server::config::{CacheStore, Config, KeyPath, Setting, edited};
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Command, Done, Outcome};
use nitro_server::files;
use nitro_server::origins::origin_of;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// What a file comes to.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    caches: Vec<String>,
    volumes: Vec<String>,
    /// What a start would find missing, or create.
    notes: Vec<String>,
}

/// Runs `nitro check`.
pub(crate) fn check(args: &CheckArgs) -> Result<(), Error> {
    let config = parse(&args.file, &read(&args.file)?)?;
    config.server.socket_access()?;
    config.server.control_access()?;
    let checked = Checked {
        file: args.file.display().to_string(),
        caches: config.caches.keys().cloned().collect(),
        volumes: config.volumes.keys().cloned().collect(),
        notes: notes(&config)?,
    };
    let text = match args.output.format {
        Format::Json => output::json_pretty(&checked)?,
        Format::Csv => {
            let mut table = Table::new(["file", "caches", "volumes", "notes"]);
            let Checked { file, caches, volumes, notes } = checked;
            table.row(vec![file, caches.join(" "), volumes.join(" "), notes.join("; ")]);
            table.csv(true)
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

fn notes(config: &Config) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    for (name, cache) in &config.caches {
        if let CacheStore::Path(path) = &cache.path
            && !path.exists()
        {
            notes.push(match cache.size {
                Some(size) => format!("cache.{name}: {} does not exist, and is created with {size}", path.display()),
                None => format!("cache.{name}: {} does not exist; give its size to have it created", path.display()),
            });
        }
        if let Some(classes) = &cache.classes {
            nitro_server::classes::ClassTable::open(classes)
                .map_err(|e| e.within(format_args!("cache.{name}.classes")))?;
        }
    }
    for (name, volume) in &config.volumes {
        let origin = origin_of(&volume.origin)?;
        if let Some(path) = origin.host_path().filter(|path| !path.exists()) {
            notes.push(format!("volume.{name}: {} does not exist", path.display()));
        }
    }
    let server = &config.server;
    let files =
        [("tls_cert", &server.tls_cert), ("tls_key", &server.tls_key), ("tls_client_ca", &server.tls_client_ca)];
    for (key, path) in files {
        if let Some(path) = path.as_ref().filter(|path| !path.exists()) {
            notes.push(format!("server.{key}: {} does not exist", path.display()));
        }
    }
    Ok(notes)
}

fn read(file: &Path) -> Result<String, Error> {
    fs::read_to_string(file).map_err(|e| Error::new(file.display(), e).or("check the path"))
}

fn parse(file: &Path, text: &str) -> Result<Config, Error> {
    Config::parse(text).map_err(|e| e.in_file(file))
}

/// Runs `nitro reload`.
pub(crate) fn reload(control: &ControlArgs, output: OutputArgs) -> Result<(), Error> {
    let done = Client::connect(control.path())?.execute(Command::Reload)?;
    volume::print(&done, output)?;
    let failed: Vec<_> =
        done.changes.iter().filter(|change| change.done == Done::Failed).map(|c| c.what.clone()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => {
            Err(Error::new("reload", format_args!("not in force: {}", failed.join(", ")))
                .or("mend it, and reload again"))
        }
    }
}

/// Runs `nitro set`.
pub(crate) fn set(args: &SetArgs) -> Result<(), Error> {
    let (Some(key), Some(value)) = (&args.key, &args.value) else {
        return output::print(&reference::list(args.output)?).map(drop);
    };
    let path: KeyPath = key.parse()?;
    if let Some(file) = &args.file {
        write(file, &path, value)?;
        let message = format!("{path} = {value} in {}", file.display());
        return volume::print(&Outcome { message, ..Outcome::default() }, args.output);
    }
    let mut client = Client::connect(args.control.path())?;
    let mut done = client.execute(Command::Set { key: key.clone(), value: value.clone() })?;
    let waits = done.changes.iter().any(|change| change.done == Done::Restart);
    if args.persist {
        let file = client.status()?.server.config_file.ok_or_else(|| {
            Error::new("--persist", "the server was started without a configuration file").or("give --file FILE")
        })?;
        write(&file, &path, value)?;
        let when = if waits { "from the next start on" } else { "from now on" };
        done.message = format!("{path} = {value} {when}; kept in {}", file.display());
    } else if waits {
        let why = done.changes.first().map_or_else(String::new, |change| change.message.clone());
        return Err(Error::new(path, why).or("give --persist to have it in force from the next start on"));
    }
    volume::print(&done, args.output)
}

/// Changes one key of a file, which can be used before and after.
fn write(file: &Path, path: &KeyPath, value: &str) -> Result<(), Error> {
    let text = edited(&read(file)?, path, value)?;
    parse(file, &text)?;
    let fail = |e| Error::new(file.display(), e).or("run as a user who may change it");
    files::rewrite_durably(file, text.as_bytes()).map_err(fail)
}

/// Says that a new size of a cache is not what the configuration file says, or has it say so.
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
    let setting = Setting::find(nitro_server::config::Scope::Cache, "size");
    let setting = setting.ok_or_else(|| Error::new("size", "it is no setting"))?;
    let path = KeyPath { scope: nitro_server::config::Scope::Cache, name: cache.to_owned(), setting };
    if persist {
        write(&file, &path, &size.0.to_string())?;
        done.message += &format!("; kept in {}", file.display());
    } else if let Some(said) = said_size(&file, cache).filter(|said| *said != size) {
        done.message += &format!(
            "; {} says size = {said}, and a start would be refused: change it, or give --persist",
            file.display()
        );
    }
    volume::print(&done, output)
}

/// The size of a cache in a file, if there is one.
fn said_size(file: &Path, cache: &str) -> Option<Size> {
    Config::parse(&fs::read_to_string(file).ok()?).ok()?.caches.get(cache)?.size
}
