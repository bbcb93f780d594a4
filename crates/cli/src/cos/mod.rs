//! `nitro cos`: the deduplicating store.

mod export;
mod import;
mod look;
mod store;

pub(crate) use store::{CosStore, device_path, failed, open_device};

use crate::args::{CosCommand, StoreArgs};
use crate::error::Error;
use nitro_cos::Settings;
use nitro_device::{CompioClock, Reactor, ReactorThread};
use nitro_engine::port::Clock;
use std::sync::Arc;
use std::time::Duration;
use store::now;

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
        CosCommand::List { store, output } => with(store, async |s| look::list(&s, *output)).await,
        CosCommand::Snapshot { store, name } => {
            with(store, async |s| s.snapshot(name, now()).await.map_err(|e| failed(&store.store, &e))).await
        }
        CosCommand::Clone { store, source, name } => {
            with(store, async |s| s.clone_object(source, name, now()).await.map_err(|e| failed(&store.store, &e))).await
        }
        CosCommand::Diff { store, one, other, output } => {
            with(store, async |s| {
                let differences = s.diff(one, other).await.map_err(|e| failed(&store.store, &e))?;
                look::diff(&differences, *output)
            })
            .await
        }
        CosCommand::Delete { store, names } => {
            with(store, async |s| {
                for name in names {
                    s.delete(name).await.map_err(|e| failed(&store.store, &e))?;
                }
                Ok(())
            })
            .await
        }
        CosCommand::Gc { store, alive, output } => {
            with(store, async |s| look::collect(&s, &store.store, *alive, *output).await).await
        }
        CosCommand::Scrub { store, output } => {
            with(store, async |s| look::check(&s, &store.store, true, *output).await).await
        }
        CosCommand::Fsck { store, output } => {
            with(store, async |s| look::check(&s, &store.store, false, *output).await).await
        }
        CosCommand::Stats { store, output } => with(store, async |s| look::stats(&s, *output)).await,
    }
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
