//! `nitro volume` and `nitro flush`: commands to the running server.

use crate::args::{AddArgs, FlushArgs, OutputArgs, ServerArgs, VolumeCommand};
use nitro_config::VolumeConfig;
use nitro_console::error::Error;
use nitro_console::output::{self, Format, Table};
use nitro_console::progress::Progress;
use nitro_server::control::protocol::{AddVolume, Changed, Command, Done, KnownVolume, Outcome, Status};
use nitro_server::origins::origin_of;
use serde::Serialize;
use std::thread;
use std::time::Duration;

/// Interval at which progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// Runs `nitro volume ...`.
pub(crate) fn run(command: &VolumeCommand) -> Result<(), Error> {
    match command {
        VolumeCommand::Add(args) => add(args),
        VolumeCommand::Set { volume, mode, write_policy, pause_fill, share, server } => {
            let command = Command::VolumeSet {
                volume: volume.clone(),
                mode: mode.map(Into::into),
                dirty_share_min: share.dirty_share_min,
                dirty_share_max: share.dirty_share_max,
                write_policy: *write_policy,
                pause_fill: *pause_fill,
            };
            wait(server, volume, command)
        }
        VolumeCommand::Flush(args) => flush(args),
        VolumeCommand::Remove { volume, force_discard_dirty, server } => {
            let force_discard_dirty = *force_discard_dirty;
            let command = Command::VolumeRemove { volume: volume.clone(), force_discard_dirty };
            wait(server, volume, command)
        }
        VolumeCommand::Resize { volume, server } => execute(server, Command::VolumeResize { volume: volume.clone() }),
        VolumeCommand::List(server) => list(&server.connect()?.status()?, server.output.format),
    }
}

/// Runs `nitro flush`.
pub(crate) fn flush(args: &FlushArgs) -> Result<(), Error> {
    if let Some(volume) = &args.volume {
        return print(&flush_one(args, volume)?, args.server.output);
    }
    let status = args.server.connect()?.status()?;
    let names: Vec<_> = status.volumes.iter().map(|volume| volume.name.as_str()).collect();
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        match flush_one(args, name) {
            Ok(outcome) => done.push(outcome),
            Err(error) => failed.push(error.to_string()),
        }
    }
    print_all(&done, args.server.output)?;
    if failed.is_empty() { Ok(()) } else { Err(Error::new("flush --all", failed.join("; "))) }
}

fn flush_one(args: &FlushArgs, volume: &str) -> Result<Outcome, Error> {
    let command = Command::Flush { volume: volume.to_owned(), wait: args.wait };
    if args.wait { wait_for(&args.server, volume, command) } else { args.server.connect()?.execute(command) }
}

/// Prints the outcomes of a command for several volumes.
fn print_all(all: &[Outcome], output: OutputArgs) -> Result<(), Error> {
    let text = match output.format {
        Format::Json => output::json_pretty(&all)?,
        Format::Csv => {
            let mut table = Table::new(OUTCOME_COLUMNS);
            all.iter().for_each(|done| table.row(row(done)));
            table.csv(true)
        }
        Format::Table if all.is_empty() => "no volume is served\n".to_owned(),
        Format::Table => all.iter().map(|done| format!("{}\n", done.message)).collect(),
    };
    output::print(&text).map(drop)
}

const OUTCOME_COLUMNS: [&str; 4] = ["message", "dirty_bytes", "uris", "device"];

fn row(done: &Outcome) -> Vec<String> {
    let device = done.device.clone().unwrap_or_default();
    vec![done.message.clone(), done.dirty_bytes.to_string(), done.uris.join(" "), device]
}

fn add(args: &AddArgs) -> Result<(), Error> {
    // The server may have another working directory.
    let origin = origin_of(&args.origin)?.absolute().map_err(|e| Error::new(args.origin.display(), e))?;
    let wanted = AddVolume {
        volume: args.volume.clone(),
        config: VolumeConfig {
            origin,
            cache: args.cache.clone(),
            mode: args.mode,
            description: args.description.clone(),
            ..args.config.clone()
        },
        force_discard_dirty: args.force_discard_dirty,
        accept_origin: args.accept_origin,
    };
    execute(&args.server, Command::VolumeAdd(Box::new(wanted)))
}

