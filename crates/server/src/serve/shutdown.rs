//! The shutdown: clients are disconnected, origins are brought up to date, and the final state is recorded in the
//! caches.

use super::connections::{DRAIN_MAX, Drain, sleep};
use super::reactors::Reactors;
use super::{Served, notify};
use crate::export::VolumeExport;
use futures_util::future::{Either, join_all, select};
use nitro_console::error::Error;
use nitro_console::logging::EACH;
use nitro_console::progress::eta;
use nitro_console::signals::{Signals, Urgency};
use nitro_console::size::Size;
use nitro_engine::WriteMode;
use nitro_port::latch::Latch;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long the last flush of a volume in write-back may take; and after a second signal.
const KEEP_MAX: Duration = Duration::from_secs(60);
const KEEP_HURRIED_MAX: Duration = Duration::from_secs(10);
/// How often the progress of destage is reported.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// Ends in order. After a second signal, dirty data stay in the caches, flushed; a third signal ends the process at
/// once.
pub(super) async fn leave(served: &Served, reactors: Reactors, signals: &Signals) -> Result<(), Error> {
    let destage = served.destage_on_exit.load(Ordering::SeqCst);
    let hurry = Latch::default();
    let heed = async {
        let name = signals.wait(Urgency::Soon).await;
        tracing::info!(target: EACH, "{name}: dirty data stay in the caches");
        hurry.set();
        std::future::pending::<()>().await;
    };
    match select(pin!(leave_in_order(served, reactors, destage, &hurry)), pin!(heed)).await {
        Either::Left((result, _)) => result,
        Either::Right(((), _)) => Ok(()),
    }
}

async fn leave_in_order(served: &Served, reactors: Reactors, destage: bool, hurry: &Latch) -> Result<(), Error> {
    served.jobs.close("the end of the server");
    // What has come is still done, and need not wait.
    served.all().iter().for_each(|export| export.throttle.set_over(true));
    let patience = async {
        select(pin!(sleep(DRAIN_MAX)), pin!(hurry.wait())).await;
    };
    if served.connections.drain(patience).await == Drain::Cut {
        tracing::warn!(target: EACH,
            "some clients did not disconnect within {} s; their connections were closed",
            DRAIN_MAX.as_secs()
        );
    }
    let patience = async {
        select(pin!(sleep(DRAIN_MAX)), pin!(hurry.wait())).await;
    };
    let have_ended = async { matches!(select(pin!(served.jobs.done()), pin!(patience)).await, Either::Left(_)) };
    if !have_ended.await {
        tracing::warn!(target: EACH, "operations on stores did not end in time; imports of streams are given up");
    }
    let volumes = served.all();
    let brought = match destage && !hurry.is_set() {
        true => join_all(volumes.iter().map(|export| bring_up_to_date(export, hurry))).await,
        false => Vec::new(),
    };
    // What is on its way into the caches may need room, and destage for that.
    let kept = join_all(volumes.iter().map(|export| keep(export, hurry))).await;
    // Before what is under way there is dropped.
    let answering: Vec<bool> = volumes.iter().map(|e| e.volume.origin_owes() < e.silence_max()).collect();
    served.workers.stop()?;
    let left = join_all(volumes.iter().zip(answering).map(|(export, answers)| settle(export, answers))).await;
    reactors.join()?;
    let mut failures = brought.into_iter().chain(kept).chain(left).filter_map(Result::err);
    let first = failures.next();
    // The first one is what the program ends with.
    failures.for_each(|error| tracing::error!(target: EACH, "{error}"));
    first.map_or(Ok(()), Err)
}

/// Destages dirty data and reports the progress, unless a second signal arrives.
///
/// # Errors
/// Dirty data stay in the cache, although this was not requested.
async fn bring_up_to_date(export: &VolumeExport, hurry: &Latch) -> Result<(), Error> {
    let is_clean = export.volume.dirty_extents() == 0 && export.volume.mode() == WriteMode::WriteThrough;
    if export.volume.read_only() || is_clean {
        return Ok(());
    }
    let begun = (Instant::now(), export.dirty_bytes());
    let tell = || {
        let left = export.dirty_bytes();
        let eta = eta(begun.1.saturating_sub(left), left, begun.0.elapsed());
        if left > 0 {
            let news = format!("volume {}: {} of dirty data to write back{eta}", export.name, Size(left));
            tracing::info!(target: EACH, "{news}");
            notify::still_stopping(&news);
        }
    };
    tell();
    let telling = async {
        loop {
            sleep(PROGRESS_EVERY).await;
            tell();
        }
    };
    let destaging = pin!(export.volume.destage_all());
    let (hurried, silent) = (pin!(hurry.wait()), pin!(export.volume.origin_silent(export.silence_max())));
    match select(destaging, select(pin!(telling), select(hurried, silent))).await {
        Either::Left((Ok(()), _)) => {
            tracing::info!(target: EACH, "volume {}: its origin is up to date", export.name);
            Ok(())
        }
        Either::Left((Err(error), _)) => Err(export.left_behind(&error)),
        Either::Right((Either::Right((Either::Right(_), _)), _)) if export.dirty_bytes() > 0 => {
            let why =
                format!("its origin does not answer; {} of dirty data stay in its cache", Size(export.dirty_bytes()));
            Err(Error::new(format_args!("volume {}", export.name), why).or("serve it with that cache again"))
        }
        Either::Right(_) => Ok(()),
    }
}

