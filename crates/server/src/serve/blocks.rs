//! The logical blocks of volumes, and partition tables that count in other ones.

use super::connections::sleep;
use crate::origins::{Backing, OpenOrigin};
use bytes::Bytes;
use futures_util::future::{Either, select};
use nitro_config::VolumeConfig;
use nitro_console::error::Error;
use nitro_detect::{Detector, Table, table_in};
use nitro_port::{Device, DeviceError};
use std::pin::pin;
use std::time::Duration;

/// The sizes of logical blocks in bytes.
const SMALL: u32 = 512;
const LARGE: u32 = 4096;
/// Bytes at the beginning of a volume that have the headers of partition tables of both sizes.
const HEAD_BYTES: u64 = 8192;
/// RAM to recognise file systems with.
const RAM_BYTES: u64 = 1 << 20;
/// Longest wait for the origin.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Bytes of a volume's logical blocks: those that its configuration asks for, otherwise those of its origin.
///
/// # Errors
/// The origin has larger blocks, or is not a whole number of them.
pub(super) fn size_of(name: &str, config: &VolumeConfig, origin: &OpenOrigin) -> Result<u32, Error> {
    let least = least_of(origin);
    let Some(asked) = config.block_size else { return Ok(least) };
    let what = format!("volume.{name}.block_size = {}", asked.0);
    if asked.0 < u64::from(least) {
        let why = format!("its origin {} has blocks of {least} bytes", config.origin.display());
        return Err(Error::new(what, why).or(format_args!("use {least}, or leave it out")));
    }
    let size_bytes = origin.look.size_bytes;
    if !size_bytes.is_multiple_of(asked.0) {
        let why = format!("its origin {} has {size_bytes} bytes, which are no multiple", config.origin.display());
        return Err(
            Error::new(what, why).or(format_args!("make it {} bytes long", size_bytes.next_multiple_of(asked.0)))
        );
    }
    Ok(u32::try_from(asked.0).unwrap_or(LARGE))
}

/// The smallest logical blocks that a volume of the origin can have.
fn least_of(origin: &OpenOrigin) -> u32 {
    if origin.identity.block_bytes() > SMALL { LARGE } else { SMALL }
}

/// Describes the partition table of an origin if it counts in other blocks than clients get.
pub(super) async fn mismatch(origin: &OpenOrigin, block_bytes: u32) -> Option<String> {
    let (table, counts) = match select(pin!(find(&origin.device, block_bytes)), pin!(sleep(WAIT_MAX))).await {
        Either::Left((found, _)) => found.ok()??,
        // Whether it answers shows when it is served.
        Either::Right(_) => return None,
    };
    let way_out = if counts >= least_of(origin) {
        format!("set block_size = {counts}")
    } else {
        format!("serve it by a loop device with such blocks (losetup -b {counts}), or partition it anew")
    };
    Some(format!(
        "its {} counts in blocks of {counts} bytes, and clients get blocks of {block_bytes}, with which they do not find its \
         partitions: {way_out}",
        table.as_str(),
    ))
}

/// A partition table that counts in other blocks than those of `block_bytes`, and the size of the blocks in which it does.
async fn find(device: &Backing, block_bytes: u32) -> Result<Option<(Table, u32)>, DeviceError> {
    let head = read(device, 0..HEAD_BYTES).await?;
    let other = if block_bytes == SMALL { LARGE } else { SMALL };
    Ok(match table_in(&head) {
        Some((table, Some(counts))) if counts == u64::from(other) => Some((table, other)),
        // An MBR does not say in which blocks it counts. Where file systems begin shows it.
        Some((table, None))
            if !finds_file_systems(device, &head, block_bytes).await?
                && finds_file_systems(device, &head, other).await? =>
        {
            Some((table, other))
        }
        _ => None,
    })
}

/// Whether there are file systems where the partitions begin, if their table counts in such blocks.
async fn finds_file_systems(device: &Backing, head: &[u8], block_bytes: u32) -> Result<bool, DeviceError> {
    let mut detector = Detector::new(RAM_BYTES).with_blocks(block_bytes);
    detector.look(0, head);
    for range in detector.worth_reading() {
        if detector.knows_any() {
            return Ok(true);
        }
        let start = range.start / HEAD_BYTES * HEAD_BYTES;
        let bytes = read(device, start..range.end).await?;
        detector.look(start, &bytes);
    }
    Ok(detector.knows_any())
}

/// Reads a range, which begins at a block, as far as the device has it.
async fn read(device: &Backing, range: std::ops::Range<u64>) -> Result<Bytes, DeviceError> {
    let geometry = device.geometry();
    let end = range.end.next_multiple_of(HEAD_BYTES).min(geometry.size_bytes);
    let len = end.saturating_sub(range.start);
    if len == 0 { Ok(Bytes::new()) } else { device.read(range.start, len as usize).await }
}
