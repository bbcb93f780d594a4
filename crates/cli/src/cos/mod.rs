//! `nitro cos`: the deduplicating store.

mod pass;
mod ssd;
mod store;
mod terminal;
mod transfer;

use crate::args::{CosCommand, CosForgetArgs, CosTuningArgs, ShownStoreArgs, StoreArgs};
use crate::volume;
use nitro_console::error::Error;
use nitro_console::output::print;
use nitro_console::size::Size;
use nitro_cos::Settings;
use nitro_device::Reactor;
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Command, Outcome};
use nitro_server::cos::transfer::{Job, Pace, Report};
use nitro_server::cos::{self as stores, CosAction, CosStore, Forget, Keep, failed, now, timed_name};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terminal::Terminal;

/// Runs `nitro cos ...`.
pub(crate) fn run(command: &CosCommand) -> Result<(), Error> {
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    reactor.block_on(run_inner(command))
}

async fn run_inner(command: &CosCommand) -> Result<(), Error> {
    match command {
        CosCommand::Init(args) => store::init(args).await,
        CosCommand::Import(args) => transfer::import(args).await,
        CosCommand::Export(args) => transfer::export(args).await,
        CosCommand::Send(args) => pass::send(args).await,
        CosCommand::Receive(args) => pass::receive(args).await,
        CosCommand::Scrub(args) => operate(&args.store, Job::Check { reading: true, format: args.output.format }).await,
        CosCommand::Fsck(args) => operate(&args.store, Job::Check { reading: false, format: args.output.format }).await,
        CosCommand::List { shown, unique: true } => {
            operate(&shown.store, Job::Unique { format: shown.output.format }).await
        }
        CosCommand::List { shown, unique: false } => {
            act(&shown.store, CosAction::List { format: shown.output.format }).await
        }
        CosCommand::Snapshot { shown, names, timed } => snapshot(shown, names, *timed).await,
        CosCommand::Forget(args) => forget(args).await,
        CosCommand::Rename { shown, old, new } => {
            tell(shown, CosAction::Rename { old: old.clone(), new: new.clone() }).await
        }
        CosCommand::Clone { shown, source, name } => {
            tell(shown, CosAction::Clone { source: source.clone(), name: name.clone() }).await
        }
        CosCommand::Diff { store, one, other, output } => {
            act(store, CosAction::Diff { one: one.clone(), other: other.clone(), format: output.format }).await
        }
        CosCommand::Delete { shown, names } => tell(shown, CosAction::Delete { names: names.clone() }).await,
        CosCommand::Gc { store, alive, output } => {
            operate(store, Job::Collect { alive: *alive, format: output.format }).await
        }
        CosCommand::Grow { shown, size, max_size } => {
            let bytes = |size: &Option<Size>| size.map(|size| size.0);
            let format = shown.output.format;
            let job = Job::Grow { size_bytes: bytes(size), max_bytes: bytes(max_size), format };
            operate(&shown.store, job).await
        }
        CosCommand::Quota { shown, quota } => tell(shown, CosAction::Quota { bytes: quota.0 }).await,
        CosCommand::Ssd { command } => ssd::run(command).await,
        CosCommand::Patterns { store, object, output } => {
            act(store, CosAction::Patterns { object: object.clone(), format: output.format }).await
        }
        CosCommand::Stats(args) => act(&args.store, CosAction::Stats { format: args.output.format }).await,
    }
}

/// Makes snapshots, all with the same time in their names if they are timed.
async fn snapshot(shown: &ShownStoreArgs, names: &[String], timed: bool) -> Result<(), Error> {
    let now = now();
    let named = |name: &String| if timed { timed_name(name, now) } else { name.clone() };
    let actions: Vec<_> = names.iter().map(|name| CosAction::Snapshot { name: named(name) }).collect();
    done(&shown.store, &actions).await?;
    volume::print(&Outcome::default(), shown.output)
}

async fn forget(args: &CosForgetArgs) -> Result<(), Error> {
    let keep = Keep {
        last: args.keep_last,
        hourly: args.keep_hourly,
        daily: args.keep_daily,
        weekly: args.keep_weekly,
        monthly: args.keep_monthly,
        yearly: args.keep_yearly,
    };
    let (objects, timed, dry_run, format) = (args.objects.clone(), args.timed, args.dry_run, args.output.format);
    act(&args.store, CosAction::Forget(Forget { objects, keep, timed, dry_run, format })).await
}

/// Executes an action on a store, and prints the text that it answers with.
async fn act(args: &StoreArgs, action: CosAction) -> Result<(), Error> {
    print(&done(args, &[action]).await?).map(drop)
}

/// Executes an action that changes a store, and prints its outcome.
async fn tell(args: &ShownStoreArgs, action: CosAction) -> Result<(), Error> {
    let message = done(&args.store, &[action]).await?.trim_end().to_owned();
    volume::print(&Outcome { message, ..Outcome::default() }, args.output)
}

