//! The contents of a write log that its cache does not have.

use super::view::View;
use crate::error::Error;
use crate::format::journal::LogPosition;
use crate::write_log::{newest, read_label, read_row};
use bytes::Bytes;
use nitro_port::Device;
use nitro_units::ExtentKey;
use std::collections::BTreeMap;

/// The contents of a volume in the write log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedVolume {
    /// Its number in the cache.
    pub object: u16,
    /// Its name, if the journal has it.
    pub name: Option<String>,
    /// Its size in bytes, if the journal has it.
    pub origin_bytes: Option<u64>,
    /// Its newest contents, by their first byte within the volume, in order: newer than what the cache has.
    pub extents: Vec<(u64, Bytes)>,
}

/// The contents of a write log that the cache does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logged {
    /// The volumes, by number.
    pub volumes: Vec<LoggedVolume>,
    /// Some durable batches could not be read, or the log is an older copy: these contents come from before them.
    pub damaged: bool,
}

/// Reads the contents of the write log on `log` that the cache on `flash` does not have. Empty if the journal says that
/// no log is in use. Takes RAM for these contents.
///
/// # Errors
/// [`Error::Flash`] or [`Error::Format`]: no superblock is valid; [`Error::LogMissing`]: the device is not that of the
/// log; [`Error::Log`] or [`Error::LogFormat`]: the log cannot be read.
pub async fn logged<F: Device, L: Device>(flash: &F, log: &L) -> Result<Logged, Error> {
    let view = View::open(flash, true).await?;
    let Some(position) = view.state.log else { return Ok(Logged::default()) };
    let LogContents { newest, damaged, start, .. } = log_contents(log, position).await?;
    let is_outdated = start.is_some_and(|start| start < view.slots.superblock.start);
    let extent_bytes = u64::from(view.slots.superblock.extent_bytes);
    let mut volumes: BTreeMap<u16, LoggedVolume> = BTreeMap::new();
    for (key, mut bytes) in newest {
        let object = key.object();
        let known = view.state.volumes.get(&object);
        let volume = volumes.entry(object.0).or_insert_with(|| LoggedVolume {
            object: object.0,
            name: known.map(|volume| volume.name.clone()),
            origin_bytes: known.map(|volume| volume.origin_bytes),
            extents: Vec::new(),
        });
        let offset = key.index().0.saturating_mul(extent_bytes);
        let end = volume.origin_bytes.unwrap_or(u64::MAX);
        bytes.truncate(end.saturating_sub(offset).min(bytes.len() as u64) as usize);
        if !bytes.is_empty() {
            volume.extents.push((offset, bytes));
        }
    }
    Ok(Logged { volumes: volumes.into_values().collect(), damaged: damaged || is_outdated })
}

/// The contents of a write log from a position on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogContents {
    /// The newest contents of extents, in order.
    pub newest: Vec<(ExtentKey, Bytes)>,
    /// Number of consecutive batches.
    pub batches: usize,
    /// The position of the next batch.
    pub end: LogPosition,
    /// Some durable batches could not be read.
    pub damaged: bool,
    /// How often the cache had been started when it last took the log into use; `None`: not known.
    pub start: Option<u32>,
}

/// Reads a write log from `position` on, as a start does. Takes RAM for the contents.
///
/// # Errors
/// As [`logged`].
pub async fn log_contents<L: Device>(log: &L, position: LogPosition) -> Result<LogContents, Error> {
    let label = read_label(log).await?.filter(|label| label.uuid == position.uuid);
    let label = label.ok_or(Error::LogMissing { uuid: position.uuid, another: true })?;
    let row = read_row(log, &label, position).await?;
    Ok(LogContents {
        newest: newest(&row).into_iter().collect(),
        batches: row.batches.len(),
        end: LogPosition { sequence: row.next_sequence, offset: row.end, ..position },
        damaged: row.damaged,
        start: label.start,
    })
}
