//! The redo file of an origin, by which it goes from one consistent point to the next: where it is, and what is done with one that is
//! found.
//!
//! It is where whoever opens the origin next finds it: beside a file, and for disks and exports in the folder of marks that hosts
//! share. A complete one is applied before the origin is read, whether the volume still reaches points or not.

use crate::origins::{Fence, OpenOrigin, aside};
use nitro_config::VolumeConfig;
use nitro_console::error::Error;
use nitro_device::{FileDevice, FileOptions};
use nitro_files::{self as files, Links};
use nitro_port::{Device, PointLog, PointStamp};
use nitro_redo::{HEAD_BYTES, RedoError, RedoLog};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An open redo file.
pub(super) struct Redo {
    path: PathBuf,
    pub(super) log: RedoLog<FileDevice>,
}

/// Now, in milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The age of a point; zero: there was none, or the clock was set.
pub(super) fn age(stamp: PointStamp) -> Duration {
    match stamp.number {
        0 => Duration::ZERO,
        _ => Duration::from_millis(unix_ms().saturating_sub(stamp.unix_ms)),
    }
}

fn what(path: &Path) -> String {
    format!("redo file {}", path.display())
}

/// Opens the file, or creates it if `may_create`. `None`: there is none.
fn open_file(path: &Path, may_create: bool) -> io::Result<Option<File>> {
    match files::open_own(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_create => {
            let file = files::create_new(path)?;
            file.set_len(HEAD_BYTES)?;
            files::make_durable(path, Links::Followed)?;
            Ok(Some(file))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens the redo file of an origin, or creates it if `may_create`. `None`: there is none, or the origin has no place for one.
///
/// # Errors
/// It cannot be opened or read, or is damaged.
pub(super) async fn open(fence: &Fence, may_create: bool) -> Result<Option<Redo>, Error> {
    let Some(path) = fence.redo_place() else { return Ok(None) };
    let at = path.clone();
    let opened = aside(move || open_file(&at, may_create)).await?;
    let way_out = "let the server's user own it and write to it: the origin may be incomplete without it";
    let Some(file) = opened.map_err(|e| Error::new(what(&path), e).or(way_out))? else { return Ok(None) };
    let device = FileOptions::of_open(&file).open().map_err(|e| Error::new(what(&path), e).or(way_out))?;
    match RedoLog::open(device, unix_ms).await {
        Ok(log) => Ok(Some(Redo { path, log })),
        Err(error) => Err(refused(&path, &error)),
    }
}

fn refused(path: &Path, error: &RedoError) -> Error {
    let way_out = match error {
        RedoError::Device(_) => "check its device and the origin's",
        RedoError::Smaller { .. } => "make the origin available that the file belongs to",
        RedoError::Format(_) | RedoError::Damaged { .. } => {
            "serve the volume with the cache that has its newest data; without it, the origin has a part of the point: restore a backup, \
             or check what is there, after removing the file"
        }
    };
    Error::new(what(path), error).or(way_out)
}

/// The redo file for a volume, before it is served.
///
/// # Errors
/// The volume is to reach points, and its origin has no place for a redo file; or as [`open`].
pub(super) async fn of_volume(
    name: &str,
    config: &VolumeConfig,
    origin: &OpenOrigin,
    read_only: bool,
) -> Result<Option<Redo>, Error> {
    if config.points && origin.fence.redo_place().is_none() {
        let why = format!("the origin {} has no place for a redo file that other hosts find", config.origin.display());
        return Err(Error::new(format_args!("volume.{name}.points"), why).or(
            "points are for files, and with takeover in [server] also for block devices and exports of NBD servers; leave it out",
        ));
    }
    let redo = open(&origin.fence, config.points && !read_only).await?;
    match redo {
        Some(redo) if redo.log.is_sealed() && read_only => Err(Error::new(
            what(&redo.path),
            "it has a point of which the origin may have a part, and the volume is read-only",
        )
        .or("serve it once without read-only")),
        redo => Ok(redo),
    }
}

/// Gives the origin the point that a redo file has, if it is complete, and removes the file if the volume reaches no points. Returns
/// the file otherwise.
///
/// # Errors
/// The origin or the file's device fails.
pub(super) async fn bring(
    name: &str,
    config: &VolumeConfig,
    redo: Option<Redo>,
    origin: &impl Device,
) -> Result<Option<RedoLog<FileDevice>>, Error> {
    let Some(Redo { path, log }) = redo else { return Ok(None) };
    if let Some(stamp) = log.apply(origin).await.map_err(|error| refused(&path, &error))? {
        tracing::info!(
            "volume {name}: its origin was given the point {} of {} ms ago",
            stamp.number,
            age(stamp).as_millis()
        );
    }
    if config.points && !config.read_only {
        return Ok(Some(log));
    }
    drop(log);
    let at = path.clone();
    let removed = aside(move || files::remove_durably(&at, Links::Followed)).await?;
    removed.map_err(|e| Error::new(what(&path), e).or("remove it by hand"))?;
    Ok(None)
}