/// Where a store is open.
enum Opened {
    /// In this process.
    Here(Arc<CosStore>),
    /// In a server, by the path by which it knows the store.
    There(Client, PathBuf),
}

impl Opened {
    /// Opens a store, or connects to the server that has it open.
    async fn find(args: &StoreArgs, settings: Settings) -> Result<Self, Error> {
        // The server may have another working directory.
        let path = std::path::absolute(&args.store).map_err(|e| Error::new(args.store.display(), e))?;
        // The server is asked first: it takes a second to be sure that a store is in use for longer than a moment.
        if let Some(client) = Self::server_of(args) {
            return Ok(Self::There(client, path));
        }
        if let Some(device) = stores::try_open_device(&args.store)? {
            return stores::open_on(device, &args.store, settings).await.map(Self::Here);
        }
        let busy = |e: Error| {
            let (why, _) = e.into_parts();
            let why = format_args!("another program has it open, and no server can do it: {why}").to_string();
            Error::new(args.store.display(), why)
                .or("end that program, or name the control socket of the server with --control")
        };
        Client::connect(args.control.as_deref()).map(|client| Self::There(client, path)).map_err(busy)
    }

    /// The server that has the store open, if one answers and has it.
    fn server_of(args: &StoreArgs) -> Option<Client> {
        let device = stores::device_path(&args.store).canonicalize().ok()?;
        let mut client = Client::connect(args.control.as_deref()).ok()?;
        let is_open = client.status().ok()?.stores.iter().any(|store| Path::new(&store.path) == device);
        is_open.then_some(client)
    }
}

/// The answers to actions on a store, until one fails: in this process, which opens the store once for all of them, or in the
/// server that has the store open.
async fn done(args: &StoreArgs, actions: &[CosAction]) -> Result<String, Error> {
    match Opened::find(args, Settings::default()).await? {
        Opened::Here(store) => {
            let work = async {
                let mut answers = String::new();
                for action in actions {
                    let answer = action.act(&store, &args.store, &[]).await;
                    answers += &answer.map_err(|e| e.within(args.store.display()))?;
                }
                Ok(answers)
            };
            with_opened(&args.store, &store, work).await
        }
        Opened::There(mut client, store) => {
            let answers = actions.iter().map(|action| {
                let command = Command::Cos { store: store.clone(), action: action.clone() };
                client.execute(command).map(|outcome| outcome.message)
            });
            answers.collect()
        }
    }
}

/// The result of an operation on a store that takes long: in this process, or in the server that has the store open. `open`
/// opens the file that the operation needs; it is called when nothing else prevents the operation.
async fn operated(
    args: &StoreArgs,
    (job, tuning): (Job, CosTuningArgs),
    open: impl FnOnce(&Terminal) -> Result<File, Error>,
) -> Result<Report, Error> {
    let path = &args.store;
    let settings = Settings { compare_duplicates: tuning.compare, ..Settings::default() };
    match Opened::find(args, settings).await? {
        Opened::Here(store) => {
            let watch = Terminal::new()?;
            let work = async {
                job.check(&store, path).await?;
                let file = if job.needs_file() { Some(open(&watch)?) } else { None };
                // Boxed, as they are large.
                let running = Box::pin(job.run((&store, path), file, Pace::of_command(job.threads()), &watch));
                match job.stores() {
                    true => Box::pin(stores::while_growing(&store, running)).await,
                    false => running.await,
                }
            };
            with_opened(path, &store, work).await
        }
        Opened::There(_, _) if tuning.compare => {
            let why = "a server has it open, whose configuration says whether duplicates are compared";
            Err(Error::new("--compare", why).or("set store_options = [\"compare\"] in the store's volumes"))
        }
        Opened::There(client, store) => {
            let watch = Terminal::new()?;
            client.operate(store, job, || open(&watch), &watch)
        }
    }
}

/// The error of an operation whose result is of another kind than it has.
fn strange_answer(what: impl std::fmt::Display) -> Error {
    Error::new(what, "an answer of another kind")
}

/// Runs an operation that needs no file, and prints the text of its result.
async fn operate(args: &StoreArgs, job: Job) -> Result<(), Error> {
    let no_file = |_: &Terminal| Err(Error::new("file", "none is needed"));
    let Report::Text { text, damage } = operated(args, (job, CosTuningArgs::default()), no_file).await? else {
        return Err(strange_answer(args.store.display()));
    };
    print(&text)?;
    match damage {
        Some(damage) => {
            Err(Error::new(args.store.display(), damage).or("restore the objects named above from another copy"))
        }
        None => Ok(()),
    }
}

/// Runs `work` on the store at `path`, and closes the store, also if `work` fails.
async fn with_opened<T>(
    path: &Path,
    store: &CosStore,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let done = work.await;
    let closed = store.close().await.map_err(|e| failed(path, &e));
    done.and_then(|done| closed.map(|()| done))
}
