//! `nitro cos`: the deduplicating store.

mod act;
mod export;
mod import;
mod look;
mod store;

pub(crate) use act::CosAction;
pub(crate) use store::{CosStore, device_path, failed, open_device};

use crate::args::{CosCommand, StoreArgs};
use crate::control::client::Client;
use crate::control::protocol::Command;
use crate::error::Error;
use crate::output::print;
use nitro_cos::Settings;
use nitro_device::{CompioClock, Reactor, ReactorThread};
use nitro_engine::port::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Threads at most: each fills a container of its own.
const THREADS_MAX: usize = 6;
/// How soon it is noticed that threads have ended.
const TURN: Duration = Duration::from_millis(2);
/// How often it is told how far they are.
const TURNS_PER_WORD: u64 = 50;

/// Runs one of its commands.
pub(crate) fn run(command: &CosCommand) -> Result<(), Error> {
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    reactor.block_on(run_inner(command))
}

async fn run_inner(command: &CosCommand) -> Result<(), Error> {
    match command {
        CosCommand::Init(args) => store::init(args).await,
        CosCommand::Import(args) => import::run(args).await,
        CosCommand::Export(args) => export::run(args).await,
        CosCommand::Scrub { store, output } => {
            with(store, async |s| look::check(&s, &store.store, true, *output).await).await
        }
        CosCommand::Fsck { store, output } => {
            with(store, async |s| look::check(&s, &store.store, false, *output).await).await
        }
        CosCommand::List { store, output } => act(store, CosAction::List { format: output.format }).await,
        CosCommand::Snapshot { store, name } => act(store, CosAction::Snapshot { name: name.clone() }).await,
        CosCommand::Clone { store, source, name } => {
            act(store, CosAction::Clone { source: source.clone(), name: name.clone() }).await
        }
        CosCommand::Diff { store, one, other, output } => {
            act(store, CosAction::Diff { one: one.clone(), other: other.clone(), format: output.format }).await
        }
        CosCommand::Delete { store, names } => act(store, CosAction::Delete { names: names.clone() }).await,
        CosCommand::Gc { store, alive, output } => {
            act(store, CosAction::Gc { alive: *alive, format: output.format }).await
        }
        CosCommand::Stats { store, output } => act(store, CosAction::Stats { format: output.format }).await,
    }
}

/// Does something with a store: here, or in the server that has it open.
async fn act(args: &StoreArgs, action: CosAction) -> Result<(), Error> {
    if !store::is_in_use(&args.store) {
        return with(args, async |s| {
            let text = action.act(&s, true).await.map_err(|e| e.within(args.store.display()))?;
            print(&text).map(drop)
        })
        .await;
    }
    // The server may have been started elsewhere.
    let path = std::path::absolute(&args.store).map_err(|e| Error::new(args.store.display(), e))?;
    let busy = |e: Error| {
        let (why, _) = e.into_parts();
        Error::new(args.store.display(), format_args!("another program has it open, and no server does it: {why}"))
            .or("end that program, or name the control socket of the server with --control")
    };
    let mut client = Client::connect(args.control.as_deref()).map_err(busy)?;
    let done = client.execute(Command::Cos { store: path, action })?;
    print(&done.message).map(drop)
}

/// Opens a store, does something with it, and closes it, whatever came of that.
async fn with(args: &StoreArgs, work: impl AsyncFnOnce(Arc<CosStore>) -> Result<(), Error>) -> Result<(), Error> {
    let store = store::open(args, Settings::default()).await?;
    let done = work(Arc::clone(&store)).await;
    let closed = store.close().await.map_err(|e| failed(&args.store, &e));
    done.and(closed)
}

/// Shows how far threads are until all have ended; `more` is done now and then.
async fn watch<T>(
    workers: &[ReactorThread<T>],
    tell: impl Fn(),
    mut more: impl AsyncFnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let clock = CompioClock::new();
    for turn in 0_u64.. {
        if workers.iter().all(ReactorThread::is_finished) {
            break;
        }
        if turn.is_multiple_of(TURNS_PER_WORD) {
            tell();
            more().await?;
        }
        clock.sleep(TURN).await;
    }
    Ok(())
}

/// How many threads to use.
fn threads(wanted: Option<u8>) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    wanted.map_or(cores.min(THREADS_MAX), usize::from)
}
