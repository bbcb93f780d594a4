//! Collections that open stores begin by themselves, each store on a thread of its own.

use crate::cos::CosStore;
use futures_util::future::{Either, select};
use nitro_console::error as console;
use nitro_console::size::Size;
use nitro_cos::{AutoCollector, Collected, Error};
use nitro_device::{CompioClock, ReactorThread, lower_priority, spawn_thread};
use nitro_port::Clock;
use nitro_port::latch::Latch;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a collection checks whether its store is still used.
const CHECKED_EVERY: Duration = Duration::from_millis(50);

/// The thread that collects a store.
pub(super) struct Collector {
    thread: ReactorThread<()>,
    stop: Arc<Latch>,
}

impl Collector {
    /// Starts the thread. It ends when the store is closed. `None`: the store's settings forbid it.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(super) fn start(path: &Path, store: &Arc<CosStore>) -> Result<Option<Self>, console::Error> {
        let Some(collector) = AutoCollector::of(store) else { return Ok(None) };
        let stop = Arc::new(Latch::default());
        let (at, theirs, until) = (path.to_owned(), Arc::downgrade(store), Arc::clone(&stop));
        let thread = spawn_thread("nitro-collect", move || async move {
            lower_priority();
            collect(&at, &theirs, collector, &until).await;
        });
        let thread = thread.map_err(|e| {
            let what = format_args!("store {}: its collector", path.display());
            console::Error::with_sources(what, &e).or("raise the limit of threads (ulimit -u, TasksMax=)")
        })?;
        Ok(Some(Self { thread, stop }))
    }

    /// Ends the thread, and soon a collection under way. What it has freed stays free.
    pub(super) fn stop(self) {
        self.stop.set();
        // A panic ends the server, see `serve::panics`.
        let _ = self.thread.join();
    }
}

async fn collect(path: &Path, store: &Weak<CosStore>, mut collector: AutoCollector, stop: &Latch) {
    let clock = CompioClock::new();
    let mut told = None;
    while !stop.is_set() {
        select(pin!(collector.wait(&clock)), pin!(stop.wait())).await;
        let Some(store) = store.upgrade() else { return };
        let mut checking = pin!(collector.check(&store, &clock));
        let result = loop {
            match select(checking.as_mut(), pin!(clock.sleep(CHECKED_EVERY))).await {
                Either::Left((result, _)) => break result,
                // No volume is left.
                Either::Right(_) if stop.is_set() || Arc::strong_count(&store) == 1 => store.stop_collection(),
                Either::Right(_) => {}
            }
        };
        if let Some(result) = result {
            tell(path, result, &mut told);
        }
    }
}

/// Logs what a collection did, and each new error once.
fn tell(path: &Path, result: Result<Collected, Error>, told: &mut Option<String>) {
    let place = path.display();
    match result {
        Ok(collected) => {
            *told = None;
            tracing::info!("store {place}: a collection freed {}", Size(collected.freed_bytes));
        }
        Err(Error::Busy(_)) => {}
        Err(error) if told.as_ref() != Some(&error.to_string()) => {
            tracing::warn!("store {place}: a collection failed: {error}");
            *told = Some(error.to_string());
        }
        Err(_) => {}
    }
}
