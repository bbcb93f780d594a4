//! Growth of stores by command.

use super::transfer::{Report, Unit, Watch, pause};
use super::{CosStore, failed};
use futures_util::future::{Either, select};
use nitro_console::error::Error;
use nitro_console::output::{Format, json_line};
use nitro_console::size::Size;
use nitro_cos::AutoCollector;
use nitro_device::{CompioClock, Medium};
use nitro_port::Device;
use serde::Serialize;
use std::path::Path;
use std::pin::pin;

#[derive(Serialize)]
struct Grown {
    size_bytes: u64,
    /// `None`: it does not grow by itself.
    max_bytes: Option<u64>,
}

/// Makes a store `size_bytes` large, and lets it grow by itself up to `max_bytes`; each if it is given. Without both, a store takes
/// all of its block device.
///
/// # Errors
/// The device or the store cannot be that large, the store fails, or the operation was ended. The store then has its former size.
pub(super) async fn grow(
    (store, path): (&CosStore, &Path),
    (size_bytes, max_bytes): (Option<u64>, Option<u64>),
    format: Format,
    watch: &dyn Watch,
) -> Result<Report, Error> {
    let size_bytes = match (size_bytes, max_bytes) {
        (None, None) => Some(device_bytes(store, path).await?),
        (size, _) => size,
    };
    if let Some(max) = max_bytes {
        let least = store.size_bytes().max(size_bytes.unwrap_or(0));
        if max < least {
            let why = format_args!("the store would have {} already", Size(least)).to_string();
            return Err(Error::new("--max-size", why).or("say no less"));
        }
        store.set_grows_to(Some(max)).await.map_err(|e| failed(path, &e))?;
    }
    if let Some(size) = size_bytes {
        let progress = |what, done, total| watch.show(what, Unit::Items, done, total);
        let mut growing = pin!(store.grow(size, &progress));
        let mut cause = None;
        let grown = loop {
            match select(growing.as_mut(), pin!(pause())).await {
                Either::Left((grown, _)) => break grown,
                Either::Right(_) => {
                    cause = cause.or_else(|| watch.end());
                    // At its next turn.
                    cause.iter().for_each(|_| store.stop_collection());
                }
            }
        };
        grown.map_err(|error| match cause {
            Some(cause) => Error::new(path.display(), format_args!("{cause} interrupted the growth"))
                .or("the store has its former size"),
            None => failed(path, &error),
        })?;
    }
    let grown = Grown { size_bytes: store.size_bytes(), max_bytes: store.grows_to() };
    let text = match format {
        Format::Json => json_line(&grown)?,
        _ => format!("{}: {}\n", path.display(), sizes(grown.size_bytes, grown.max_bytes)),
    };
    Ok(Report::Text { text, damage: None })
}

/// The size of a store, and its maximum.
#[must_use]
pub fn sizes(size_bytes: u64, max_bytes: Option<u64>) -> String {
    match max_bytes {
        Some(max) => format!("{}, grows by itself up to {}", Size(size_bytes), Size(max.max(size_bytes))),
        None => format!("{}, does not grow by itself", Size(size_bytes)),
    }
}

/// The present size of the store's block device.
async fn device_bytes(store: &CosStore, path: &Path) -> Result<u64, Error> {
    let device = store.device();
    if device.inner().file().is_none_or(|file| file.medium() != Medium::Block) {
        return Err(Error::new(path.display(), "a store in a folder has no size of its own")
            .or(format_args!("say how large it is to be: nitro cos grow {} SIZE", path.display())));
    }
    // The device finds out how large it is.
    drop(device.extend(u64::MAX).await);
    Ok(device.geometry().size_bytes)
}

/// Carries out `work`, and lets the store grow meanwhile if it needs more room.
pub async fn while_growing<T>(store: &CosStore, work: impl Future<Output = T>) -> T {
    let clock = CompioClock::new();
    let mut grower = AutoCollector::growing(store);
    let growing = pin!(async {
        loop {
            grower.wait(&clock).await;
            grower.check(store, &clock).await;
        }
    });
    match select(pin!(work), growing).await {
        Either::Left((done, _)) => done,
        Either::Right((never, _)) => match never {},
    }
}
