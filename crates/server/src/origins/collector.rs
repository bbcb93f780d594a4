//! Collections that open stores begin by themselves, each store on a thread of its own.

use crate::cos::CosStore;
use futures_util::future::{Either, select};
use nitro_console::size::Size;
use nitro_cos::{AutoCollector, Collected, Error};
use nitro_device::{CompioClock, ReactorThread, lower_priority, spawn_thread};
use nitro_port::Clock;
use nitro_port::latch::Latch;
use std::path::{Path, PathBuf};
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
    /// Starts the thread. It ends when the store is closed. `None`: the store's settings forbid it, or it cannot be
    /// started, which is logged.
    pub(super) fn start(path: &Path, store: &Arc<CosStore>) -> Option<Self> {
        let collector = AutoCollector::of(store)?;
        let stop = Arc::new(Latch::default());
        let (at, theirs, until) = (path.to_owned(), Arc::downgrade(store), Arc::clone(&stop));
        let thread = spawn_thread("nitro-collect", move || async move {
            lower_priority();
            let collecting = pin!(collect(at, theirs, collector));
            select(collecting, pin!(until.wait())).await;
        });
        match thread {
            Ok(thread) => Some(Self { thread, stop }),
            Err(error) => {
                let place = path.display();
                tracing::warn!("store {place}: only `nitro cos gc` frees space: its collector cannot start: {error}");
                None
            }
        }
    }

    /// Ends the thread. What a collection under way has freed stays free.
    pub(super) fn stop(self) {
        self.stop.set();
        // A panic ends the server, see `serve::panics`.
        let _ = self.thread.join();
    }
}

async fn collect(path: PathBuf, store: Weak<CosStore>, mut collector: AutoCollector) {
    let clock = CompioClock::new();
    let mut told = None;
    loop {
        collector.wait(&clock).await;
        let Some(store) = store.upgrade() else { return };
        let left = async {
            while Arc::strong_count(&store) > 1 {
                clock.sleep(CHECKED_EVERY).await;
            }
        };
        if let Either::Left((Some(result), _)) = select(pin!(collector.check(&store, &clock)), pin!(left)).await {
            tell(&path, result, &mut told);
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
        Err(error) if told.as_ref() != Some(&error.to_string()) => {
            tracing::warn!("store {place}: a collection failed: {error}");
            *told = Some(error.to_string());
        }
        Err(_) => {}
    }
}
