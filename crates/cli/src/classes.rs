//! `nitro class`: the policies of classes of I/O in a running server.

use crate::args::ClassCommand;
use crate::volume::execute;
use nitro_config::classes::{Change, ClassTable};
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_server::control::protocol::{ClassOfContents, Command, Status};
use serde::Serialize;
use std::fs;

/// Runs `nitro class ...`.
pub(crate) fn run(command: &ClassCommand) -> Result<(), Error> {
    match command {
        ClassCommand::List { cache, server } => {
            list(&server.connect()?.status()?, cache.as_deref(), server.output.format)
        }
        ClassCommand::Set { class, change, cache, server } => {
            if *change == Change::default() {
                return Err(Error::new(format_args!("class {class}"), "no change is given")
                    .or("give one, such as --priority high; see nitro class set --help"));
            }
            let (cache, class, change) = (cache.clone(), class.clone(), change.clone());
            execute(server, Command::ClassSet { cache, class, change })
        }
        ClassCommand::Load { file, cache, server } => {
            let table = fs::read_to_string(file).map_err(|error| Error::new(file.display(), error))?;
            ClassTable::parse(&table).map_err(|error| error.in_file(file))?;
            execute(server, Command::ClassLoad { cache: cache.clone(), table })
        }
    }
}

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    cache: &'a str,
    #[serde(flatten)]
    class: &'a ClassOfContents,
}

fn list(status: &Status, cache: Option<&str>, format: Format) -> Result<(), Error> {
    if let Some(name) = cache.filter(|name| status.caches.iter().all(|cache| cache.name != *name)) {
        return Err(Error::new(format_args!("cache {name}"), "there is none of that name"));
    }
    let caches = status.caches.iter().filter(|known| cache.is_none_or(|name| name == known.name));
    let all: Vec<_> =
        caches.flat_map(|cache| cache.classes.iter().map(|class| Listed { cache: &cache.name, class })).collect();
    let mut table =
        Table::new(["cache", "id", "class", "priority", "allocation", "reads", "writes", "min", "max", "cached"]);
    let word = |taken: bool| if taken { "taken" } else { "not taken" }.to_owned();
    for Listed { cache, class } in &all {
        table.row(vec![
            (*cache).to_owned(),
            class.id.to_string(),
            class.name.clone(),
            class.priority.clone(),
            class.allocation.clone(),
            word(class.read_allocate),
            word(class.write_allocate),
            class.min_percent.to_string(),
            class.max_percent.to_string(),
            format.size(class.cached_bytes),
        ]);
    }
    if all.is_empty() && format == Format::Table {
        return output::print("All classes have the same policy, and no data are classified.\n").map(|_| ());
    }
    output::print_list(format, &all, &table)
}