/// Runs `work`, unless the origin does not answer. `None`: it does not answer. Operations in progress at the origin may
/// then still complete: write-intent regions stay open, and the mark stays.
async fn unless_silent<T>(export: &VolumeExport, work: impl Future<Output = T>) -> Option<T> {
    let silent = pin!(export.volume.origin_silent(export.silence_max()));
    match select(silent, pin!(work)).await {
        Either::Left(_) => None,
        Either::Right((done, _)) => Some(done),
    }
}

/// Makes the dirty data in the cache durable, unless the cache's device does not answer.
async fn keep(export: &VolumeExport, hurry: &Latch) -> Result<(), Error> {
    let volume = &export.volume;
    if volume.read_only() || (volume.dirty_extents() == 0 && volume.mode() == WriteMode::WriteThrough) {
        return Ok(());
    }
    let what = format!("volume {}", export.name);
    let patience = async {
        let hurried = async {
            hurry.wait().await;
            sleep(KEEP_HURRIED_MAX).await;
        };
        select(pin!(sleep(KEEP_MAX)), pin!(hurried)).await;
    };
    match select(pin!(unless_silent(export, volume.flush())), pin!(patience)).await {
        Either::Left((Some(flushed), _)) => {
            flushed.map_err(|e| Error::with_sources(format_args!("{what}: the last flush"), &e).or("see the log"))?;
        }
        Either::Left((None, _)) => {}
        Either::Right(_) => {
            let why = "it did not end in time; writes that were not flushed may be lost";
            return Err(Error::new(format_args!("{what}: the last flush"), why).or("check the cache device"));
        }
    }
    let (left, path) = (Size(export.dirty_bytes()), export.entry.path.as_deref());
    if let Some(path) = path.filter(|_| left.0 > 0) {
        tracing::warn!(target: EACH,
            "{what}: {left} of dirty data stay in the cache {}; serve it with that cache again",
            path.display()
        );
    }
    Ok(())
}

/// Makes an origin durable, and records its final state in its cache.
async fn settle(export: &VolumeExport, answers: bool) -> Result<(), Error> {
    if export.volume.read_only() {
        return Ok(());
    }
    let settled = if answers { unless_silent(export, settle_origin(export)).await } else { None };
    settled.unwrap_or_else(|| {
        tracing::warn!(target: EACH, "volume {}: its origin does not answer, and is not flushed", export.name);
        Ok(())
    })
}

async fn settle_origin(export: &VolumeExport) -> Result<(), Error> {
    let volume = &export.volume;
    let what = format!("volume {}", export.name);
    volume.sync_origin().await.map_err(|e| {
        Error::with_sources(format_args!("{what}: the last flush of its origin"), &e)
            .or("check the origin before using it again")
    })?;
    if let Err(error) = volume.close_regions(true).await {
        tracing::warn!(target: EACH, "{}", Error::with_sources(format_args!("{what}: its cached data will be read again"), &error));
    }
    if !volume.origin().is_owned().await {
        // Mark and dirty data are the next owner's now.
        tracing::warn!(target: EACH, "{what}: its origin is not this server's any more: its mark is left as it is");
        return Ok(());
    }
    let Some(lease) = volume.origin().lease() else { return Ok(()) };
    if let Err(error) = lease.rest().await {
        tracing::warn!(target: EACH, "{what}: cannot record the state of its origin: {error}");
    }
    lease.number_end(export.entry.uuid).await;
    if export.entry.cache.sync().await.is_ok()
        && let Some(guard) = &export.guard
    {
        guard.release();
        export.unmark().await?;
    }
    Ok(())
}
