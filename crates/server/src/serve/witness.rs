//! A note outside the cache device, for the case that the device fails: the clean data in this cache must not be
//! trusted any more, since origins were changed without a record in the cache. Volumes in write-through continue once
//! the note is durable.

use super::caches::CacheEntry;
use super::connections::sleep;
use crate::export::ServedCache;
use crate::origins::{Uuid, state_folder, state_folders};
use nitro_files::{self as files, Links};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often to check whether a cache has been read completely.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum bytes of the note on lost devices.
const LOST_BYTES_MAX: u64 = 64;

fn name(uuid: Uuid) -> String {
    format!("cache-{uuid}.distrusted")
}

fn place(uuid: Uuid) -> PathBuf {
    state_folder().join(name(uuid))
}

/// Whether the cache has failed and its volumes continued without it.
pub(super) fn is_noted(uuid: Uuid) -> bool {
    state_folders().into_iter().any(|folder| fs::exists(folder.join(name(uuid))).unwrap_or(true))
}

/// Makes a failure of the cache's journal write the note, and the loss of one of several devices another one.
pub(super) fn install(cache: &ServedCache, uuid: Uuid) {
    cache.set_witness(move |reason| match note(&place(uuid), reason) {
        Ok(()) => true,
        Err(error) => {
            let place = place(uuid);
            tracing::error!(
                "{}: {error}: volumes refuse writes, since the cache's failure cannot be recorded for the next start",
                place.display()
            );
            false
        }
    });
    cache.set_loss_witness(move |lost| {
        let place = lost_place(uuid);
        if let Err(error) = note(&place, &lost.to_string()) {
            tracing::warn!(
                "{}: {error}: the loss of a device is recorded on the other devices of the cache only; do not use the lost \
                 device again without them",
                place.display()
            );
        }
    });
}

fn lost_name(uuid: Uuid) -> String {
    format!("cache-{uuid}.lost")
}

fn lost_place(uuid: Uuid) -> PathBuf {
    state_folder().join(lost_name(uuid))
}

/// The devices of a cache that were lost, according to the note on this machine: one bit each.
pub(super) fn lost(uuid: Uuid) -> u32 {
    // Without a note, or with one that cannot be read, the devices' own record counts.
    let places = state_folders().into_iter().map(|folder| folder.join(lost_name(uuid)));
    let texts = places.filter_map(|place| files::read_text(&place, Links::Followed, LOST_BYTES_MAX).ok().flatten());
    texts.filter_map(|text| text.trim().parse::<u32>().ok()).fold(0, |all, lost| all | lost)
}

/// Writes a note durably.
fn note(place: &Path, text: &str) -> io::Result<()> {
    files::own_folder(&state_folder())?;
    files::write_durably(place, Links::Followed, format!("{text}\n").as_bytes())
}

/// Removes the note once the cache itself has a durable record of the data that must not be trusted.
pub(super) async fn take_back(entry: &CacheEntry) {
    if !is_noted(entry.uuid) {
        return;
    }
    while entry.cache.is_restoring() {
        sleep(LOOK_EVERY).await;
    }
    // Where it fails the cache is given up anew, and stays noted.
    if entry.cache.sync().await.is_err() {
        return;
    }
    let places: Vec<_> = state_folders().into_iter().map(|folder| folder.join(name(entry.uuid))).collect();
    let removed = places.iter().try_for_each(|place| {
        files::remove_durably(place, Links::Followed).map_err(|error| format!("{}: {error}", place.display()))
    });
    match removed {
        Ok(()) => tracing::info!("cache {}: its clean contents were dropped; it is trusted again", entry.name),
        Err(error) => tracing::warn!("{error}: the next start will drop clean contents again"),
    }
    // It may have failed since: that note must not be lost.
    if let Some(reason) = entry.cache.status().failed {
        let _ = note(&place(entry.uuid), &reason);
    }
}