/// Executes a command that writes dirty data of a volume back, shows its progress, and prints its outcome.
pub(crate) fn wait(server: &ServerArgs, volume: &str, command: Command) -> Result<(), Error> {
    print(&wait_for(server, volume, command)?, server.output)
}

/// Executes a command that writes dirty data of a volume back, and shows its progress.
fn wait_for(server: &ServerArgs, volume: &str, command: Command) -> Result<Outcome, Error> {
    let (mut worker, mut watcher) = (server.connect()?, server.connect()?);
    let total_bytes = dirty_bytes(&watcher.status()?, volume);
    let progress = Progress::new(total_bytes, "written back");
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || worker.execute(command));
        let working = thread.map_err(|e| Error::new("threads", e).or("raise the limit of threads"))?;
        while !working.is_finished() {
            // If the status is not available, only the progress is missing.
            if let Some(status) = (total_bytes > 0).then(|| watcher.status().ok()).flatten() {
                progress.show(total_bytes.saturating_sub(dirty_bytes(&status, volume)));
            }
            thread::sleep(PROGRESS_EVERY);
        }
        progress.end();
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn dirty_bytes(status: &Status, volume: &str) -> u64 {
    status.volumes.iter().find(|v| v.name == volume).map_or(0, |v| v.dirty_bytes)
}

/// Executes a command, and prints its outcome.
pub(crate) fn execute(server: &ServerArgs, command: Command) -> Result<(), Error> {
    print(&server.connect()?.execute(command)?, server.output)
}

/// Prints the outcome of a command.
pub(crate) fn print(done: &Outcome, output: OutputArgs) -> Result<(), Error> {
    let text = match output.format {
        Format::Table => {
            let uris = done.uris.iter().map(|uri| format!("{uri}\n"));
            let changes = done.changes.iter().map(|Changed { what, done, message }| match done {
                Done::Applied => format!("  {what}: in force\n"),
                Done::Restart => format!("  {what}: from the next start on: {message}\n"),
                Done::Failed => format!("  {what}: not in force: {message}\n"),
            });
            format!("{}\n{}{}", done.message, uris.collect::<String>(), changes.collect::<String>())
        }
        Format::Json => output::json_pretty(done)?,
        Format::Csv => Table::of_one(OUTCOME_COLUMNS, row(done)).csv(true),
    };
    output::print(&text).map(|_| ())
}

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    name: &'a str,
    served: bool,
    mode: &'a str,
    cache: &'a str,
    size_bytes: u64,
    dirty_bytes: u64,
    clients: u64,
    /// Empty for a volume that is not served.
    origin: &'a str,
    /// Whether it uses its cache: it is served and not detached.
    attached: bool,
}

fn list(status: &Status, format: Format) -> Result<(), Error> {
    let served = status.volumes.iter().map(|v| Listed {
        name: &v.name,
        served: true,
        mode: &v.mode,
        cache: &v.cache,
        size_bytes: v.size_bytes,
        dirty_bytes: v.dirty_bytes,
        clients: v.clients,
        origin: &v.origin,
        attached: v.attached,
    });
    let known = status.caches.iter().flat_map(|cache| {
        cache.volumes.iter().filter(|known| !known.served).map(|known: &KnownVolume| Listed {
            name: &known.name,
            served: false,
            mode: &known.mode,
            cache: &cache.name,
            size_bytes: known.size_bytes,
            dirty_bytes: known.dirty_bytes,
            clients: 0,
            origin: "",
            attached: false,
        })
    });
    let all: Vec<_> = served.chain(known).collect();
    let mut table = Table::new(["volume", "served", "mode", "cache", "size", "dirty", "clients", "origin", "attached"]);
    for volume in &all {
        table.row(vec![
            volume.name.to_owned(),
            if volume.served { "yes" } else { "no" }.to_owned(),
            volume.mode.to_owned(),
            volume.cache.to_owned(),
            format.size(volume.size_bytes),
            format.size(volume.dirty_bytes),
            volume.clients.to_string(),
            volume.origin.to_owned(),
            if volume.attached { "yes" } else { "no" }.to_owned(),
        ]);
    }
    output::print_list(format, &all, &table)
}
