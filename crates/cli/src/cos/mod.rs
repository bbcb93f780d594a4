//! `nitro cos`: the deduplicating store.

mod ssd;
mod store;
mod transfer;

use crate::args::{CosCommand, ShownStoreArgs, StoreArgs};
use crate::volume;
use nitro_console::error::Error;
use nitro_console::output::print;
use nitro_cos::Settings;
use nitro_device::Reactor;
use nitro_server::control::client::Client;
use nitro_server::control::protocol::{Command, Outcome};
use nitro_server::cos::{self as stores, CosAction, CosStore, failed, look};
use std::path::Path;

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
        CosCommand::Scrub(args) => check(args, true).await,
        CosCommand::Fsck(args) => check(args, false).await,
        CosCommand::List(args) => act(&args.store, CosAction::List { format: args.output.format }).await,
        CosCommand::Snapshot { shown, name } => tell(shown, CosAction::Snapshot { name: name.clone() }).await,
        CosCommand::Clone { shown, source, name } => {
            tell(shown, CosAction::Clone { source: source.clone(), name: name.clone() }).await
        }
        CosCommand::Diff { store, one, other, output } => {
            act(store, CosAction::Diff { one: one.clone(), other: other.clone(), format: output.format }).await
        }
        CosCommand::Delete { shown, names } => tell(shown, CosAction::Delete { names: names.clone() }).await,
        CosCommand::Gc { store, alive, output } => {
            act(store, CosAction::Gc { alive: *alive, format: output.format }).await
        }
        CosCommand::Quota { shown, quota } => tell(shown, CosAction::Quota { bytes: quota.0 }).await,
        CosCommand::Ssd { command } => ssd::run(command).await,
        CosCommand::Patterns { store, object, output } => {
            act(store, CosAction::Patterns { object: object.clone(), format: output.format }).await
        }
        CosCommand::Stats(args) => act(&args.store, CosAction::Stats { format: args.output.format }).await,
    }
}

/// Executes an action on a store, and prints the text that it answers with.
async fn act(args: &StoreArgs, action: CosAction) -> Result<(), Error> {
    print(&done(args, action).await?).map(drop)
}

/// Executes an action that changes a store, and prints its outcome.
async fn tell(args: &ShownStoreArgs, action: CosAction) -> Result<(), Error> {
    let message = done(&args.store, action).await?.trim_end().to_owned();
    volume::print(&Outcome { message, ..Outcome::default() }, args.output)
}

/// The answer to an action on a store: in this process, or in the server that has the store open.
async fn done(args: &StoreArgs, action: CosAction) -> Result<String, Error> {
    if let Some(device) = stores::try_open_device(&args.store)? {
        let store = stores::open_on(device, &args.store, Settings::default()).await?;
        let work = async { action.act(&store, &args.store, true).await.map_err(|e| e.within(args.store.display())) };
        return with_opened(&args.store, &store, work).await;
    }
    // The server may have another working directory.
    let path = std::path::absolute(&args.store).map_err(|e| Error::new(args.store.display(), e))?;
    let busy = |e: Error| {
        let (why, _) = e.into_parts();
        Error::new(args.store.display(), format_args!("another program has it open, and no server can do it: {why}"))
            .or("end that program, or name the control socket of the server with --control")
    };
    let mut client = Client::connect(args.control.as_deref()).map_err(busy)?;
    Ok(client.execute(Command::Cos { store: path, action })?.message)
}

/// Opens a store and checks it; with `read`, also what is stored.
async fn check(args: &ShownStoreArgs, read: bool) -> Result<(), Error> {
    let path = &args.store.store;
    let store = stores::open(path, Settings::default()).await?;
    with_opened(path, &store, look::check(&store, path, read, args.output.format)).await
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
